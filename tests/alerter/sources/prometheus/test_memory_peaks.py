"""The most memory of a job's whole life, of readings that each cover a window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.model import MemoryPeak
from dutycycle_alerter.sources.prometheus.memory_peaks import MemoryPeaks

WINDOW, GB = 7200.0, 1e9
JOB = ("", "slurm/1")


def take(peaks: MemoryPeaks, at: float, *used: float | None, start: float = 0.0) -> MemoryPeak | None:
    peaks.take(JOB, start, [None if one is None else one * GB for one in used], [80 * GB] * len(used), at)
    return peaks.of(JOB)


def test_what_was_in_use_stays_after_it_left_the_window() -> None:
    peaks = MemoryPeaks(WINDOW)
    assert take(peaks, 600.0, 60.0, 10.0) == MemoryPeak(60 * GB, 0.75)
    for hour in range(1, 48):
        assert take(peaks, 3600.0 * hour, 1.0, 2.0) == MemoryPeak(60 * GB, 0.75)


def test_of_a_job_that_is_seen_late_not_all_is_known_until_it_begins_anew() -> None:
    peaks = MemoryPeaks(WINDOW)
    assert take(peaks, WINDOW + 1, 1.0) is None
    assert take(peaks, WINDOW + 60, 1.0) is None
    assert take(peaks, WINDOW + 120, 1.0, start=WINDOW + 100) == MemoryPeak(GB, 1 / 80)


def test_a_start_that_wavers_is_no_new_run() -> None:
    """Of several nodes it is that of the earliest that was scraped; without one, when it was first seen, about."""
    peaks = MemoryPeaks(WINDOW)
    assert take(peaks, 600.0, 60.0, start=500.0) is not None
    for at, start in ((660.0, 499.9), (720.0, 530.0), (500.0 + WINDOW, 500.0), (600.0 + WINDOW, 499.0)):
        assert take(peaks, at, 1.0, start=start) == MemoryPeak(60 * GB, 0.75)


def test_a_job_that_was_there_when_the_window_began_may_have_been_there_before() -> None:
    peaks = MemoryPeaks(WINDOW)
    for at in (WINDOW * 3, WINDOW * 3 + 60, WINDOW * 4 + 60):
        assert take(peaks, at, 1.0, start=at - WINDOW) is None


def test_after_a_silence_that_is_longer_than_the_window_not_all_is_known() -> None:
    peaks = MemoryPeaks(WINDOW)
    assert take(peaks, 600.0, 1.0) is not None
    assert take(peaks, 600.0 + WINDOW, 1.0) is not None
    assert take(peaks, 601.0 + 2 * WINDOW, 1.0) is None


@pytest.mark.parametrize("used", [(None,), (1.0, None), ()])
def test_a_reading_that_lacks_a_gpu_is_none(used: tuple[float | None, ...]) -> None:
    peaks = MemoryPeaks(WINDOW)
    assert take(peaks, 600.0, *used) is None
    assert take(peaks, 660.0, 1.0, 2.0) == MemoryPeak(2 * GB, 2 / 80)


def test_jobs_that_are_gone_are_let_go() -> None:
    peaks = MemoryPeaks(WINDOW)
    take(peaks, 600.0, 1.0)
    peaks.keep(set())
    assert peaks.of(JOB) is None


@given(
    readings=st.lists(st.tuples(st.integers(1, 2 * int(WINDOW)), st.floats(0.0, 80.0)), min_size=1),
)
def test_what_is_known_is_the_most_of_all_and_of_all_of_the_time(readings: list[tuple[int, float]]) -> None:
    peaks, at, most = MemoryPeaks(WINDOW), 0.0, 0.0
    seen = True
    for after, used in readings:
        covered = after < WINDOW if at == 0.0 else after <= WINDOW
        at, most, seen = at + after, max(most, used), seen and covered
        assert take(peaks, at, used) == (MemoryPeak(most * GB, most * GB / (80 * GB)) if seen else None)
