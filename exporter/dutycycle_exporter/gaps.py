"""Idle gaps of one workload on one GPU, by their length: what tells data stalls from checkpoints from phases."""

from __future__ import annotations

IDLE_UTILIZATION = 0.05
"""A sample at or under this is idle."""

_BOUNDS = (2.0, 30.0, 600.0)
"""Seconds that separate the four lengths; the last gap is credited while it still grows."""

_SAME_INSTANT = 1e-6
"""Spans whose ends lie closer than this touch each other: NVML counts in microseconds."""


class IdleGaps:
    """Adds up seconds by gap length: under 2 s, 2 to 30 s, 30 to 600 s, 600 s and more (divided by the time scale).

    A gap is credited whole to its length when it ends, or when the workload does. On reaching 600 s it is credited to
    the last length, and from then as it grows. Unmeasured time at either side of a gap hides the gap's true length: the
    gap counts only if at least 600 s of it were measured.
    """

    __slots__ = ("_bounds", "_cut", "_end", "_length", "_weighted", "seconds")

    def __init__(self, time_scale: float = 1.0) -> None:
        self.seconds = [0.0, 0.0, 0.0, 0.0]
        self._bounds = tuple(bound / time_scale for bound in _BOUNDS)
        self._length = 0.0  # of the present gap, in time
        self._weighted = 0.0  # of the same, not yet credited, in share x time
        self._cut = False  # whether unmeasured time touches the present gap
        self._end: float | None = None

    def add(self, start: float, end: float, utilization: float, share: float) -> None:
        """A measured stretch of time, later than those before it."""
        if self._end is not None and start > self._end + _SAME_INSTANT:
            self._cut = True
            self.finish()
        self._end = end
        if utilization > IDLE_UTILIZATION:
            self.finish()
            self._cut = False
            return
        self._length += end - start
        self._weighted += share * (end - start)
        if self._length >= self._bounds[-1]:
            self.seconds[3] += self._weighted
            self._weighted = 0.0

    def finish(self) -> None:
        """End the present gap, if there is one."""
        if not self._cut:
            place = sum(self._length >= bound for bound in self._bounds)
            self.seconds[place] += self._weighted
        self._length = self._weighted = 0.0
