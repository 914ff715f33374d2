"""What NVML's buffer lost between two polls is not measured: it is neither busy nor idle."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.sampling import SampleBuffer

START = 1_750_000_000
PERIOD = 1 / 6
NEVER = float("inf")


class SilentGpu:
    """One that writes no sample while it idles. `runs` are (busy periods, idle periods), one after another.

    Its buffer has room for `capacity` samples, and keeps none for longer than `held` seconds. Instants are in seconds
    since START.
    """

    def __init__(self, runs, *, capacity, held=NEVER):
        self.capacity, self.held = capacity, held
        self.busy = [worked for work, pause in runs for worked in (True,) * work + (False,) * pause]
        self.length = len(self.busy) * PERIOD

    def samples(self, now):
        """(microseconds, percent), as they are in the buffer."""
        ends = [(number + 1) * PERIOD for number, worked in enumerate(self.busy) if worked]
        kept = [end for end in ends[: bisect_right(ends, now)] if end >= now - self.held]
        return [(round((START + end) * 1e6), 100) for end in kept[-self.capacity :]]

    def rate(self, now):
        """That of the last whole period."""
        number = int(now / PERIOD) - 1
        return 100 if 0 <= number < len(self.busy) and self.busy[number] else 0

    def worked(self, start, end):
        """Seconds of it that were busy."""
        found = 0.0
        for number in range(max(0, int(start / PERIOD)), min(len(self.busy), int(end / PERIOD) + 1)):
            if self.busy[number]:
                found += max(0.0, min(end, (number + 1) * PERIOD) - max(start, number * PERIOD))
        return found


def polled(gpu, polls, *, interval):
    """The spans, relative to START, of polls at these instants."""
    buffer, spans = SampleBuffer(interval=interval), []
    for now in polls:
        spans += buffer.take(gpu.samples(now), START + now)
        spans += buffer.take_rate(gpu.rate(now), START + now, only_source=False)
    return [(span.start - START, span.end - START, span.utilization) for span in spans]


def totals(spans):
    """Seconds (busy, idle)."""
    busy = sum((end - start) * utilization for start, end, utilization in spans)
    return busy, sum(end - start for start, end, _ in spans) - busy


def regular(gpu, interval):
    return [interval * number for number in range(1, int(gpu.length / interval))]


@pytest.mark.parametrize("interval", [5, 30])
def test_a_gpu_that_was_silent_once_and_then_works_all_the_time_is_not_idle(interval):
    gpu = SilentGpu([(90, 600), (3600, 0)], capacity=72)
    polls = regular(gpu, interval)
    began = [now for now in polls if now > 115 + interval]
    spans = [span for span in polled(gpu, polls, interval=interval) if span[0] >= began[0]]
    busy, idle = totals(spans)
    assert idle == 0
    known = 1 if interval == 5 else 12 / 30
    assert busy == pytest.approx(known * (began[-1] - began[0]), rel=0.03)


def test_a_poll_that_comes_too_late_makes_no_idle_time():
    """It is asked for every 5 s; once it took 18 s until it was, and 6 s were lost."""
    gpu = SilentGpu([(90, 90), (600, 0)], capacity=72)
    polls = [*range(5, 51, 5), 68, *range(73, 100, 5)]
    spans = [span for span in polled(gpu, polls, interval=5) if span[0] >= 35]
    busy, idle = totals(spans)
    assert (busy, idle) == (pytest.approx(98 - 35 - 6, abs=0.5), 0)


@pytest.mark.parametrize("held", [16, NEVER])
def test_pauses_are_idle_as_long_as_nothing_can_have_been_lost(held):
    """Also where the buffer is empty after each of them."""
    gpu = SilentGpu([(20, 100)] * 40, capacity=100, held=held)
    spans = polled(gpu, regular(gpu, 5), interval=5)
    busy, idle = totals(spans)
    assert busy == pytest.approx(gpu.length / 6, rel=0.03)
    assert idle == pytest.approx(gpu.length * 5 / 6, rel=0.05)


@pytest.mark.parametrize("work", [1, 12])
def test_bursts_of_one_length_are_no_full_buffer_and_keep_the_idle_time_before_them(work):
    """The buffer is empty after each pause, and a burst begins and ends between two polls."""
    gpu = SilentGpu([(work, 105 - work)] * 40, capacity=72, held=12)
    polls = [now - 0.25 for now in regular(gpu, 5)]
    busy, idle = totals(polled(gpu, polls, interval=5))
    assert busy == pytest.approx(gpu.length * work / 105, rel=0.03)
    assert busy + idle == pytest.approx(gpu.length, rel=0.02)


def test_pauses_between_the_samples_of_one_answer_are_idle_even_if_earlier_ones_were_lost():
    gpu = SilentGpu([(30, 30)] * 60, capacity=72)
    busy, idle = totals(polled(gpu, regular(gpu, 30), interval=30))
    assert 0.35 * gpu.length < busy < 0.4 * gpu.length
    assert 0.4 * gpu.length < idle < 0.5 * gpu.length


@given(
    runs=st.lists(st.tuples(st.integers(6, 500), st.integers(6, 500)), min_size=1, max_size=12),
    capacity=st.integers(72, 120),
    held=st.sampled_from([12, 16, 20, NEVER]),
    interval=st.floats(0.5, 60),
    late=st.lists(st.floats(0, 25), min_size=1, max_size=40),
)
def test_never_more_is_busy_or_idle_than_was(runs, capacity, held, interval, late):
    """Whatever the interval is, how late a turn is, and how the buffer lets go of samples. Less may be measured."""
    gpu = SilentGpu(runs, capacity=capacity, held=held)
    polls, now = [], 0.0
    for number in range(int(gpu.length / interval)):
        now = max(now, interval * (number + 1)) + (late[number % len(late)] if number % 7 == 3 else 0.0)
        polls.append(now)
    spans = polled(gpu, polls, interval=interval)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    for start, end, utilization in spans:
        # Of work that has just begun the rate does not tell yet.
        assert abs(gpu.worked(start, end) - utilization * (end - start)) <= PERIOD + 1e-4, (start, end, utilization)
