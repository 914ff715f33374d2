"""An engine that loses samples which were charged already makes nothing count twice, whoever evaluates then."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.sources.prometheus.last_values import LastValues, ids_of
from dutycycle_alerter.sources.prometheus.remembered import Remembered
from tests.alerter.sources.prometheus.forgetful import JOBS, RATE, RATES, Forgetful, Ledger, counted_until, key
from tests.alerter.sources.prometheus.past import START
from tests.alerter.sources.prometheus.test_accounts import STEP


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_what_was_charged_and_is_lost_is_not_charged_again(*, taken_over: bool) -> None:
    """Prometheus is killed at 400 s, its log is damaged, and it is back at 520 s without the last two minutes."""
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    assert ledger.allocated("slurm/1") == counted_until(360) == 330
    engine.lost = {job: [(280, 520)] for job in JOBS}
    if taken_over:
        ledger.take_over()
    ledger.run(480, 720)
    until = counted_until(660)
    for job in JOBS:
        for name, rate in RATES.items():
            charged = ledger.charged[job][name] / rate
            assert until - STEP <= charged <= until + STEP if taken_over else charged == until, (job, name)


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_what_was_not_scraped_for_a_while_is_charged_when_it_is(*, taken_over: bool) -> None:
    """There is as little in the engine, and all that was charged."""
    engine = Forgetful(lost={"slurm/1": [(280, 520)]})
    ledger = Ledger(engine)
    ledger.run(60, 420)
    assert ledger.allocated("slurm/1") == 270
    if taken_over:
        ledger.take_over()
    ledger.run(480, 720)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(660)}


def test_an_engine_that_lost_everything_costs_nothing_where_the_alerter_knows_what_was_said() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [(0, 520)] for job in JOBS}
    ledger.run(480, 720)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(660)}


def test_a_counter_that_began_anew_while_samples_were_lost_counts_from_there() -> None:
    engine = Forgetful(resets={"slurm/1": 540.0})
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [(280, 540)] for job in JOBS}
    ledger.run(480, 840)
    # Until 345 s it was charged, and 540 s is where it began anew.
    until = counted_until(780)
    assert ledger.allocated("slurm/1") == 330 + until - 540
    assert ledger.allocated("slurm/2") == until


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_a_reset_that_was_charged_and_is_lost_is_none_afterwards(*, taken_over: bool) -> None:
    """What is left is of before it, and higher than what was charged last."""
    engine = Forgetful(resets={"slurm/1": 420.0})
    ledger = Ledger(engine)
    ledger.run(60, 780)
    engine.lost = {job: [(330, 750)] for job in JOBS}
    if taken_over:
        ledger.take_over()
    ledger.run(780, 1080)
    # A step in which one begins anew is charged without what it grew before. Who has taken over cannot know either
    # what it had grown until the engine was back.
    until = counted_until(1020)
    assert until - STEP - taken_over * (750 - counted_until(720)) <= ledger.allocated("slurm/1") <= until
    assert ledger.allocated("slurm/2") == until + taken_over * STEP


def test_what_comes_later_than_its_span_is_charged_to_the_next() -> None:
    engine = Forgetful(lost={"slurm/1": [(200, 400)]})
    ledger = Ledger(engine)
    ledger.account(300)
    assert ledger.allocated("slurm/1") == 195
    engine.lost = {}
    ledger.account(360)
    assert ledger.allocated("slurm/1") == counted_until(360)


def test_what_was_lost_before_a_series_came_back_is_no_longer_gone_on_from() -> None:
    """It went away for longer than an answer looks back, was there again at the beginning of a span, and was then lost
    with everything: not what it said when it first went away counts, but what it said last.
    """
    engine = Forgetful(lost={"slurm/1": [(100, 1000)]})
    ledger = Ledger(engine)
    ledger.run(60, 960)
    engine.lost = {}
    ledger.run(960, 1500)
    engine.lost = {job: [(0, 1600)] for job in JOBS}
    ledger.run(1560, 1800)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(1740)}


def test_a_store_that_does_not_know_the_sum_is_taken_at_its_word() -> None:
    """One of before there was such a sum, or of the other source."""
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    ledger.take_over()
    ledger.total = None
    ledger.account(360)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(360)}
    ledger.take_over()
    # Of another instant: what grows as it should is charged all the same.
    ledger.total = 17.0
    ledger.account(420)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(420)}


@pytest.mark.parametrize("lost", [(280.0, 520.0), (100.0, 690.0)])
@pytest.mark.parametrize("takeovers", [[480], [480, 540], [480, 540, 600, 660, 720, 780]])
def test_alerters_that_take_over_one_after_the_other_do_not_believe_each_others_doubts(
    lost: tuple[float, float], takeovers: list[int]
) -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [lost] for job in JOBS}
    ledger.run(480, 1500, takeovers)
    until = counted_until(1440)
    for job in JOBS:
        # What is known at last: until 330 s, and from the first scrape after the loss.
        assert 330 + until - lost[1] - STEP <= ledger.allocated(job) <= until + STEP


@pytest.mark.parametrize("slope", [float("nan"), float("inf"), -1.0, 5.0])
def test_a_slope_that_cannot_be_charges_no_more_than_the_time_since(
    slope: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [(280, 520)] for job in JOBS}
    ledger.take_over()
    slopes = dict.fromkeys(ids_of([*map(key, JOBS)]).tolist(), slope)
    monkeypatch.setattr(ledger._accounting, "_growing", lambda *_: slopes)
    ledger.run(480, 720)
    until = counted_until(660)
    for job in JOBS:
        assert 330 <= ledger.allocated(job) <= until + STEP


@pytest.mark.parametrize("rate", [1.0, 3 / 7, 1 / 7])
@pytest.mark.parametrize("takeovers", [[480], [480, 540]])
def test_of_a_slice_no_more_is_charged_than_it_grows(
    rate: float, takeovers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RATE, "slurm/1", rate)
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [(100, 520)] for job in JOBS}
    ledger.run(480, 1500, takeovers)
    until = counted_until(1440)
    assert 330 + until - 520 - STEP <= ledger.allocated("slurm/1") / rate <= until + STEP + 1e-6


@pytest.mark.parametrize("reset", [253.0, 260.0, 265.0, 268.0, 272.0])
@pytest.mark.parametrize("held", [0.0, 864_000.0])
@pytest.mark.parametrize("first", [0, 1])
def test_two_replicas_that_answer_in_turns_cost_little_when_an_exporter_restarts(
    reset: float, held: float, first: int
) -> None:
    """One has scraped it after its restart and the other has not. A counter that held less than an engine looks back
    may as well be an old sample: it costs what it held.
    """
    replicas = [Forgetful(resets={"slurm/1": reset}, held=held, ahead=ahead) for ahead in (0.0, 10.0)]
    ledger = Ledger(replicas[0])
    for turn, now in enumerate(range(60, 3960, 60)):
        ledger.engine = replicas[(turn + first) % 2]
        ledger.account(now)
    until = counted_until(3900)
    assert until - 6 * STEP - (0 if held else reset) <= ledger.allocated("slurm/1") <= until + STEP
    assert until - 2 * STEP <= ledger.allocated("slurm/2") <= until + STEP


@pytest.mark.parametrize("reset", [290.0, 300.0, 310.0, 325.0])
def test_a_restart_that_is_told_late_costs_what_came_late(reset: float) -> None:
    """For a minute around the restart of an exporter a remote write lags."""
    engine = Forgetful(resets={"slurm/1": reset}, held=864_000.0)
    ledger = Ledger(engine)
    for now in range(60, 3960, 60):
        engine.late = 60.0 if 240 <= now <= 360 else 0.0
        ledger.account(now)
    until = counted_until(3900)
    assert until - 90 <= ledger.allocated("slurm/1") <= until
    assert ledger.allocated("slurm/2") == until


def test_samples_that_are_always_late_are_charged_with_the_next_ones() -> None:
    engine = Forgetful(late=75.0, ends={"slurm/3": 330.0})
    ledger = Ledger(engine)
    ledger.run(60, 3960)
    until = counted_until(3900)
    assert until - 75 <= ledger.allocated("slurm/1") <= until
    # Those of a job's end are lost.
    assert 330 - 75 - 60 <= ledger.allocated("slurm/3") <= 330


@pytest.mark.parametrize("fails", ["allocated", "busy 1"])
def test_a_span_that_fails_while_there_is_doubt_is_asked_for_again(fails: str) -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.run(60, 420)
    engine.lost = {job: [(280, 1500)] for job in JOBS}
    ledger.take_over()
    engine.fails, engine.fails_from = (fails,), 600.0
    stuck = ledger.account(1200)
    assert stuck.error == "query timed out"
    assert stuck.until < START + 600
    engine.fails = ()
    ledger.run(1260, 2400)
    until = counted_until(2340)
    for job in JOBS:
        assert 330 + until - 1500 - STEP <= ledger.allocated(job) <= until


@pytest.mark.parametrize("stands", [False, True], ids=["all others grow", "one is scraped and does not grow"])
def test_doubt_is_over_once_nothing_of_before_can_be_in_an_answer(*, stands: bool) -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    if stands:
        engine.stands = {"slurm/3": 250.0}
    # One of them is never scraped again.
    engine.lost = {"slurm/1": [(100, inf)], "slurm/2": [(100, 330)]}
    ledger.take_over()
    first = ledger.account(360)
    assert first.remembered.doubt is not None
    assert first.remembered.doubt.ids is not None
    flat = [key("slurm/1"), *([key("slurm/3")] if stands else [])]
    assert set(first.remembered.doubt.ids.tolist()) == set(ids_of(flat).tolist())
    assert first.total is None
    last = ledger.run(420, 1200)
    assert last.remembered.doubt is None
    assert last.total is not None


def test_what_is_doubtful_is_nothing_to_go_on_from_when_it_comes_back() -> None:
    """Its last sample is older than what was charged, and by then in no answer any more."""
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(600)
    engine.lost = {"slurm/1": [(100, 3000)], "slurm/2": [(100, 630)]}
    ledger.take_over()
    ledger.run(660, 3600)
    assert ledger.allocated("slurm/3") == counted_until(3540)
    # Charged until 570 s, and from its first sample on.
    assert ledger.allocated("slurm/1") == 570 + counted_until(3540) - 3000


def test_what_is_doubtful_is_nothing_to_go_on_from_when_the_engine_loses_that_too() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(600)
    engine.lost = {job: [(100, 2000)] for job in JOBS}
    ledger.take_over()
    ledger.account(660)
    engine.lost = {job: [(0, 1000)] for job in JOBS}
    ledger.run(720, 1500)
    # Charged until 570 s, and from the first sample on.
    assert {ledger.allocated(job) for job in JOBS} == {570 + counted_until(1440) - 1005}


def test_one_that_came_back_does_not_go_on_from_what_it_said_before_it_went_away() -> None:
    """Its allocation has not ended all the while, so that it is remembered for a day."""
    engine = Forgetful(lost={"slurm/1": [(100, 1500)]})
    ledger = Ledger(engine)
    ledger.alive = frozenset({("node-of-slurm/1", "GPU-of-slurm/1", "", "slurm/1")})
    ledger.run(60, 3000)
    assert ledger.allocated("slurm/1") == counted_until(2940)
    engine.lost = {"slurm/1": [(0, 6000)]}
    ledger.run(3000, 7200)
    assert ledger.allocated("slurm/1") == counted_until(2940) + counted_until(7140) - 6000


def test_a_series_that_is_in_no_answer_is_remembered_for_half_an_hour() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    remembered = ledger._accounting._remembered
    engine.lost = {"slurm/1": [(0, inf)]}
    known = []
    for now in range(360, 2700, 60):
        ledger.account(now)
        last = remembered.last("allocated")
        assert last is not None
        known.append(bool(np.isfinite(last.of(ids_of([key("slurm/1")])))[0]))
    assert known.index(False) == pytest.approx(1800 / 60, abs=2)
    assert not any(known[known.index(False) :])


def test_what_is_known_of_many_is_told_of_each() -> None:
    ids = np.sort(ids_of([key(str(i)) for i in range(1000)]))
    last = LastValues(ids, np.arange(1000.0), np.where(np.arange(1000) % 2, 60.0, 30.0), 60.0)
    asked = np.concatenate((ids[::-1], ids_of([key("unknown")])))
    np.testing.assert_array_equal(last.of(asked), [*range(999, -1, -1), np.nan])
    assert last.total() == sum(range(1, 1000, 2))
    nothing = LastValues(np.empty(0, np.int64), np.empty(0), np.empty(0), 60.0)
    assert np.isnan(nothing.of(asked)).all()
    assert Remembered().take("allocated", 60.0, asked, within=STEP).tolist() == pytest.approx(
        [np.nan] * 1001, nan_ok=True
    )


spans_of_loss = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60)), max_size=3)


@given(
    never_scraped=st.dictionaries(st.sampled_from(JOBS), spans_of_loss),
    lost=st.dictionaries(st.sampled_from(JOBS), st.tuples(st.integers(0, 60), st.integers(1, 90))),
    lost_at=st.integers(60, 100),
    taken_over_at=st.sets(st.integers(0, 29), max_size=4),
    passes=st.lists(st.tuples(st.integers(2, 12), st.booleans()), min_size=10, max_size=30),
    resets=st.dictionaries(st.sampled_from(JOBS), st.integers(0, 130)),
)
def test_no_second_is_charged_twice(
    never_scraped: dict[str, list[tuple[int, int]]],
    lost: dict[str, tuple[int, int]],
    lost_at: int,
    taken_over_at: set[int],
    passes: list[tuple[int, bool]],
    resets: dict[str, int],
) -> None:
    """Whatever was not scraped, is lost later, began anew or was not committed, and whenever another one takes over."""
    away = {job: [(a * STEP, (a + n) * STEP) for a, n in found] for job, found in never_scraped.items()}
    engine = Forgetful(lost=away, resets={job: at * STEP for job, at in resets.items()})
    ledger, step, forgot = Ledger(engine), 0, False
    for number, (ahead, committed) in enumerate(passes):
        step += ahead
        if step >= lost_at and not forgot:
            forgot = True
            engine.lost = {
                job: [*away.get(job, ()), *([(a * STEP, (a + n) * STEP)] if (a, n) != (0, 0) else [])]
                for job in JOBS
                for a, n in [lost.get(job, (0, 0))]
            }
        if number in taken_over_at:
            ledger.take_over()
        ledger.account(step * STEP, committed=committed)
    for job in JOBS:
        # A step that is doubtful may be charged with an interval more than the time since.
        assert ledger.allocated(job) <= ledger.until - START + STEP * len(taken_over_at), job
        if not away.get(job) and job not in resets and not forgot:
            assert ledger.allocated(job) == ledger.until - START
