"""Shares with the uncertainty that their number of cases leaves, and quantiles."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Z = 1.959964
"""Of a normal distribution, 95 % lie within so many standard deviations."""

FEW = 5


@dataclass(frozen=True)
class Share:
    """`hits` of `of` cases. Of none it is None: neither good nor bad."""

    hits: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.of:
            raise ValueError(f"{self.hits} of {self.of} is no share")

    @property
    def value(self) -> float | None:
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval; it stays within 0..1 and has a width also at 0 and 1."""
        if not self.of:
            return None
        n, p = self.of, self.hits / self.of
        middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return "-"
        low, high = self.interval
        return f"{self.value:.3f} [{low:.3f}, {high:.3f}] of {self.of}"


def share(answers: Iterable[bool]) -> Share:
    """How many of some answers are yes."""
    known = list(answers)
    return Share(sum(known), len(known))


def over_seeds(shares: Sequence[Share], draws: int = 2000) -> tuple[float, float] | None:
    """A 95 % interval from drawing whole runs again: cases within one have users, nodes and sweeps in common. None of
    less than five runs.
    """
    if len(shares) < FEW:
        return None
    draw = random.Random(1)
    means = []
    for _ in range(draws):
        drawn = draw.choices(shares, k=len(shares))
        if of := sum(one.of for one in drawn):
            means.append(sum(one.hits for one in drawn) / of)
    low, high = quantile(means, 0.025), quantile(means, 0.975)
    return None if low is None or high is None else (low, high)


def quantile(values: Sequence[float], q: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None of none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
