"""The seeds that were asked for: which of them count, and why the others do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import Scenario
from .played import Played

NOT_PLAYED = "not played"


@dataclass(frozen=True)
class Seed:
    """One seed's plan, and its outcome; `why` there is none that counts, else empty."""

    scenario: Scenario
    played: Played | None = None
    why: str = NOT_PLAYED

    @property
    def number(self) -> int:
        return self.scenario.seed

    def with_outcome(self, played: Played, *, late_counts: bool) -> Seed:
        return Seed(self.scenario, played, "; ".join(played.spoilt(late_counts=late_counts)))


def counting(seeds: Iterable[Seed]) -> list[tuple[Scenario, Played]]:
    """Those that make the figures."""
    return [(seed.scenario, seed.played) for seed in seeds if seed.played is not None and not seed.why]


def summary(seeds: Sequence[Seed], usual: int) -> str:
    """How many of them count, of how many there usually are, and what became of the others."""
    count = len(counting(seeds))
    left: defaultdict[str, list[int]] = defaultdict(list)
    for seed in seeds:
        if seed.why:
            left[seed.why].append(seed.number)
    asked = "" if len(seeds) == usual else f", {len(seeds)} asked for"
    others = "".join(f"; {why}: {ranges(numbers)}" for why, numbers in left.items())
    return f"{count} of the usual {usual} seeds{asked}{others}"


def ranges(numbers: Iterable[int]) -> str:
    """As `1-3, 7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{some[0]}-{some[-1]}" if len(some) > 1 else str(some[0]) for some in found)
