"""Which mails users would have had, by the rule by which they are sent. Only counted: nothing is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.incidents.audience import critical_for_owner
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.owners import Waste, due
from dutycycle_alerter.settings.notify import Owners


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail about one incident to the user of its job. `cost` tells that what the user's jobs wasted made it due,
    else the severity did.
    """

    at: float
    user: str
    subject: str
    opened_at: float
    rule: str
    cost: bool


class Mailbox:
    """Collects the mails of one configuration. `owners` is scaled (wall seconds)."""

    def __init__(self, owners: Owners, time_scale: float) -> None:
        self._owners, self._time_scale = owners, time_scale
        self._incidents: defaultdict[str, dict[tuple[str, float], Incident]] = defaultdict(dict)
        self._users: dict[tuple[str, float], str] = {}
        self._mailed: dict[tuple[str, float, str], Incident] = {}
        self.mails: list[Mail] = []

    def keep(self, incident: Incident) -> None:
        """An incident as it is now: what it wasted counts for its user, who may have become known only now."""
        if not incident.user:
            return
        key = incident.subject, incident.opened_at
        before = self._users.setdefault(key, incident.user)
        if before != incident.user:
            self._incidents[before].pop(key, None)
            self._users[key] = incident.user
        self._incidents[incident.user][key] = incident

    def consider(self, incidents: Iterable[Incident], at: float) -> None:
        """Mail the users about incidents that are active, where that is due and they were not mailed before, and once
        more where one became critical for them since.
        """
        sums: dict[str, float] = {}
        for incident in incidents:
            user = incident.user
            key = incident.subject, incident.opened_at, user
            if not user or not incident.state.active:
                continue
            if key in self._mailed:
                self._again(incident, self._mailed[key], at)
                continue
            if due(incident.rules, float("inf"), self._owners, time_scale=self._time_scale) is None:
                continue
            if user not in sums:
                sums[user] = self._wasted(user, at - self._owners.within)
            found = due(incident.rules, sums[user], self._owners, time_scale=self._time_scale)
            if found is not None:
                self._mailed[key] = incident
                self.mails.append(Mail(at, user, incident.subject, incident.opened_at, found.rule, found.cost))

    def _again(self, incident: Incident, mailed: Incident, at: float) -> None:
        before = critical_for_owner(mailed.rules)
        joined = critical_for_owner(incident.rules) - before
        # Where one was critical already, one more is told if it is one that is told at once.
        worse = joined & frozenset(self._owners.at_once) if before else joined
        if not worse:
            return
        self._mailed[incident.subject, incident.opened_at, incident.user] = incident
        rule = next(one.rule for one in incident.rules if one.rule in worse)
        self.mails.append(Mail(at, incident.user, incident.subject, incident.opened_at, rule, cost=False))

    def _wasted(self, user: str, since: float) -> float:
        kept = self._incidents[user]
        for key in [key for key, item in kept.items() if item.resolved_at is not None and item.resolved_at <= since]:
            del kept[key]
        return sum(_waste(item).after(since) for item in kept.values())


def _waste(incident: Incident) -> Waste:
    until = incident.known_at if incident.resolved_at is None else incident.resolved_at
    return Waste(incident.started_at, until, incident.wasted)
