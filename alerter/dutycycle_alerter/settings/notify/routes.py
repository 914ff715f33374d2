"""The routes: which incidents each receiver is notified of, about whom, and in which portions."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from dutycycle_alerter.settings.calendar import Clock, Day
from dutycycle_alerter.settings.matching import ANY, Patterns
from dutycycle_alerter.settings.notify.receivers import ReceiverName
from dutycycle_alerter.settings.types import Duration, Section


class News(StrEnum):
    """What is new about an incident. `updated` is whatever else changed: its rules, its cause, what a person did."""

    OPENED = "opened"
    REOPENED = "reopened"
    ESCALATED = "escalated"
    UPDATED = "updated"
    RESOLVED = "resolved"


class Digest(StrEnum):
    """How often a digest comes."""

    DAILY = "daily"
    WEEKLY = "weekly"


class Route(Section):
    """A receiver is notified of incidents with which every field matches. Among the routes to one receiver and
    audience, the first that matches counts.
    """

    receiver: ReceiverName
    """The receiver's name."""
    audience: Literal["operators", "owner"] = "operators"
    """Who is notified: the receiver's own address, or the user of the job, as set in `notify.owners`."""
    rules: Patterns = ANY
    """Pattern of the primary rule."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """The lowest severity that is sent."""
    scheduler: Patterns = ANY
    """Pattern of the scheduler: `slurm`, `k8s`, `local`; empty for GPUs and nodes."""
    cluster: Patterns = ANY
    """Pattern of the cluster."""
    account: Patterns = ANY
    """Pattern of the account."""
    namespace: Patterns = ANY
    """Pattern of the Kubernetes namespace."""
    partition: Patterns = ANY
    """Pattern of the Slurm partition."""
    user: Patterns = ANY
    """Pattern of the user."""
    node: Patterns = ANY
    """Pattern of any of its nodes."""
    news: tuple[News, ...] | None = Field(default=None, min_length=1)
    """What is sent. By default everything to Slack, Alertmanager and webhooks, and to others what opened or became
    worse: for users that is what became critical for them.
    """
    group_by: tuple[
        Literal["rule", "severity", "cluster", "scheduler", "account", "namespace", "user", "node"], ...
    ] = ()
    """Incidents that agree in these come in one message; by default everything for one recipient."""
    group_wait: Duration = 60
    """How long a message waits for more news of its group."""
    group_interval: Duration = 900
    """Minimum time between two messages of one group."""
    digest: Digest | None = None
    """Send it in a daily or weekly digest instead of at once,"""
    digest_at: Clock = "08:00"
    """at this time of day in `notify.timezone`,"""
    digest_day: Day = Day.MON
    """and on this day, if it is weekly."""

    @property
    def portions(self) -> tuple[str, ...]:
        """The keys that say what is sent of its incidents and when, as far as they are not at their defaults."""
        names = ("news", "group_by", "group_wait", "group_interval", "digest", "digest_at", "digest_day")
        return tuple(name for name in names if getattr(self, name) != type(self).model_fields[name].default)


class Weekly(Section):
    """The operators' weekly report: who used how much and how well, what was wasted, which rules were wrong."""

    receiver: ReceiverName
    """The receiver's name: email, Slack or a webhook."""
    day: Day = Day.MON
    """When it is sent, in `notify.timezone`."""
    at: Clock = "08:00"
    """At which time of day."""
    since: Duration = 7 * 86400
    """How far it looks back, in full hours; a week is from one report to the next, also where clocks change."""
