"""Which receivers are told of an incident, by the routes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dutycycle_alerter.incidents.audience import Audience, audience
from dutycycle_alerter.incidents.model import Incident, OpenRule, Severity
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from dutycycle_alerter.notify.owners import heard
from dutycycle_alerter.notify.slots import Slots
from dutycycle_alerter.settings.calendar import zone_of
from dutycycle_alerter.settings.matching import ANY, matches_any
from dutycycle_alerter.settings.notify import Digest, News, Notify, ReceiverSettings, Route
from dutycycle_alerter.settings.policies import Attention

LOUD = frozenset({News.OPENED, News.REOPENED, News.ESCALATED})
"""What brings an incident to somebody's attention; the rest is for those who know of it."""

THREADED = frozenset({"slack"})
"""Kinds of receivers that go on with what they said of an incident: each incident has a message of its own."""

PROGRAMS = frozenset({"alertmanager", "webhook"})
"""Kinds that no person reads: everything is said, in as many messages as it takes."""

_DAY = 86400.0
_EVERYTHING = frozenset(News)
_TOLD_EVERYTHING = THREADED | PROGRAMS
_TEXTS = ("scheduler", "cluster", "account", "namespace", "partition", "user")
_RANKS = {Attention.WARNING: Severity.WARNING.rank, Attention.CRITICAL: Severity.CRITICAL.rank}

Address = tuple[str, Recipient]
"""A receiver's name, and whom it tells."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where news of an incident goes, by which route."""

    receiver: ReceiverSettings
    route: Route
    to: Recipient

    @property
    def address(self) -> Address:
        """The receiver's name and the recipient."""
        return self.receiver.name, self.to

    @property
    def news(self) -> frozenset[News]:
        """What is told. By default, where nothing goes on in a thread, it is what opens and what becomes worse; nobody
        there hears of a condition that comes and goes: who was told of it knows of it.
        """
        if self.route.news is not None:
            return frozenset(self.route.news)
        return _EVERYTHING if self.receiver.kind in _TOLD_EVERYTHING else LOUD - {News.REOPENED}

    def bundle(self, incident: Incident) -> str:
        """Incidents of the same one come in one message: the least time between two of them, and what they agree in."""
        if self.receiver.kind in THREADED and self.route.digest is None:
            return f"0 incident={incident.id}"
        interval = 0.0 if self.receiver.kind == "alertmanager" else self.route.group_interval
        values = (f"{name}={_value(incident, name)}" for name in self.route.group_by)
        return " ".join((f"{interval:g}", *values))


def interval_of(bundle: str) -> float:
    """The least time between two messages of a bundle, in wall seconds."""
    return float(bundle.partition(" ")[0])


class Routing:
    """The routes of a configuration, scaled (wall seconds)."""

    def __init__(self, notify: Notify, time_scale: float = 1.0) -> None:
        self._receivers = {receiver.name: receiver for receiver in notify.receivers}
        self._zone = zone_of(notify.timezone)
        self._time_scale = time_scale
        self.routes = notify.routes
        self.at_once = frozenset(notify.owners.at_once)

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The receivers that tell users of their jobs."""
        return tuple(dict.fromkeys(route.receiver for route in self.routes if route.audience == "owner"))

    def operators(self, incident: Incident) -> list[Destination]:
        """Every receiver that tells operators of the incident: of its routes the first that matches counts; none where
        a policy says that they are not to hear of it.
        """
        if incident.silent:
            return []
        found: dict[str, Destination] = {}
        for route in self.routes:
            if route.audience == "operators" and route.receiver not in found and _matches(route, incident):
                found[route.receiver] = Destination(self._receivers[route.receiver], route, OPERATORS)
        return list(found.values())

    def owner(self, incident: Incident, receiver: str) -> Destination | None:
        """How this receiver tells the user of the job; None where it does not."""
        if not incident.user or audience(incident) is not Audience.OWNER:
            return None
        for route in self.routes:
            if route.audience == "owner" and route.receiver == receiver and _matches_owner(route, incident):
                return Destination(self._receivers[receiver], route, Recipient(To.OWNER, incident.user))
        return None

    def former(self, address: Address) -> Destination | None:
        """How to go on telling somebody who was told of an incident that no route matches any more; None where there
        is no route to them at all.
        """
        name, to = address
        for route in self.routes:
            if route.receiver == name and route.audience == to.to.value:
                return Destination(self._receivers[name], route, to)
        return None

    def due_at(self, destination: Destination, now: float) -> tuple[float, str]:
        """When news of `now` is to go out at the earliest, and in which digest (empty: in none)."""
        route = destination.route
        if route.digest is not None:
            day = route.digest_day if route.digest is Digest.WEEKLY else None
            slots = Slots(route.digest_at, day, self._zone, self._time_scale)
            return slots.after(now), route.digest.value
        # Alertmanager groups by itself.
        return (now if destination.receiver.kind == "alertmanager" else now + route.group_wait), ""

    def longest_wait(self, receiver: str, digest: str) -> float:
        """More seconds than a notice of this digest (empty: of none) is ever due ahead."""
        if digest:
            # A day more than from one to the next: clocks are changed, and so are configurations.
            return _DAY * (8 if digest == Digest.WEEKLY.value else 2) / self._time_scale
        # Twice what is configured: of two alerters the second may see a somewhat earlier time.
        return 2 * max((route.group_wait for route in self.routes if route.receiver == receiver), default=0.0)


def _matches(route: Route, incident: Incident) -> bool:
    if incident.severity.rank < Severity(route.severity).rank:
        return False
    if incident.kind == "report" and route.severity != Severity.INFO.value:
        return False
    return _matches_texts(route, incident)


def rules_of(incident: Incident) -> tuple[OpenRule, ...]:
    """Those that are open, or what it was about where it is over."""
    return incident.rules or (OpenRule(incident.rule, incident.opened_at, incident.severity),)


def _matches_owner(route: Route, incident: Incident) -> bool:
    rank = _RANKS.get(heard(rules_of(incident)), -1)
    return rank >= max(Severity(route.severity).rank, Severity.WARNING.rank) and _matches_texts(route, incident)


def _matches_texts(route: Route, incident: Incident) -> bool:
    if not matches_any(incident.rule, route.rules):
        return False
    if not all(matches_any(getattr(incident, name), getattr(route, name)) for name in _TEXTS):
        return False
    return route.node == ANY or any(matches_any(gpu.node, route.node) for gpu in incident.gpus)


def _value(incident: Incident, name: str) -> str:
    if name == "node":
        return ",".join(sorted({gpu.node for gpu in incident.gpus}))
    value = getattr(incident, name)
    return value.value if isinstance(value, Severity) else str(value)
