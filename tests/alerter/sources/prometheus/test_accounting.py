"""An engine that fails on the way costs the ledger time and nothing else: what it gave of a span counts when all of it
is there, and once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.accounting import Accounted, Accounting, Sooner
from dutycycle_alerter.sources.prometheus.accounts import SPAN
from dutycycle_alerter.sources.prometheus.asking import Deadline
from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.selectors import ACCOUNT, OWNER, Query
from tests.alerter.sources.prometheus.past import START
from tests.alerter.sources.prometheus.test_accounts import HOUR, KEY, STEP, total

SPAN_SECONDS = SPAN * STEP
ALIVE: set[Key] = {("n", "GPU-1", "", "slurm/1")}


def queries(span: float) -> tuple[Query, ...]:
    counters = (Query(f"{name}", f"{name} {span}", ACCOUNT, samples=True) for name in ("allocated", "observed"))
    return (*counters, Query("owner", f"owner {span}", OWNER))


@dataclass
class Counting:
    """An engine that knows a GPU that a job has held since START, but for its silence; of what comes after `fails_from`
    it does not answer what `fails` begins with.
    """

    fails: str = "observed"
    fails_from: float = inf
    silent: tuple[float, float] = (0.0, 0.0)
    asked: list[str] = field(default_factory=list)

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        span = float(query.split()[1])
        self._hear(query, at)
        times = np.arange(at - span, at + 1, STEP)
        times = times[(times < self.silent[0]) | (times >= self.silent[1])]
        return Matrix(
            [KEY] if len(times) else [], np.array([0, len(times)][: 1 + bool(len(times))]), times, times - START
        )

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        self._hear(query, at)
        return Vector([("c", "slurm/1", "slurm", "", "", "1", "alice", "", "")], np.array([1.0]))

    def _hear(self, query: str, at: float) -> None:
        self.asked.append(query)
        if at > self.fails_from and query.startswith(self.fails):
            raise SourceError("query timed out")


def made(engine: Counting) -> Accounting:
    return Accounting(engine, STEP, HOUR, queries)


def counted(*accounted: Accounted) -> float:
    return sum(total(one.growth) for one in accounted)


@pytest.mark.parametrize("fails", ["allocated", "observed", "owner"])
def test_spans_that_are_whole_are_kept_and_the_others_are_asked_for_again(fails: str) -> None:
    engine = Counting(fails, START + 2.5 * SPAN_SECONDS)
    accounting, at = made(engine), START + 5 * SPAN_SECONDS + 3 * STEP
    first = accounting.account(at, START, Deadline(600))
    assert (first.error, first.until) == ("query timed out", START + 2 * SPAN_SECONDS)
    assert counted(first) == 2 * SPAN_SECONDS
    accounting.committed(first, ALIVE)
    stuck = accounting.account(at, first.until, Deadline(600))
    assert (stuck.error, stuck.until, counted(stuck)) == ("query timed out", first.until, 0)
    accounting.committed(stuck, ALIVE)
    engine.fails_from = inf
    rest = accounting.account(at, stuck.until, Deadline(600))
    assert (rest.error, rest.until) == ("", START + 5 * SPAN_SECONDS + STEP)
    assert counted(first, rest) == rest.until - START
    assert rest.growth.since == first.until


@pytest.mark.parametrize("fails", ["none", "observed", "owner"])
def test_a_counter_that_comes_back_counts_on_from_there_also_where_that_failed_once(fails: str) -> None:
    """What was taken from among the counters that were away is there again."""
    silence = (START + 100, START + 2 * SPAN_SECONDS + 100)
    engine = Counting(fails, START + 2.5 * SPAN_SECONDS, silent=silence)
    accounting, at = made(engine), START + 3 * SPAN_SECONDS + 2 * STEP
    first = accounting.account(at, START, Deadline(600))
    accounting.committed(first, ALIVE)
    engine.fails_from = inf
    rest = accounting.account(at, first.until, Deadline(600))
    assert counted(first, rest) == 3 * SPAN_SECONDS


def test_what_is_not_committed_has_not_happened() -> None:
    silence = (START + 100, START + 2 * SPAN_SECONDS + 100)
    accounting, at = made(Counting(silent=silence)), START + 3 * SPAN_SECONDS + 2 * STEP
    first = accounting.account(START + 2 * SPAN_SECONDS + 2 * STEP, START, Deadline(600))
    accounting.committed(first, ALIVE)
    for _ in range(3):
        assert counted(first, accounting.account(at, first.until, Deadline(600))) == 3 * SPAN_SECONDS


@pytest.mark.parametrize(
    ("alive", "away", "remembered"),
    [
        (True, 1900.0, True),
        (True, 86300.0, True),
        (True, 87000.0, False),
        (False, 1700.0, True),
        (False, 1900.0, False),
    ],
)
def test_counters_of_jobs_that_have_ended_are_not_kept_for_long(alive: bool, away: float, remembered: bool) -> None:
    """On a busy cluster there are millions of them in a day."""
    last = START + 90.0
    engine = Counting(silent=(last + 1, last + away))
    accounting, until, sums = made(engine), START, 0.0
    while until < last + away + SPAN_SECONDS:
        one = accounting.account(until + SPAN_SECONDS + 2 * STEP, until, Deadline(600))
        accounting.committed(one, ALIVE if alive else set())
        sums, until = sums + counted(one), one.until
    back = np.ceil((last + away) / STEP) * STEP
    assert sums == (until - START if remembered else until - back + 90)


def test_a_part_of_the_time_is_kept_for_usage() -> None:
    whole, sooner = Deadline(100), Sooner(100)
    assert sooner.left() == pytest.approx(75, abs=5)
    for one in (whole, sooner):
        one._at = time.monotonic() + 20
    assert whole.left() > 15
    with pytest.raises(SourceError, match=r"pass_timeout \(100 s\) is kept for usage"):
        sooner.left()
