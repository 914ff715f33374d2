"""What one GPU does, piece after piece, and the exact busy time that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ACTIVITIES = (
    "computing",
    "loader",
    "collective",
    "launch",
    "checkpoint",
    "evaluation",
    "start_up",
    "person",
    "request",
    "hang",
    "nothing",
)
"""What a GPU does or waits for, as `Truth.spent` has it."""

_CODES = {name: code for code, name in enumerate(ACTIVITIES)}


def code(activity: str) -> int:
    """An activity's place in ACTIVITIES."""
    return _CODES[activity]


@dataclass(frozen=True)
class Track:
    """Pieces without gaps from 0 on: how long, doing what, and in what share of it a kernel is resident.

    A level between 0 and 1 stands for kernels and gaps of milliseconds, far below the length of NVML's samples.
    """

    seconds: Floats
    doing: NDArray[np.int8]
    level: Floats

    @property
    def length(self) -> float:
        return float(self.seconds.sum())

    def spent(self) -> Floats:
        """Seconds by activity."""
        return np.bincount(self.doing, self.seconds, len(ACTIVITIES))

    def resident(self) -> Floats:
        """The same with a kernel resident."""
        return np.bincount(self.doing, self.seconds * self.level, len(ACTIVITIES))

    def cut(self, at: float) -> tuple[Track, Track]:
        """What is before an instant, and what is after it."""
        ends = np.cumsum(self.seconds)
        place = min(int(np.searchsorted(ends, at, side="right")), len(ends) - 1)
        before, after = self.seconds[: place + 1].copy(), self.seconds[place:].copy()
        done = at - (float(ends[place - 1]) if place else 0.0)
        before[-1], after[0] = min(done, before[-1]), max(0.0, after[0] - done)
        return (
            Track(before, self.doing[: place + 1], self.level[: place + 1]),
            Track(after, self.doing[place:], self.level[place:]),
        )


def track(pieces: Sequence[tuple[float, str, float]]) -> Track:
    """From (seconds, activity, level)."""
    seconds, doing, level = zip(*pieces, strict=True)
    return Track(np.array(seconds, float), np.array([code(name) for name in doing], np.int8), np.array(level, float))


def steady(seconds: float, activity: str, level: float) -> Track:
    """One piece."""
    return track([(seconds, activity, level)])


class Exact:
    """A pattern (tests.fakes.nvml) from a track: its busy time is a sum over pieces, exact at every instant.

    `busy` takes an array of times as well.
    """

    __slots__ = ("_at", "_busy")

    def __init__(self, source: Track) -> None:
        changes = np.flatnonzero(np.diff(source.level)) + 1
        ends = np.concatenate(([0.0], np.cumsum(source.seconds)))
        worked = np.concatenate(([0.0], np.cumsum(source.seconds * source.level)))
        kept = np.concatenate(([0], changes, [len(source.seconds)]))
        self._at, self._busy = ends[kept], worked[kept]

    def busy(self, t: float | Floats) -> float | Floats:
        found = np.interp(t, self._at, self._busy)
        return found if isinstance(t, np.ndarray) else float(found)

    def edges(self, start: float, end: float) -> Iterator[float]:
        first, last = np.searchsorted(self._at, (start, end), side="right")
        for edge in self._at[first:last]:
            if start < edge < end:
                yield float(edge)

    @property
    def nbytes(self) -> int:
        return int(self._at.nbytes + self._busy.nbytes)


def spent_by_name(sums: Floats) -> Mapping[str, float]:
    """Seconds by the name of what was done; what did not happen is left out."""
    return {name: float(value) for name, value in zip(ACTIVITIES, sums, strict=True) if value > 0}
