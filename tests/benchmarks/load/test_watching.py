"""What is read of a process is its memory; what is said of it is what it gains after the warm-up."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.load.watching import Held, Watched, held, lines


def test_this_process_holds_what_the_kernel_says() -> None:
    found = held(os.getpid())
    assert found is not None
    assert 5 < found.anonymous <= found.resident < 5_000
    assert 0 < found.share <= found.resident


def test_a_process_that_ended_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert held(process.pid) is None


def watched(gained: float, name: str = "exporter") -> Watched:
    """A day, read each two minutes: 20 MB are gained in the first three hours, then so many a day."""
    one = Watched(name)
    for minute in range(0, 24 * 60, 2):
        hour = minute / 60
        resident = 30.0 + 20 * min(1.0, hour / 3) + gained * hour / 24 + (minute % 14) / 14
        one.times.append(hour)
        one.readings.append(Held(resident, resident / 2, resident))
    return one


def test_what_is_gained_while_it_warms_up_is_no_growth() -> None:
    resident, _, _ = lines([watched(0.0)], warm=6.0)
    assert not resident.grows
    assert abs(resident.trend.slope) < 0.01
    assert resident.first == resident.last


def test_what_is_gained_later_is() -> None:
    resident, own, share = lines([watched(4.0)], warm=6.0)
    assert resident.grows
    assert round(24 * resident.trend.slope, 1) == 4.0
    assert resident.highest > resident.last > resident.first
    assert own.grows
    assert not share.grows


def test_a_process_that_is_started_again_is_noticed() -> None:
    one = Watched("alerter")
    one.read(0.0, os.getpid())
    one.read(0.1, os.getpid())
    one.read(0.2, os.getppid())
    one.read(0.3, None)
    assert len(one.readings) == 3
    assert one.restarts() == 1
    assert (one.restarts(0.2), one.restarts(0.25)) == (1, 0)
    assert Watched("its child").restarts() == 0
