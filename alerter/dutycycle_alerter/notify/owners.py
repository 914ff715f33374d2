"""When the user of a job is told of it: pure, and the same for what is sent and for what a backtest counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dutycycle_alerter.incidents.audience import critical_for_owner, owner_hears
from dutycycle_alerter.incidents.model import OpenRule, Resolution, Severity
from dutycycle_alerter.settings.notify import Owners
from dutycycle_alerter.settings.policies import Attention

_HEARD = (Attention.WARNING, Attention.CRITICAL)
UNCOUNTED = frozenset({Resolution.INTENDED, Resolution.EXCLUDED})
"""Resolutions of incidents whose waste does not count towards what a user is notified for."""


@dataclass(frozen=True, slots=True)
class Due:
    """The user is to be told, because of this rule: for what their jobs wasted (`cost`), or for its severity."""

    rule: str
    cost: bool


def due(rules: Iterable[OpenRule], wasted: float, owners: Owners, *, time_scale: float) -> Due | None:
    """Whether the user of a job is to be told of an active incident with these open rules; None: not yet.

    `wasted` is GPU-seconds (wall) that the user's jobs wasted within incidents over `owners.within`.
    """
    urgent = worth = ""
    for rule in rules:
        level = owner_hears(rule)
        if level is Attention.CRITICAL and rule.rule in owners.at_once:
            urgent = urgent or rule.rule
        if level in _HEARD:
            worth = worth or rule.rule
    if urgent:
        return Due(urgent, cost=False)
    dear = wasted * time_scale > owners.wasted_gpu_hours * 3600
    return Due(worth, cost=True) if worth and dear else None


def is_critical(rules: Collection[OpenRule], severity: Severity) -> bool:
    """Whether an incident is critical for the user of the job: by its open rules, or by its severity where it is over,
    when what the user was to hear of each is gone with them.
    """
    return bool(critical_for_owner(rules)) if rules else severity is Severity.CRITICAL


def heard(rules: Iterable[OpenRule]) -> Attention:
    """The most that the user of a job is to hear of these open rules: critical, warning, or nothing."""
    levels = {owner_hears(rule) for rule in rules}
    return next((level for level in reversed(_HEARD) if level in levels), Attention.NONE)


@dataclass(frozen=True, slots=True)
class Waste:
    """GPU-seconds that one incident wasted between two instants; `until` is when it was last added to."""

    since: float
    until: float
    wasted: float

    def after(self, start: float) -> float:
        """The part of it after an instant, as if it had been wasted evenly."""
        if self.since >= start or self.until <= self.since:
            return self.wasted if self.until >= start else 0.0
        return self.wasted * max(0.0, self.until - start) / (self.until - self.since)
