"""When a GPU that is missing is reason enough to begin anew.

After a reset, or when it comes back to the bus, a GPU may stay lost to a process that has initialised NVML before. A
fresh child sees it. That costs the GPUs that are well one turn, since all counters live in the exporter.
"""

from __future__ import annotations

from dutycycle_exporter.errors import NvmlUnavailableError

_PATIENCE = 60.0
"""Seconds for which a GPU may be missing: a driver that is about to recover it does so sooner."""

FIRST_AGE = 300.0
"""Seconds that a child lives at least, where it never saw more GPUs: it cannot help, and is not tried all the time."""


class MissingGpus:
    """Watches how many GPUs answer. One instance lives as long as its child."""

    def __init__(self, *, time_scale: float, least_age: float = FIRST_AGE) -> None:
        self._least_age = least_age
        self._time_scale = time_scale
        self._began: float | None = None
        self._most = 0
        self._since: float | None = None

    def watch(self, now: float, count: int | None, visible: int | None) -> None:
        """What NVML said at `now`. Raises NvmlUnavailableError when a fresh child should look."""
        if self._began is None:
            self._began = now
        if count is None or visible is None:
            return
        self._most = max(self._most, visible)
        if visible >= max(count, self._most):
            self._since = None
            return
        if self._since is None:
            self._since = now
        had_it = self._most > visible
        old_enough = now - self._began >= (0.0 if had_it else self._least_age / self._time_scale)
        if old_enough and now - self._since >= _PATIENCE / self._time_scale:
            missing = max(count, self._most) - visible
            raise NvmlUnavailableError(
                "gpu_lost",
                f"{missing} of {max(count, self._most)} GPUs have not answered for {now - self._since:.0f} s; "
                "NVML is initialised anew, in case they were reset; see the kernel's log for XIDs",
            )
