"""Distributions as a file of parameters writes them, and how to draw from them.

0.5                                        always this
[1, 3]                                     uniform
{ log = [0.1, 10] }                        uniform in the logarithm
{ median = 70, sigma = 0.8, low = 5, high = 300 }      lognormal, cut off
{ choices = [1, 2, 4], weights = [6, 3, 1] }           one of these
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Distribution(Protocol):
    """Something that a number is drawn from."""

    def draw(self, random: np.random.Generator) -> float:
        """One number."""


@dataclass(frozen=True)
class Always:
    """One value."""

    value: float

    def draw(self, random: np.random.Generator) -> float:  # noqa: ARG002 - drawn like the others
        return self.value


@dataclass(frozen=True)
class Uniform:
    """Between two values, or between their logarithms."""

    low: float
    high: float
    logarithmic: bool = False

    def draw(self, random: np.random.Generator) -> float:
        if self.logarithmic:
            return float(np.exp(random.uniform(np.log(self.low), np.log(self.high))))
        return float(random.uniform(self.low, self.high))


@dataclass(frozen=True)
class Lognormal:
    """By its median and the spread of its logarithm, and cut off: what lies outside is drawn again."""

    median: float
    sigma: float
    low: float
    high: float

    def draw(self, random: np.random.Generator) -> float:
        for _ in range(1000):
            value = self.median * float(np.exp(random.normal(0, self.sigma)))
            if self.low <= value <= self.high:
                return value
        raise ValueError(f"hardly anything of {self} lies between its bounds")


@dataclass(frozen=True)
class Choices:
    """One of several values, by their weights."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def draw(self, random: np.random.Generator) -> float:
        return self.values[pick(self.weights, random)]


def pick(weights: Sequence[float], random: np.random.Generator) -> int:
    """A place, as likely as its weight."""
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, random.uniform(0, sums[-1]), side="right"))


_KEYS = {
    frozenset(("log",)),
    frozenset(("median", "sigma", "low", "high")),
    frozenset(("choices", "weights")),
}


def parse(written: object) -> Distribution:
    """ValueError where it is none of the forms."""
    if _is_number(written):
        return Always(float(written))  # type: ignore[arg-type]
    if isinstance(written, Sequence) and not isinstance(written, str):
        return Uniform(*_rising(written))
    if not isinstance(written, Mapping) or frozenset(written) not in _KEYS:
        raise ValueError(
            "a number, [low, high], { log = [low, high] }, { median, sigma, low, high } or { choices, weights } "
            "is needed"
        )
    if "log" in written:
        low, high = _rising(written["log"])
        if low <= 0:
            raise ValueError("a logarithm needs values over 0")
        return Uniform(low, high, logarithmic=True)
    if "median" in written:
        return _lognormal(written)
    values, weights = written["choices"], written["weights"]
    if not (_numbers(values) and _numbers(weights) and len(values) == len(weights) > 0):
        raise ValueError("as many weights as choices are needed, all of them numbers")
    if min(weights) < 0 or sum(weights) <= 0:
        raise ValueError("weights are not negative, and not all of them 0")
    return Choices(tuple(map(float, values)), tuple(map(float, weights)))


def _lognormal(written: Mapping[str, object]) -> Lognormal:
    values = [written[name] for name in ("median", "sigma", "low", "high")]
    if not _numbers(values):
        raise ValueError("median, sigma, low and high are numbers")
    found = Lognormal(*map(float, values))  # type: ignore[arg-type]
    if not (0 < found.low <= found.high and found.median > 0 and found.sigma >= 0):
        raise ValueError("0 < low <= high, median > 0 and sigma >= 0 are needed")
    return found


def _rising(written: object) -> tuple[float, float]:
    if not _numbers(written) or len(written) != 2 or written[0] > written[1]:  # type: ignore[arg-type,index]
        raise ValueError("two numbers, the lower one first, are needed")
    return float(written[0]), float(written[1])  # type: ignore[index]


def _numbers(written: object) -> bool:
    return isinstance(written, Sequence) and not isinstance(written, str) and all(map(_is_number, written))


def _is_number(written: object) -> bool:
    return isinstance(written, int | float) and not isinstance(written, bool)
