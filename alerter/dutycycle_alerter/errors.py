"""The alerter's errors: one base, caught in one place per loop."""

from __future__ import annotations

from collections.abc import Mapping


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

    def __init__(self, incident_id: int) -> None:
        super().__init__(f"there is no incident {incident_id}, or it is older than the store keeps")


class TransitionError(AlerterError):
    """An incident in this state cannot be changed in this way."""


class ExpectationError(AlerterError):
    """What somebody says was intended is not said as it must be: its reason, its end, or of whom."""

    usage = True


class ExpectationNotFoundError(AlerterError):
    """There is no expectation with that number."""


class DeliveryError(AlerterError):
    """A message could not be delivered. `permanent` tells that trying again is of no use; `retry_after` is in how many
    wall seconds the receiver wants to be asked again, where it says so.

    `threads`, `addresses` and `refused` are as in a receipt, of what was delivered all the same: these incidents have
    been told, these addresses have it, and these never will. They are not tried again.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        threads: Mapping[int, Mapping[str, str]] | None = None,
        addresses: tuple[str, ...] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after
        self.threads = threads or {}
        self.addresses = addresses
        self.refused = refused or {}
