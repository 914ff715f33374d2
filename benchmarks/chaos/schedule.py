"""Which faults happen when: drawn by a seed, alone and over one another, with calm times in between."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from .faults import FAULTS, Fault

_FIRST = 10.0
"""Wall seconds before the first."""
_GAP = (4.0, 10.0)
"""Wall seconds between one round of faults and the next."""
_MOST_AT_ONCE = 3
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
    *,
    often: int = 5,
    kinds: Mapping[str, type[Fault]] = FAULTS,
    only: frozenset[str] = frozenset(),
) -> Plan:
    """The same for the same arguments. Every `often` rounds there is a calm time of `calm` wall seconds, as long as a
    verdict takes. All kinds have had their turn before one has its second. With `only`, faults of these kinds alone.
    """
    chance = random.Random(seed)
    names = sorted(only or kinds)
    deck: list[str] = []
    planned: list[Planned] = []
    at, rounds = _FIRST, 0
    while True:
        together = 1 if only else chance.choices(range(1, _MOST_AT_ONCE + 1), _TOGETHER)[0]
        drawn: list[Planned] = []
        for _ in range(together):
            if not deck:
                deck = chance.sample(names, len(names))
            fault = kinds[deck.pop()].draw(chance)
            begin = at + (chance.uniform(0, 5) if drawn else 0.0)
            if any(fault.touches & other.fault.touches for other in drawn):
                deck.insert(0, fault.name)
                continue
            drawn.append(Planned(begin, begin + chance.uniform(*fault.lasts), fault))
        end = max(one.until for one in drawn)
        if end > length - calm:
            break
        planned += drawn
        rounds += 1
        at = end + (calm if rounds % often == 0 else chance.uniform(*_GAP))
    return Plan(length, calm, tuple(sorted(planned, key=lambda one: one.at)))
