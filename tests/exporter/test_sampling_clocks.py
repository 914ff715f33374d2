"""Whichever clock NVML stamps its samples with, and whatever the time of day is set to: measured time is time that
passed, once, and nothing is lost that the stamps tell.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.sampling import SampleBuffer

START = 5_000.0
"""Seconds since the machine was started."""
DAY = 1_750_000_000.0 - START
PERIOD = 0.2
RING = 72
LATE = 1.0
"""Seconds by which a stamp may lie ahead."""


class Machine:
    """A GPU whose driver writes a sample each 0.2 s, stamped by a clock; its utilization counts up with the samples."""

    def __init__(self, clock):
        self.clock = clock
        self.t = START
        self.day = DAY
        self.ring = []
        self.number = 0
        self.buffer = SampleBuffer(interval=5.0)
        self.spans = []

    def stamp(self, t):
        clocks = {"day": t + self.day, "boot": t, "own": t + DAY, "other": t + 1e6}
        return clocks[self.clock] if isinstance(self.clock, str) else t + DAY + self.clock

    def run(self, seconds):
        """Lets time pass."""
        end = self.t + seconds
        while START + (self.number + 1) * PERIOD <= end:
            self.number += 1
            at = START + self.number * PERIOD
            self.ring = [*self.ring, (round(self.stamp(at) * 1e6), self.number % 101)][-RING:]
        self.t = end

    def idle(self, seconds):
        """Lets time pass in which the driver writes nothing, and polls meanwhile."""
        for _ in range(round(seconds / 5)):
            self.t += 5
            self.poll()
        self.number = round((self.t - START) / PERIOD)

    def poll(self):
        """What the reader makes of the buffer."""
        found = self.buffer.take(list(self.ring), self.t, self.day)
        self.spans += found
        return found

    @property
    def observed(self):
        return math.fsum(span.end - span.start for span in self.spans)

    @property
    def busy(self):
        return math.fsum((span.end - span.start) * span.utilization for span in self.spans)

    def truth(self, since):
        """(observed, busy) from an instant until now, as if nothing was lost."""
        first = round((since - START) / PERIOD)
        numbers = range(first + 1, self.number + 1)
        return PERIOD * len(numbers), PERIOD * sum(number % 101 for number in numbers) / 100


CLOCKS = ["day", "boot", "own", "other"]


@pytest.fixture(params=CLOCKS)
def machine(request):
    """At its second poll, when it is known which clock the stamps are of."""
    machine = Machine(request.param)
    for _ in range(3):
        machine.run(5.05)
        machine.poll()
    machine.spans.clear()
    return machine


@pytest.mark.parametrize("clock", CLOCKS)
def test_on_whichever_clock_samples_are_they_are_of_the_time_that_passed(clock):
    machine = Machine(clock)
    for _ in range(20):
        machine.run(5.05)
        for span in machine.poll():
            assert machine.t - 5.3 - RING * PERIOD <= span.start < span.end <= machine.t + PERIOD
    lost = 2 * 5.05 if clock == "other" else 1
    assert 20 * 5.05 - lost <= machine.observed <= 20 * 5.05


@pytest.mark.parametrize("off", [-1000, -100, -30, -3, 0.5, 3, 30, 1000])
def test_a_clock_of_stamps_that_was_never_that_of_the_day_is_found_out(off):
    machine = Machine(off)
    for _ in range(20):
        machine.run(5.05)
        machine.poll()
    assert machine.spans[-1].end == pytest.approx(machine.t, abs=abs(off) + PERIOD if abs(off) < 5 else PERIOD)
    assert 20 * 5.05 - abs(off if abs(off) < 5 else 0) - 3 * 5.05 <= machine.observed <= 20 * 5.05


@pytest.mark.parametrize("step", [-1e7, -3600, -20, -7.01, -4.02, -3.03, -0.71, 0.7, 3, 4, 7, 20, 3600, 1e7])
@pytest.mark.parametrize("before", [0.0, 0.03, 2.31, 5.0])
def test_a_step_between_two_polls_costs_no_measured_time(machine, step, before):
    since = machine.number * PERIOD + START
    machine.run(before)
    machine.day += step
    machine.run(5.05 - before)
    machine.poll()
    for _ in range(6):
        machine.run(5.05)
        machine.poll()
    observed, busy = machine.truth(since)
    # A stamp of the time of day that goes back by a sample's period or two is told from the next one's by nothing.
    within = 2 * PERIOD if machine.clock == "day" else 1e-6
    assert machine.observed == pytest.approx(observed, abs=within)
    assert machine.busy == pytest.approx(busy, abs=within)
    assert not machine.buffer.dropped


@pytest.mark.parametrize("step", [-3600, -4.02, 4, 3600])
def test_after_a_step_the_buffer_still_has_samples_of_before_it_and_they_are_not_counted_again(machine, step):
    machine.day += step
    machine.run(1.0)
    machine.poll()
    before = machine.observed
    assert machine.poll() == []
    machine.run(1.0)
    machine.poll()
    assert machine.observed - before == pytest.approx(1.0, abs=PERIOD)


@pytest.mark.parametrize("step", [-0.5, -0.1, 0.1, 0.5])
def test_many_short_steps_do_not_add_up_to_samples_of_another_time(step):
    machine = Machine("day")
    for _ in range(20):
        machine.run(5.05)
        machine.poll()
        machine.day += step
    machine.run(5.05)
    machine.poll()
    assert machine.spans[-1].end == pytest.approx(machine.t, abs=0.5 + PERIOD)


@pytest.mark.parametrize("step", [-3600, -30, -9, 9, 30, 3600])
def test_after_a_pause_without_samples_a_step_before_it_leads_to_no_wrong_clock(machine, step):
    """A driver that writes none of an idle GPU: the next sample follows none."""
    machine.day += step
    machine.idle(20)
    machine.run(3)
    machine.poll()
    assert machine.spans[-1].end == pytest.approx(machine.t, abs=2 * PERIOD)
    assert 3 - 2 * PERIOD <= machine.observed <= 3 + PERIOD


def test_two_steps_between_two_polls_cost_at_most_what_lies_between_them(machine):
    machine.run(2)
    machine.day += 300
    machine.run(1)
    machine.day -= 200
    machine.run(2)
    machine.poll()
    assert 5 - 1 - 2 * PERIOD <= machine.observed <= 5 + PERIOD


EVENTS = st.lists(
    st.tuples(st.floats(0.1, 12), st.just(0.0) | st.floats(-3, 3) | st.floats(-1e6, 1e6), st.booleans()), max_size=25
)
"""Time that passes, a step after it, whether it is polled then."""


@given(st.sampled_from(CLOCKS), EVENTS)
def test_however_the_clock_is_set_no_more_is_measured_than_the_time_that_passed(clock, events):
    machine = Machine(clock)
    for seconds, step, polled in events:
        machine.run(seconds)
        machine.day += step
        if polled:
            machine.poll()
            assert all(a.end <= b.start for a, b in pairwise(machine.spans))
            assert all(span.start < span.end <= machine.t + LATE for span in machine.spans)
            assert machine.observed <= machine.t - START + LATE


@given(st.sampled_from(["boot", "own"]), EVENTS)
def test_stamps_of_a_clock_that_nobody_sets_lose_nothing_to_steps(clock, events):
    machine = Machine(clock)
    machine.run(5)
    machine.poll()
    machine.spans.clear()
    since = START + machine.number * PERIOD
    for seconds, step, _ in events:
        machine.run(seconds)
        machine.day += step if abs(step) > 1 else 0.0
        machine.poll()
    observed, busy = machine.truth(since)
    assert (machine.observed, machine.busy) == (pytest.approx(observed, abs=1e-3), pytest.approx(busy, abs=1e-3))


@pytest.mark.parametrize("step", [-0.5, -0.1, 0.1, 0.5])
def test_a_step_of_a_few_periods_costs_no_more_than_its_length(machine, step):
    """Whether the stamps made it, too, two of them do not tell: they are taken to go with the time of day."""
    since = START + machine.number * PERIOD
    for _ in range(6):
        machine.run(5.05)
        machine.day += step
        step = 0
        machine.poll()
    assert machine.truth(since)[0] - 0.5 - PERIOD <= machine.observed <= machine.truth(since)[0] + 0.5


def test_what_nvml_writes_for_an_instant_is_known_from_its_samples(machine):
    assert machine.buffer.stamp(machine.t, machine.day) == pytest.approx(machine.stamp(machine.t) * 1e6, abs=1e6)
    machine.day += 3600
    machine.run(5.05)
    machine.poll()
    assert machine.buffer.stamp(machine.t, machine.day) == pytest.approx(machine.stamp(machine.t) * 1e6, abs=1e6)
