"""Samples become spans of measured time: exact where samples follow each other, holes where nobody measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.sampling import SampleBuffer

START = 1_750_000_000
PERIOD_US = 166_667


def samples(values, *, first=START * 1_000_000, period_us=PERIOD_US):
    return [(first + number * period_us, value) for number, value in enumerate(values)]


def seconds(spans):
    return sum(span.end - span.start for span in spans)


def busy(spans):
    return sum((span.end - span.start) * span.utilization for span in spans)


def joined(spans):
    """(start, end, utilization) of spans, those that are alike and follow each other as one: as within a poll."""
    found = []
    for span in spans:
        if found and found[-1][1:] == (span.start, span.utilization):
            found[-1] = (found[-1][0], span.end, span.utilization)
        else:
            found.append((span.start, span.end, span.utilization))
    return found


def now_after(taken):
    return taken[-1][0] / 1e6 + 0.05


def test_a_sample_stands_for_the_time_since_the_one_before_it():
    buffer = SampleBuffer(interval=5)
    taken = [(START * 1_000_000, 0), (START * 1_000_000 + 100_000, 50), (START * 1_000_000 + 300_000, 100)]
    spans = buffer.take(taken, now_after(taken))
    assert [round(span.end - span.start, 6) for span in spans[1:]] == [0.1, 0.2]
    assert [span.utilization for span in spans] == [0, 0.5, 1]


def test_the_next_poll_goes_on_where_the_last_one_ended():
    buffer = SampleBuffer(interval=5)
    taken = samples([10] * 60)
    first = buffer.take(taken[:30], now_after(taken[:30]))
    second = buffer.take(taken[30:], now_after(taken))
    assert second[0].start == first[-1].end


def test_samples_that_nvml_tells_again_are_passed_over_and_are_no_fault_of_theirs():
    buffer = SampleBuffer(interval=5)
    taken = samples([10] * 30)
    buffer.take(taken[:20], now_after(taken[:20]))
    assert seconds(buffer.take(taken, now_after(taken))) == pytest.approx(10 * PERIOD_US / 1e6)
    assert buffer.take(taken, now_after(taken)) == []
    assert not buffer.dropped


def test_time_that_the_overrun_buffer_lost_is_not_measured():
    buffer = SampleBuffer(interval=5)
    taken = samples([100] * 30)
    buffer.take(taken, now_after(taken))
    later = samples([100] * 30, first=taken[-1][0] + 60_000_000)
    spans = buffer.take(later, now_after(later))
    assert seconds(spans) == pytest.approx(30 * PERIOD_US / 1e6)
    assert spans[0].start > taken[-1][0] / 1e6 + 59


@pytest.mark.parametrize("period_us", [20_000, 100_000, 166_667, 500_000, 1_000_000])
def test_the_devices_own_sample_period_is_learned(period_us):
    buffer = SampleBuffer(interval=5)
    taken = samples([40] * 100, period_us=period_us)
    buffer.take(taken, now_after(taken))
    later = samples([40] * 20, first=taken[-1][0] + period_us, period_us=period_us)
    assert seconds(buffer.take(later, now_after(later))) == pytest.approx(20 * period_us / 1e6)


@pytest.mark.parametrize("value", [101, 10**8, 2**32 - 1, -1])
def test_values_that_cannot_be_are_dropped_and_counted_and_their_time_is_not_measured(value):
    buffer = SampleBuffer(interval=5)
    taken = samples([50] * 10 + [value] + [50] * 10)
    spans = buffer.take(taken, now_after(taken))
    assert buffer.dropped == {"out_of_range": 1}
    assert all(span.utilization == 0.5 for span in spans)
    assert seconds(spans) == pytest.approx(20 * PERIOD_US / 1e6, rel=1e-6)


def test_timestamps_that_go_back_are_dropped_and_counted():
    buffer = SampleBuffer(interval=5)
    taken = samples([50] * 10)
    spans = buffer.take([*taken, (taken[4][0] + 7, 100), *samples([50], first=taken[-1][0] + PERIOD_US)], START + 10)
    assert buffer.dropped == {"backwards": 1}
    assert busy(spans) == pytest.approx(0.5 * seconds(spans))


def test_a_timestamp_of_the_future_does_not_hide_those_that_come_after_it():
    buffer = SampleBuffer(interval=5)
    taken = samples([50] * 10)
    buffer.take([*taken, (taken[-1][0] + 86_400_000_000, 50)], now_after(taken))
    assert buffer.dropped == {"future": 1}
    later = samples([50] * 10, first=taken[-1][0] + PERIOD_US)
    assert seconds(buffer.take(later, now_after(later))) == pytest.approx(10 * PERIOD_US / 1e6)


def test_a_clock_that_is_corrected_by_less_than_a_poll_loses_no_more_than_the_correction():
    buffer = SampleBuffer(interval=5)
    taken = samples([50] * 30)
    buffer.take(taken, now_after(taken))
    later = samples([50] * 30, first=taken[-1][0] + PERIOD_US - 500_000)
    assert seconds(buffer.take(later, now_after(later))) == pytest.approx(4.5, abs=0.01)


def test_a_hole_that_hostile_timestamps_make_does_not_become_the_sample_period():
    buffer = SampleBuffer(interval=5)
    slow = samples([100] * 10, period_us=20_000_000)
    buffer.take(slow, now_after(slow))
    later = samples([100] * 2, first=slow[-1][0] + 20_000_000, period_us=20_000_000)
    assert seconds(buffer.take(later, now_after(later))) <= 2


def test_an_idle_gpu_without_samples_is_measured_by_its_rate_of_zero():
    buffer = SampleBuffer(interval=5)
    taken = samples([0] * 30)
    buffer.take(taken, now_after(taken))
    end = taken[-1][0] / 1e6
    spans = buffer.take_rate(0, end + 5, only_source=False) + buffer.take_rate(0, end + 10, only_source=False)
    assert seconds(spans) == pytest.approx(10)
    assert busy(spans) == 0


def test_a_lone_rate_does_not_stand_for_longer_than_a_poll_or_so():
    buffer = SampleBuffer(interval=5)
    taken = samples([100] * 30)
    buffer.take(taken, now_after(taken))
    assert seconds(buffer.take_rate(0, START + 3600, only_source=False)) <= 7.5


def test_a_rate_above_zero_beside_an_empty_buffer_says_nothing():
    """The time is not measured: how busy the GPU was in it, nobody knows."""
    assert SampleBuffer(interval=5).take_rate(100, START, only_source=False) == []


def test_a_rate_that_is_the_only_source_stands_for_what_was_observed():
    """The time since the rate before, and one sample period at first and after a hole."""
    buffer = SampleBuffer(interval=5)
    spans = []
    for rate, t in ((40, 0), (60, 1), (70, 2.25), (80, 3600)):
        spans += buffer.take_rate(rate, START + t, only_source=True)
    assert [round(span.end - span.start, 6) for span in spans] == [0.166667, 1, 1.25, 0.166667]
    assert [span.utilization for span in spans] == [0.4, 0.6, 0.7, 0.8]


@pytest.mark.parametrize("lag", [0.1, 0.7])
def test_the_rate_does_not_take_the_place_of_samples_that_are_still_to_come(lag):
    """At short poll intervals most polls find no new sample, of a GPU that is busy all the time."""
    buffer = SampleBuffer(interval=0.05)
    stream, spans = samples([100] * 60), []
    for poll in range(20, 220):
        now = START + poll * 0.05
        new = [sample for sample in stream if sample[0] <= (now - lag) * 1e6]
        spans += buffer.take(new, now) + buffer.take_rate(0, now, only_source=False)
    during = [span for span in spans if span.end < stream[-1][0] / 1e6]
    assert busy(during) == seconds(during) == pytest.approx(59 * PERIOD_US / 1e6)


def test_the_end_of_a_poll_in_which_the_gpu_fell_silent_is_measured_at_once():
    buffer = SampleBuffer(interval=5)
    taken = samples([100] * 12)
    now = taken[-1][0] / 1e6 + 3
    spans = buffer.take(taken, now) + buffer.take_rate(0, now, only_source=False)
    assert (seconds(spans), busy(spans)) == (pytest.approx(5, abs=0.01), pytest.approx(2, abs=0.01))


@pytest.mark.parametrize("poll", [2.3, 5.1, 7.7])
@pytest.mark.parametrize(("work", "pause"), [(1, 2.0), (4, 6.0), (30, 3.0)])
def test_a_gpu_that_is_silent_when_idle_is_measured_as_if_it_were_not(poll, work, pause):
    """Some drivers write no samples of an idle GPU: without its pauses it would seem to be busy all the time."""
    stream, t = [], START * 1_000_000
    for _ in range(round(600 / (work + pause))):
        stream += samples([100] * (6 * work), first=t)
        t += round((work + pause) * 1e6)
    buffer, spans, now, end = SampleBuffer(interval=poll), [], float(START), t / 1e6
    while now < end:
        now += poll
        new = [sample for sample in stream if sample[0] <= now * 1e6][-72:]
        rate = 100 if new and now - new[-1][0] / 1e6 < 0.2 else 0
        spans += buffer.take(new, now) + buffer.take_rate(rate, now, only_source=False)
    assert busy(spans) / seconds(spans) == pytest.approx(work / (work + pause), rel=0.03)
    assert seconds(spans) == pytest.approx(600, rel=0.03)
    assert all(a.end <= b.start for a, b in pairwise(spans))


def test_a_hole_of_a_gpu_that_was_never_silent_stays_a_hole():
    buffer = SampleBuffer(interval=5)
    taken = samples([100] * 30)
    buffer.take(taken[:15], now_after(taken))
    later = samples([100] * 15, first=taken[14][0] + 4_000_000)
    assert seconds(buffer.take(later, now_after(later))) == pytest.approx(15 * PERIOD_US / 1e6)


def test_a_hole_longer_than_a_poll_or_so_is_not_bridged():
    buffer = SampleBuffer(interval=5)
    buffer.take_rate(0, START, only_source=False)
    later = samples([100] * 15, first=(START + 8) * 1_000_000)
    spans = buffer.take(later, now_after(later))
    assert busy(spans) == seconds(spans) == pytest.approx(15 * PERIOD_US / 1e6, rel=1e-3)
    assert buffer.take([], START + 9) == []


def test_a_rate_that_cannot_be_is_dropped_and_counted():
    buffer = SampleBuffer(interval=5)
    assert buffer.take_rate(10**8, START, only_source=True) == []
    assert buffer.dropped == {"out_of_range": 1}


STREAM = st.lists(
    st.tuples(
        st.one_of(st.just(PERIOD_US), st.integers(-2_000_000, 20_000_000)),
        st.one_of(st.integers(0, 100), st.integers(-5, 2**32 - 1)),
    ),
    max_size=80,
)


@given(STREAM, st.lists(st.tuples(st.integers(0, 80), st.integers(-1, 101)), max_size=6))
def test_whatever_nvml_answers_spans_do_not_overlap_and_are_never_more_than_the_time_that_passed(steps, polls):
    at, stream = START * 1_000_000, []
    for step, value in steps:
        at += step
        stream.append((at, value))
    buffer, spans = SampleBuffer(interval=5), []
    rates = {min(cut, len(stream)): rate for cut, rate in polls}
    newest = START
    for start, end in pairwise(sorted({0, len(stream), *rates})):
        newest = max(newest, *(stamp / 1e6 for stamp, _ in stream[start:end]))
        spans += buffer.take(stream[start:end], newest)
        spans += buffer.take_rate(rates.get(end, 0), newest, only_source=False)
    assert all(span.start < span.end <= newest and 0 <= span.utilization <= 1 for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert 0 <= busy(spans) <= seconds(spans) + 1e-6


@given(
    st.lists(st.integers(0, 100), min_size=2, max_size=90),
    st.lists(st.tuples(st.integers(1, 89), st.integers(0, 20)), max_size=8),
)
def test_cutting_polls_anywhere_with_overlap_gives_the_same_spans(values, cuts):
    stream = samples(values)
    whole = SampleBuffer(interval=5).take(stream, now_after(stream))
    buffer, parts = SampleBuffer(interval=5), []
    overlaps = {min(cut, len(stream)): overlap for cut, overlap in cuts}
    for start, end in pairwise(sorted({0, len(stream), *overlaps})):
        told = stream[max(0, start - overlaps.get(start, 0)) : end]
        parts += buffer.take(told, now_after(stream[:end]))
    assert [(end, value) for _, end, value in joined(parts)] == [(end, value) for _, end, value in joined(whole)]
    # Before the period is learned the first sample stands for the nominal one.
    starts = [start for start, _, _ in joined(whole)]
    assert [start for start, _, _ in joined(parts)] == pytest.approx(starts, abs=1e-5)
    assert not buffer.dropped
