"""Which faults happen when: drawn by a seed, alone and over one another, with calm times in between."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from .cases import GRACE, LOOKS
from .faults import FAULTS, Fault
from .happened import EVERY_NODE
from .promises.quiet import recovery_at

_FIRST = 10.0
"""Wall seconds before the first."""
_GAP = (4.0, 10.0)
"""Wall seconds between one round of faults and the next."""
_MOST_AT_ONCE = 3
_EXPORTERS = ("nvml:", "kubelet:", "restart:")
"""What exporters say."""
_TOLD = frozenset({"mail", "slack", "webhook", "alertmanager"})
"""Parts to which nothing is done before there is anything to tell."""
_TOGETHER = (0.5, 0.35, 0.15)
"""Chances that a round has one fault, two, three."""


@dataclass(frozen=True)
class Planned:
    """A fault from `at` to `until`, wall seconds from the beginning."""

    at: float
    until: float
    fault: Fault


@dataclass(frozen=True)
class Plan:
    """What happens in `length` wall seconds; the last `calm` ones are for settling."""

    length: float
    calm: float
    faults: tuple[Planned, ...]


def plan(
    seed: int,
    length: float,
    calm: float,
    time_scale: float,
    *,
    often: int = 5,
    kinds: Mapping[str, type[Fault]] = FAULTS,
    only: frozenset[str] = frozenset(),
) -> Plan:
    """The same for the same arguments. Every `often` rounds there is a calm time of `calm` wall seconds, as long as a
    verdict takes. All kinds have had their turn before one has its second. With `only`, faults of these kinds alone.
    What has to be told lasts as long as that takes on the clock of `time_scale`, and nothing is in the way of it; so
    does what another alerter has to take over, after what was in the way of it before.
    """
    chance = random.Random(seed)
    names = sorted(only or kinds)
    deck: list[str] = []
    planned: list[Planned] = []
    at, rounds = _FIRST, 0
    recovery = recovery_at(time_scale)
    first_told = (GRACE + LOOKS["idle"]) / time_scale
    while True:
        together = 1 if only else chance.choices(range(1, _MOST_AT_ONCE + 1), _TOGETHER)[0]
        drawn: list[Planned] = []
        for _ in range(together):
            if not deck:
                deck = chance.sample(names, len(names))
            fault = kinds[deck.pop()].draw(chance)
            begin = at + (chance.uniform(0, 5) if drawn else 0.0)
            if fault.touches & _TOLD:
                begin = max(begin, first_told)
            begin = max([begin, *(one.until + recovery for one in planned if _delays(one.fault, fault))])
            if any(_exclude(fault, other.fault) for other in drawn):
                deck.insert(0, fault.name)
                continue
            lasts = max(chance.uniform(*fault.lasts), fault.outlasts(time_scale))
            drawn.append(Planned(begin, begin + lasts, fault))
        end = max(one.until for one in drawn)
        if end > length - calm:
            break
        planned += drawn
        rounds += 1
        at = end + (calm if rounds % often == 0 else chance.uniform(*_GAP))
    return Plan(length, calm, tuple(sorted(planned, key=lambda one: one.at)))


def _exclude(one: Fault, other: Fault) -> bool:
    """Whether they may not happen at once."""
    return bool(one.touches & other.touches) or _in_the_way(one, other) or _in_the_way(other, one)


def _delays(one: Fault, other: Fault) -> bool:
    """Whether the other may not begin before all has recovered from it."""
    # At once they may happen: who evaluates and goes away while the database does is worth a look, too.
    alerters = "evaluation" in one.effects.halts or "alerters" in one.touches
    return _in_the_way(one, other) or (other.hands_over and alerters)


def _in_the_way(one: Fault, of: Fault) -> bool:
    """Whether it could not be seen for the one that the other is told."""
    blinds, broken = one.effects.blinds, of.effects.broken
    # Of the second GPU that a node loses nobody could say whether it is told: of the first it still is.
    hides = bool(broken) and bool(EVERY_NODE in blinds or (blinds | one.effects.broken) & broken)
    # Exporters tell it themselves; all else an alerter does.
    alerters = bool(broken) or any(not said.startswith(_EXPORTERS) for said in of.effects.says)
    return hides or (alerters and "evaluation" in one.effects.halts)
