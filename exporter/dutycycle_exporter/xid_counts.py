"""How often each GPU reported each XID, and when it did last."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_exporter.model import Xid
from dutycycle_exporter.views import XidView

_MOST = 1024
"""Pairs of GPU and code that are counted: more there are not, unless something is wrong."""

_STEP = 0.1
"""Seconds by which the time of day is at least set: what is less may lie between the readings of two clocks, and would
have every time that is shown change at every scrape.
"""


@dataclass(slots=True)
class _Errors:
    """`created` is when its series began and `last` when the last one was, by the clock that nobody sets."""

    created: float
    count: int = 0
    last: float = 0.0


class XidCounts:
    """Counts XIDs as they come. `now` is the time of day (Unix seconds) when the clock that nobody sets is at `at`."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, int], _Errors] = {}
        self._day = 0.0
        """Seconds by which the time of day is ahead of the clock that nobody sets."""

    def add(self, xid: Xid, *, now: float, at: float) -> bool:
        """One more; whether it is counted."""
        key = xid.gpu_uuid, xid.code
        if key not in self._errors and len(self._errors) >= _MOST:
            return False
        self._look(now, at)
        errors = self._errors.setdefault(key, _Errors(created=at))
        errors.count += 1
        errors.last = xid.t - self._day
        return True

    def shown(self, *, now: float, at: float, hold: float) -> tuple[XidView, ...]:
        """What a scrape shows. As a workload's new series this one is at 0 for `hold` seconds, or PromQL's increase()
        would miss the first XID.
        """
        self._look(now, at)
        return tuple(
            XidView(gpu_uuid, code, 0 if at - errors.created < hold else errors.count, errors.last + self._day)
            for (gpu_uuid, code), errors in self._errors.items()
        )

    def _look(self, now: float, at: float) -> None:
        if abs(now - at - self._day) > _STEP:
            self._day = now - at
