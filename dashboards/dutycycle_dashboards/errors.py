"""What the dashboards' commands report to a person: one base, caught in `cli.main`."""

from __future__ import annotations


class DashboardsError(Exception):
    """The message names the thing, what is wrong and the remedy."""

    usage = False
    """Whether the person's input is at fault (exit code 2) rather than the world (1)."""


class UsageError(DashboardsError):
    """What was asked for cannot be done as it was asked."""

    usage = True


class GrafanaError(DashboardsError):
    """Grafana did not do what it was asked to."""

    status: int | None = None
    """What it answered with, where it answered."""


class ConflictError(GrafanaError):
    """Somebody else changed it since it was read."""


class TakenError(GrafanaError):
    """Something else already has that uid or name."""


class MissingError(GrafanaError):
    """Grafana has no such thing."""


class AlerterError(DashboardsError):
    """The alerter's API did not answer as it should."""
