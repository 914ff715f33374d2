"""Which mails users would have had. Only counted: nothing is sent."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from dutycycle_alerter.incidents.audience import owner_hears
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.settings.policies import Attention

COST = 24 * 3600.0
"""Wasted GPU-seconds of a user within a week; above it efficiency rules are mailed."""
WEEK = 7 * 86400.0
AT_ONCE = frozenset({"idle", "hung"})
"""The rules that are mailed at critical, whatever they cost."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail about one incident to the user of its job. `cost` tells that the week's waste made it due, else the
    severity did.
    """

    at: float
    user: str
    subject: str
    opened_at: float
    rule: str
    cost: bool


class Mailbox:
    """Collects the mails of one configuration. Durations are divided by `time_scale`, and so is what GPUs waste."""

    def __init__(self, time_scale: float) -> None:
        self._week, self._cost = WEEK / time_scale, COST / time_scale
        self._wasted: defaultdict[str, deque[tuple[float, float]]] = defaultdict(deque)
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._mailed: set[tuple[str, float]] = set()
        self.mails: list[Mail] = []

    def waste(self, user: str, at: float, seconds: float) -> None:
        """A user's jobs wasted so many GPU-seconds more, within incidents."""
        if user and seconds > 0:
            self._wasted[user].append((at, seconds))
            self._sums[user] += seconds

    def consider(self, incident: Incident, at: float) -> None:
        """Mail the user about an open incident, if it is due and was not mailed before."""
        key = (incident.subject, incident.opened_at)
        if not incident.user or key in self._mailed or not incident.state.active:
            return
        heard = {rule.rule: owner_hears(rule) for rule in incident.rules}
        urgent = [rule for rule, level in heard.items() if level is Attention.CRITICAL and rule in AT_ONCE]
        worth = [rule for rule, level in heard.items() if level in (Attention.WARNING, Attention.CRITICAL)]
        dear = self._week_of(incident.user, at) > self._cost
        if urgent or (worth and dear):
            self._mailed.add(key)
            rule = (urgent or worth)[0]
            self.mails.append(Mail(at, incident.user, incident.subject, incident.opened_at, rule, cost=not urgent))

    def _week_of(self, user: str, at: float) -> float:
        parts = self._wasted[user]
        while parts and parts[0][0] <= at - self._week:
            self._sums[user] -= parts.popleft()[1]
        return self._sums[user]
