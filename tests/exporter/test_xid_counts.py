"""XIDs are counted by GPU and code, each new series at 0 for a time; their times follow a clock that is set."""

from __future__ import annotations

import pytest

from dutycycle_exporter.model import Xid
from dutycycle_exporter.xid_counts import XidCounts

T = 1_700_000_000.0
UPTIME = 5000.0


class Counts:
    """Counts at seconds since the beginning; `step` is by how much the time of day has been set since."""

    def __init__(self, hold=0.0):
        self.counts, self.hold, self.step = XidCounts(), hold, 0.0

    def _times(self, seconds):
        return {"now": T + seconds + self.step, "at": UPTIME + seconds}

    def add(self, seconds, code, gpu="GPU-0"):
        times = self._times(seconds)
        return self.counts.add(Xid(gpu, code, times["now"]), **times)

    def shown(self, seconds):
        views = self.counts.shown(**self._times(seconds), hold=self.hold)
        return {(xid.gpu_uuid, xid.code): (xid.count, xid.last - T) for xid in views}


def test_every_one_counts_by_its_gpu_and_code():
    counts = Counts()
    for seconds, code, gpu in ((0, 79, "GPU-0"), (1, 79, "GPU-0"), (2, 79, "GPU-1"), (4, 31, "GPU-0")):
        assert counts.add(seconds, code, gpu)
    assert counts.shown(9) == {("GPU-0", 79): (2, 1), ("GPU-1", 79): (1, 2), ("GPU-0", 31): (1, 4)}


def test_a_new_series_is_at_0_for_the_hold_time_and_says_at_once_when_it_was():
    counts = Counts(hold=30)
    counts.add(7, 79)
    counts.add(20, 79)
    assert [counts.shown(seconds) for seconds in (7, 36, 37)] == [{("GPU-0", 79): (n, 20)} for n in (0, 0, 2)]
    counts.add(50, 79)
    assert counts.shown(50) == {("GPU-0", 79): (3, 50)}, "no new series"


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_is_set_makes_no_xid_older_or_newer(step):
    counts = Counts(hold=30)
    counts.add(0, 79)
    counts.step = step
    assert counts.shown(29) == {("GPU-0", 79): (0, step)}
    assert counts.shown(31) == {("GPU-0", 79): (1, step)}


def test_clocks_that_are_read_one_after_the_other_change_no_time():
    counts = Counts()
    counts.add(0, 79)
    shown = counts.shown(10)
    counts.step = 0.01
    assert counts.shown(20) == shown


def test_they_are_bounded():
    counts = Counts()
    assert [counts.add(0, code) for code in range(2000)].count(True) == 1024
    assert counts.add(0, 3), "one that is known goes on counting"
    assert len(counts.shown(0)) == 1024
