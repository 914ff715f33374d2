"""The alerter's errors: one base, caught in one place per loop."""


class AlerterError(Exception):
    """Anything the alerter reports to a person: the message names the thing, what is wrong and the remedy.

    `usage` tells that the person's input or configuration is at fault (exit code 2) rather than the world (1).
    """

    usage = False


class ConfigError(AlerterError):
    """The configuration cannot be used."""

    usage = True


class RecordingError(AlerterError):
    """A recording cannot be read as a whole (a single bad line is counted instead)."""

    usage = True


class SourceError(AlerterError):
    """Evidence could not be read this time."""


class LateError(SourceError):
    """Who was asked did not answer in time: asking more would wait as long again."""


class StoreError(AlerterError):
    """The store cannot be used."""


class StoreUrlError(StoreError):
    """The store's URL cannot be used as it is written."""

    usage = True


class LeaseLostError(StoreError):
    """This alerter no longer evaluates: what it was about to write was not written."""


class IncidentNotFoundError(AlerterError):
    """There is no incident with that number."""


class TransitionError(AlerterError):
    """An incident in this state cannot be changed in this way."""
