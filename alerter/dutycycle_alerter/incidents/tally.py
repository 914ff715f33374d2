"""What became of incidents, added up from their events: how many opened, were resolved or reopened, and after how long.

Nothing is ever subtracted, whatever the store forgets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from dutycycle_alerter.incidents import reporting
from dutycycle_alerter.incidents.model import DEVICE_CLASSES, EventKind, Resolution, Severity
from dutycycle_alerter.settings import Rules

COUNTED = (EventKind.OPENED, EventKind.RESOLVED, EventKind.REOPENED)
"""Kinds of events that are added up."""

BOUNDS = (300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 345600, 604800)
"""Upper bounds in seconds by which times to resolve are counted; those beyond are, too."""

_MOST_REMEMBERED = 10_000
_OTHER = "other"
_RULES = (*DEVICE_CLASSES, *Rules.ORDER, _OTHER)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of one of the kinds that count, and its incident as it is now. `kind` is the incident's class; `rule`
    and `severity` are those that the event names, else the incident's. Times in Unix seconds, `wasted` in GPU-seconds.
    """

    number: int
    event: EventKind
    at: float
    incident_id: int
    kind: str
    rule: str
    severity: str
    resolution: str
    opened_at: float
    resolved_at: float | None
    wasted: float


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums since an alerter's start; `seconds` are the times to resolve by rule, as (how many up to each of `BOUNDS`
    and beyond, their sum). Every rule that there is has its zeros; one that is not (of a former release) is `other`,
    for what begins at 1 does not grow. `known` is how much of the waste of incidents that may reopen is in it already.
    """

    opened: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: dict.fromkeys(product(_RULES, map(str, Severity)), 0)
    )
    resolved: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: dict.fromkeys(product(_RULES, map(str, Resolution)), 0)
    )
    reopened: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(_RULES, 0))
    wasted: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(_RULES, 0.0))
    seconds: Mapping[str, tuple[tuple[int, ...], float]] = field(default_factory=dict)
    known: Mapping[int, float] = field(default_factory=dict)

    def times(self) -> Mapping[str, tuple[tuple[int, ...], float]]:
        """The times to resolve, also of rules of which nothing was resolved."""
        nothing = ((0,) * (len(BOUNDS) + 1), 0.0)
        return dict.fromkeys(_RULES, nothing) | dict(self.seconds)

    def forgetful(self) -> Tally:
        """The sums for a new term: what others counted of an incident meanwhile is not known."""
        return replace(self, known={})

    def with_(self, happened: Iterable[Happened]) -> Tally:
        """The sums with what happened since, oldest first. Reports are left out: they were never open."""
        opened, resolved, reopened = Counter(self.opened), Counter(self.resolved), Counter(self.reopened)
        wasted, seconds, known = Counter(self.wasted), dict(self.seconds), dict(self.known)
        for one in happened:
            if one.kind == reporting.KIND:
                continue
            rule = one.rule if one.rule in _RULES else _OTHER
            if one.event is EventKind.OPENED:
                opened[rule, one.severity] += 1
            elif one.event is EventKind.REOPENED:
                reopened[rule] += 1
                # Of one that was resolved in a former term, what it wasted until then was counted in that.
                known.setdefault(one.incident_id, one.wasted)
            else:
                resolved[rule, one.resolution] += 1
                wasted[rule] += max(0.0, one.wasted - known.pop(one.incident_id, 0.0))  # type: ignore[assignment]
                known[one.incident_id] = one.wasted
                took = max(0.0, (one.at if one.resolved_at is None else one.resolved_at) - one.opened_at)
                seconds[rule] = _longer(seconds.get(rule), took)
        newest = list(known.items())[-_MOST_REMEMBERED:]
        return Tally(opened, resolved, reopened, wasted, seconds, dict(newest))


def _longer(before: tuple[tuple[int, ...], float] | None, took: float) -> tuple[tuple[int, ...], float]:
    counts, total = before or ((0,) * (len(BOUNDS) + 1), 0.0)
    place = bisect_left(BOUNDS, took)
    return (*counts[:place], counts[place] + 1, *counts[place + 1 :]), total + took
