"""Shares with the uncertainty that their number of cases leaves, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

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
        return str(Estimate(self, self.interval))


def share(answers: Iterable[bool]) -> Share:
    """How many of some answers are yes."""
    known = list(answers)
    return Share(sum(known), len(known))


@dataclass(frozen=True)
class Estimate:
    """A share with the interval that it is known to lie in at 95 %; None of no case."""

    share: Share
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        if self.share.value is None or self.interval is None:
            return "-"
        low, high = self.interval
        return f"{self.share.value:.3f} [{low:.3f}, {high:.3f}] of {self.share.of}"


def widest(whole: Share, by_run: Sequence[Share]) -> Estimate:
    """With the union of Wilson's interval and that from drawing whole runs again: the one takes cases for independent,
    and the other has no width where all runs agree.
    """
    known = [one for one in (whole.interval, over_seeds(by_run)) if one is not None]
    if not known:
        return Estimate(whole, None)
    return Estimate(whole, (min(low for low, _ in known), max(high for _, high in known)))


def over_seeds(shares: Sequence[Share], draws: int = 2000) -> tuple[float, float] | None:
    """A 95 % interval from drawing whole runs again: cases within one have users, nodes and sweeps in common. None of
    less than five runs.
    """
    if len(shares) < FEW:
        return None
    drawn = np.random.default_rng(1).integers(0, len(shares), (draws, len(shares)))
    hits, of = (np.array(counts)[drawn].sum(axis=1) for counts in zip(*((s.hits, s.of) for s in shares), strict=True))
    means = (hits[of > 0] / of[of > 0]).tolist()
    low, high = quantile(means, 0.025), quantile(means, 0.975)
    return None if low is None or high is None else (low, high)


def most(count: int) -> float:
    """How many rare events may be usual where so many were counted: the upper end of their exact 95 % interval, on that
    side alone. Of none it is 3, the rule of three.
    """
    low, high = float(count), count + 5 * (count + 3) ** 0.5 + 5
    while high - low > 1e-6:
        middle = (low + high) / 2
        below = sum(math.exp(k * math.log(middle) - middle - math.lgamma(k + 1)) for k in range(count + 1))
        low, high = (middle, high) if below > 0.05 else (low, middle)
    return high


def quantile(values: Sequence[float], q: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None of none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
