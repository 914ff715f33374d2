"""Workload mechanisms: how busy one job keeps one GPU, as exact functions of time.

A pattern's time is in seconds of the full-length run and starts at 0 when the job does; the driver divides by its time
scale. Every pattern is piecewise constant, so busy time over any interval is a closed form and never sampled.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol


class Pattern(Protocol):
    """The share of time in which at least one kernel of a job is resident, instant by instant."""

    def busy(self, t: float) -> float:
        """Busy seconds in [0, t], t >= 0; never decreases, by at most the time that passes."""

    def edges(self, start: float, end: float) -> Iterator[float]:
        """The times strictly between start and end at which the level changes, rising."""


@dataclass(frozen=True)
class Level:
    """A constant fraction: short kernels with short gaps, far below the length of a sample (unimodal samples)."""

    fraction: float

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"a level is a fraction, not {self.fraction}")

    def busy(self, t: float) -> float:
        return self.fraction * t

    def edges(self, start: float, end: float) -> Iterator[float]:
        return iter(())


IDLE = Level(0.0)
FULL = Level(1.0)


@dataclass(frozen=True)
class Steps:
    """Training steps: of every `period` seconds the first `duty` share is computed, the rest waits for data."""

    period: float
    duty: float
    offset: float = 0.0
    """Seconds of the first period that have already passed at the start."""

    def __post_init__(self) -> None:
        if self.period <= 0 or not 0 <= self.duty <= 1:
            raise ValueError(f"steps need a period and a duty in 0..1, not {self}")

    def _busy(self, t: float) -> float:
        whole, rest = divmod(t, self.period)
        on = self.duty * self.period
        return whole * on + min(rest, on)

    def busy(self, t: float) -> float:
        return self._busy(t + self.offset) - self._busy(self.offset)

    def edges(self, start: float, end: float) -> Iterator[float]:
        if self.duty in {0, 1}:
            return
        step = math.floor((start + self.offset) / self.period)
        while (rise := step * self.period - self.offset) < end:
            for edge in (rise, rise + self.duty * self.period):
                if start < edge < end:
                    yield edge
            step += 1


@dataclass(frozen=True)
class Paused:
    """Checkpoints or evaluations: `inner` stands still for `length` seconds after every `every` seconds of work."""

    inner: Pattern
    every: float
    length: float

    def _worked(self, t: float) -> float:
        rounds, rest = divmod(t, self.every + self.length)
        return rounds * self.every + min(rest, self.every)

    def busy(self, t: float) -> float:
        return self.inner.busy(self._worked(t))

    def edges(self, start: float, end: float) -> Iterator[float]:
        turn = self.every + self.length
        number = math.floor(start / turn)
        while number * turn < end:
            origin, work = number * turn, number * self.every
            found = [origin, origin + self.every]
            found += [origin + edge - work for edge in self.inner.edges(work, work + self.every)]
            yield from sorted({edge for edge in found if start < edge < end})
            number += 1


@dataclass(frozen=True)
class Curve:
    """Values that hold until given times: `values[i]` until `until[i]`, the last one for ever (one more than times)."""

    until: Sequence[float]
    values: Sequence[float]
    _integral: Sequence[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.values) != len(self.until) + 1:
            raise ValueError("one value more than times is needed")
        starts = (0.0, *self.until)
        if any(b <= a for a, b in zip(starts, self.until, strict=False)):
            raise ValueError("times must rise from 0")
        pieces = zip(starts, self.until, self.values, strict=False)
        sums = accumulate(((end - start) * value for start, end, value in pieces), initial=0.0)
        object.__setattr__(self, "_integral", tuple(sums))

    def _piece(self, t: float) -> tuple[int, float]:
        piece = bisect_right(self.until, t)
        return piece, self.until[piece - 1] if piece else 0.0

    def at(self, t: float) -> float:
        return self.values[self._piece(t)[0]]

    def integral(self, t: float) -> float:
        piece, start = self._piece(t)
        return self._integral[piece] + (t - start) * self.values[piece]


@dataclass(frozen=True)
class Piecewise(Curve):
    """A pattern given by its levels, as a recording is played."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= level <= 1 for level in self.values):
            raise ValueError("a level is a fraction")

    def busy(self, t: float) -> float:
        return self.integral(t)

    def edges(self, start: float, end: float) -> Iterator[float]:
        for edge in self.until[bisect_right(self.until, start) :]:
            if edge >= end:
                return
            yield edge


def ramp(start: float, end: float, seconds: float, stairs: int = 20) -> Piecewise:
    """From one level to another in equal stairs over `seconds`, then staying there."""
    levels = [start + (end - start) * (i + 0.5) / stairs for i in range(stairs)]
    return Piecewise([seconds * (i + 1) / stairs for i in range(stairs)], [*levels, end])


@dataclass(frozen=True)
class Then:
    """`first` for `seconds`, then `second` from its own beginning: a job that turns healthy at a time, or fails."""

    first: Pattern
    seconds: float
    second: Pattern

    def busy(self, t: float) -> float:
        if t <= self.seconds:
            return self.first.busy(t)
        return self.first.busy(self.seconds) + self.second.busy(t - self.seconds)

    def edges(self, start: float, end: float) -> Iterator[float]:
        yield from self.first.edges(start, min(end, self.seconds))
        if start < self.seconds < end:
            yield self.seconds
        if end > self.seconds:
            yield from (
                edge + self.seconds for edge in self.second.edges(max(start - self.seconds, 0.0), end - self.seconds)
            )
