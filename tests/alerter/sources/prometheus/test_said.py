"""An engine that loses samples which were charged already makes nothing count twice, whoever evaluates then."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.accounting import Accounted, Accounting
from dutycycle_alerter.sources.prometheus.asking import Deadline
from dutycycle_alerter.sources.prometheus.queries import KEPT
from dutycycle_alerter.sources.prometheus.remembered import Remembered
from dutycycle_alerter.sources.prometheus.said import Said, ids_of
from dutycycle_alerter.sources.prometheus.selectors import ACCOUNT, OWNER, Query
from tests.alerter.sources.prometheus.past import START
from tests.alerter.sources.prometheus.test_accounts import HOUR, STEP

RATES = {"allocated": 1.0, "observed": 1.0, "busy": 0.5, "energy": 300.0}
JOBS = ("slurm/1", "slurm/2", "slurm/3")
SHARDS = 2


def key(job: str) -> tuple[str, ...]:
    return ("c", f"node-of-{job}", f"GPU-of-{job}", "", job, "H200")


def queries(span: float) -> list[Query]:
    counters = [
        Query(name, f"{name} {shard} {span}", ACCOUNT, samples=True) for shard in range(SHARDS) for name in RATES
    ]
    return [*counters, Query("owner", "owner", OWNER)]


TOTALS = [Query("total", f"total {shard}", ()) for shard in range(SHARDS)]


@dataclass
class Forgetful:
    """An engine that scrapes each job's counters, in steps of STEP seconds from START on, and answers as Prometheus
    does with `last_over_time(...[KEPT])`. `lost` are spans of seconds from START, by job, of which it knows nothing,
    `resets` when counters began anew. While it is `silent` it does not answer what all of them say together.
    """

    now: float = START
    lost: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    resets: dict[str, float] = field(default_factory=dict)
    silent: bool = False
    asked: list[str] = field(default_factory=list)

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        name, shard, span = query.split()
        steps = at - STEP * np.arange(round(float(span) / STEP), -1, -1)
        keys, offsets, times, values = [], [0], [], []
        for job in self._jobs(int(shard)):
            found = [(t, value) for t in steps.tolist() if (value := self._said(job, t)) is not None]
            if found:
                keys.append(key(job))
                times += [t for t, _ in found]
                values += [value * RATES[name] for _, value in found]
                offsets.append(len(times))
        return Matrix(keys, np.array(offsets), np.array(times), np.array(values))

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        self.asked.append(query)
        if not query.startswith("total"):
            return Vector([], np.array([]))
        if self.silent:
            raise SourceError("query timed out")
        said = [self._said(job, at) for job in self._jobs(int(query.split()[1]))]
        return Vector([()], np.array([sum(value or 0.0 for value in said)]))

    def _jobs(self, shard: int) -> list[str]:
        return [job for place, job in enumerate(JOBS) if place % SHARDS == shard]

    def _said(self, job: str, t: float) -> float | None:
        """Allocated seconds at the last scrape until then that is known."""
        for back in range(round(KEPT / STEP)):
            scraped = t - back * STEP
            if START <= scraped <= self.now and not any(a <= scraped - START < b for a, b in self.lost.get(job, ())):
                reset = self.resets.get(job, inf)
                return scraped - START - (reset if scraped - START >= reset else 0.0)
        return None


class Ledger:
    """What alerters have charged, one after the other, with what the store keeps for the next one."""

    def __init__(self, engine: Forgetful) -> None:
        self.engine = engine
        self.until, self.total = START, None
        self.charged: dict[str, dict[str, float]] = {job: dict.fromkeys(RATES, 0.0) for job in JOBS}
        self.take_over()

    def take_over(self) -> None:
        """Another alerter evaluates, and remembers nothing."""
        self._accounting = Accounting(self.engine, STEP, HOUR, queries, TOTALS)

    def account(self, now: float, *, committed: bool = True) -> Accounted:
        """A pass, so many seconds after START."""
        self.engine.now = START + now
        found = self._accounting.account(START + now, self.until, Deadline(600), total=self.total)
        if committed:
            self._accounting.committed(found, set())
            self.until, self.total = found.until, self.total if found.total is None else found.total
            for (_, job), parts in found.growth.consumption().items():
                for part in parts:
                    for name in RATES:
                        self.charged[job][name] += getattr(part, name) or 0.0
        return found

    def allocated(self, job: str) -> float:
        return self.charged[job]["allocated"]


def counted_until(now: float) -> float:
    """Up to which second after START a pass accounts."""
    return (now // STEP - 2) * STEP


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_what_was_charged_and_is_lost_is_not_charged_again(*, taken_over: bool) -> None:
    """Prometheus is killed at 400 s, its log is damaged, and it is back at 520 s without the last two minutes."""
    engine = Forgetful()
    ledger = Ledger(engine)
    for now in range(60, 420, 60):
        ledger.account(now)
    assert ledger.allocated("slurm/1") == counted_until(360) == 330
    engine.lost = {job: [(280, 520)] for job in JOBS}
    if taken_over:
        ledger.take_over()
    for now in range(480, 720, 60):
        ledger.account(now)
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
    for now in range(60, 420, 60):
        ledger.account(now)
    assert ledger.allocated("slurm/1") == 270
    if taken_over:
        ledger.take_over()
    for now in range(480, 720, 60):
        ledger.account(now)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(660)}


def test_an_engine_that_lost_everything_costs_nothing_where_the_alerter_knows_what_was_said() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    for now in range(60, 420, 60):
        ledger.account(now)
    engine.lost = {job: [(0, 520)] for job in JOBS}
    for now in range(480, 720, 60):
        ledger.account(now)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(660)}


def test_a_counter_that_began_anew_while_samples_were_lost_counts_from_there() -> None:
    engine = Forgetful(resets={"slurm/1": 540.0})
    ledger = Ledger(engine)
    for now in range(60, 420, 60):
        ledger.account(now)
    engine.lost = {job: [(280, 540)] for job in JOBS}
    for now in range(480, 840, 60):
        ledger.account(now)
    # Until 345 s it was charged, and 540 s is where it began anew.
    until = counted_until(780)
    assert ledger.allocated("slurm/1") == 330 + until - 540
    assert ledger.allocated("slurm/2") == until


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_a_reset_that_was_charged_and_is_lost_is_none_afterwards(*, taken_over: bool) -> None:
    """What is left is of before it, and higher than what was charged last."""
    engine = Forgetful(resets={"slurm/1": 420.0})
    ledger = Ledger(engine)
    for now in range(60, 780, 60):
        ledger.account(now)
    engine.lost = {job: [(330, 750)] for job in JOBS}
    if taken_over:
        ledger.take_over()
    for now in range(780, 1080, 60):
        ledger.account(now)
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
    for now in range(60, 960, 60):
        ledger.account(now)
    engine.lost = {}
    for now in range(960, 1500, 60):
        ledger.account(now)
    engine.lost = {job: [(0, 1600)] for job in JOBS}
    for now in range(1560, 1800, 60):
        ledger.account(now)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(1740)}


def test_the_engine_is_asked_what_it_has_of_all_once_and_by_whom_remembers_nothing() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    ledger.account(360)
    assert [query for query in engine.asked if query.startswith("total")] == []
    ledger.take_over()
    ledger.account(420)
    ledger.account(480)
    assert [query for query in engine.asked if query.startswith("total")] == ["total 0", "total 1"]


def test_nothing_is_charged_before_the_engine_has_said_what_it_has() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    ledger.take_over()
    engine.silent = True
    stuck = ledger.account(360)
    assert (stuck.error, stuck.until) == ("query timed out", START + counted_until(300))
    engine.silent = False
    ledger.account(420)
    assert {ledger.allocated(job) for job in JOBS} == {counted_until(420)}


def test_doubt_is_over_once_nothing_of_before_can_be_in_an_answer() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    # One of them is never scraped again.
    engine.lost = {"slurm/1": [(100, inf)], "slurm/2": [(100, 330)]}
    ledger.take_over()
    first = ledger.account(360)
    assert first.remembered.doubt is not None
    assert first.remembered.doubt.ids is not None
    assert set(first.remembered.doubt.ids.tolist()) == set(ids_of([key("slurm/1")]).tolist())
    for now in range(420, 1200, 60):
        last = ledger.account(now)
    assert last.remembered.doubt is None


def test_what_is_doubtful_is_nothing_to_go_on_from_when_it_comes_back() -> None:
    """Its last sample is older than what was charged, and by then in no answer any more."""
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(600)
    engine.lost = {"slurm/1": [(100, 3000)], "slurm/2": [(100, 630)]}
    ledger.take_over()
    for now in range(660, 3600, 60):
        ledger.account(now)
    assert ledger.allocated("slurm/3") == counted_until(3540)
    # Charged until 570 s, and from its first sample on.
    assert ledger.allocated("slurm/1") == 570 + counted_until(3540) - 3000


def test_a_series_that_is_in_no_answer_is_remembered_for_half_an_hour() -> None:
    engine = Forgetful()
    ledger = Ledger(engine)
    ledger.account(300)
    remembered = ledger._accounting._remembered
    engine.lost = {"slurm/1": [(0, inf)]}
    known = []
    for now in range(360, 2700, 60):
        ledger.account(now)
        said = remembered.said("allocated")
        assert said is not None
        known.append(bool(np.isfinite(said.of(ids_of([key("slurm/1")])))[0]))
    assert known.index(False) == pytest.approx(1800 / 60, abs=2)
    assert not any(known[known.index(False) :])


def test_what_is_known_of_many_is_told_of_each() -> None:
    ids = np.sort(ids_of([key(str(i)) for i in range(1000)]))
    said = Said(ids, np.arange(1000.0), np.where(np.arange(1000) % 2, 60.0, 30.0), 60.0)
    asked = np.concatenate((ids[::-1], ids_of([key("unknown")])))
    np.testing.assert_array_equal(said.of(asked), [*range(999, -1, -1), np.nan])
    assert said.total() == sum(range(1, 1000, 2))
    nothing = Said(np.empty(0, np.int64), np.empty(0), np.empty(0), 60.0)
    assert np.isnan(nothing.of(asked)).all()
    assert Remembered().take("allocated", 60.0, STEP, asked).tolist() == pytest.approx([np.nan] * 1001, nan_ok=True)


spans_of_loss = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60)), max_size=3)


@given(
    never_scraped=st.dictionaries(st.sampled_from(JOBS), spans_of_loss),
    lost=st.dictionaries(st.sampled_from(JOBS), st.tuples(st.integers(0, 60), st.integers(1, 90))),
    lost_at=st.integers(60, 100),
    taken_over_at=st.integers(60, 110),
    passes=st.lists(st.tuples(st.integers(2, 12), st.booleans()), min_size=10, max_size=30),
    resets=st.dictionaries(st.sampled_from(JOBS), st.integers(0, 130)),
)
def test_no_second_is_charged_twice(
    never_scraped: dict[str, list[tuple[int, int]]],
    lost: dict[str, tuple[int, int]],
    lost_at: int,
    taken_over_at: int,
    passes: list[tuple[int, bool]],
    resets: dict[str, int],
) -> None:
    """Whatever was not scraped, is lost later, began anew or was not committed, and whenever another one takes over."""
    away = {job: [(a * STEP, (a + n) * STEP) for a, n in found] for job, found in never_scraped.items()}
    engine = Forgetful(lost=away, resets={job: at * STEP for job, at in resets.items()})
    ledger, step, forgot, changed = Ledger(engine), 0, False, False
    for ahead, committed in passes:
        step += ahead
        if step >= lost_at and not forgot:
            forgot = True
            engine.lost = {
                job: [*away.get(job, ()), *([(a * STEP, (a + n) * STEP)] if (a, n) != (0, 0) else [])]
                for job in JOBS
                for a, n in [lost.get(job, (0, 0))]
            }
        if step >= taken_over_at and not changed:
            changed = True
            ledger.take_over()
        ledger.account(step * STEP, committed=committed)
    for job in JOBS:
        # A step that is doubtful may be charged with an interval more than the time since.
        assert ledger.allocated(job) <= ledger.until - START + STEP, job
