"""Every second that a job held a GPU is accounted for once, whatever the passes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.history import Series
from dutycycle_alerter.promql.answers import Matrix
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.sources.prometheus.accounts import SPAN, SPANS, Growth, ahead, spans
from dutycycle_alerter.sources.prometheus.charging import Charging
from dutycycle_alerter.sources.prometheus.remembered import Remembered
from dutycycle_alerter.store.database import Database, open_database, set_meta
from dutycycle_alerter.store.status import TOTAL, WATERMARK
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.past import START
from tests.prometheus.server import PrometheusServer

KEY = ("c", "n", "GPU-1", "", "slurm/1", "H200")
STEP, HOUR = 15.0, 3600.0


def matrix(samples: dict[float, float], start: float, end: float) -> Matrix:
    """What an engine has of one counter over a span, its ends included."""
    times = [t for t in sorted(samples) if start <= t <= end]
    values = np.array([samples[t] for t in times])
    keys = [KEY] if times else []
    return Matrix(keys, np.array([0, len(times)] if times else [0]), np.array(times), values)


def grown(samples: dict[float, float], cuts: list[float]) -> Growth:
    growth, remembered = Growth(STEP, HOUR), Remembered()
    for start, end in pairwise(cuts):
        charging, answer = Charging(start, end, STEP, remembered, {}), matrix(samples, start, end)
        growth.add("allocated", answer.keys, start, end, charging.steps("allocated", answer))
        charging.close()
    return growth


def total(growth: Growth) -> float:
    return sum(part.allocated for parts in growth.consumption().values() for part in parts)


values = st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=2, max_size=40)


@given(values, st.data())
def test_however_time_is_cut_the_parts_add_up_to_what_the_scrape_source_counts(
    said: list[int | None], data: st.DataObject
) -> None:
    """Resets, and samples that are missing for long, included."""
    samples = {START + STEP * i: float(value) for i, value in enumerate(said) if value is not None}
    last = len(said) - 1
    inner = data.draw(st.lists(st.integers(0, last), max_size=6))
    cuts = [START + STEP * i for i in sorted({0, last, *inner})]
    series = Series(1)
    for t, value in samples.items():
        series.append(t, (value,))
    expected = (series.totals[-1][0] or 0.0) - (series.totals[0][0] or 0.0) if samples else 0.0
    assert total(grown(samples, cuts)) == pytest.approx(expected)


def test_a_span_is_charged_to_the_hours_that_it_lies_in() -> None:
    cuts = [START + 3300, START + 3900]
    samples = {t: t - START for t in np.arange(cuts[0], cuts[1] + 1, STEP).tolist()}
    (parts,) = grown(samples, cuts).consumption().values()
    assert [(part.allocated, floor((part.at or 0) / HOUR)) for part in parts] == [
        (300, START / HOUR),
        (300, START / HOUR + 1),
    ]


def test_the_first_sample_of_a_counter_is_nobodys() -> None:
    assert total(grown({START + STEP: 500.0, START + 2 * STEP: 515.0}, [START, START + 60])) == 15


def test_idle_is_what_was_measured_of_the_gpus_that_did_nothing() -> None:
    """The counter of a GPU that did nothing does not grow, or is not there."""
    busy_gpu, idle_gpu, unmeasured = (("c", "n", f"GPU-{i}", "", "slurm/1", "H200") for i in range(3))
    growth, charging = Growth(STEP, HOUR), Charging(START, START + 60, STEP, Remembered(), {})
    for name, rates in (
        ("allocated", {busy_gpu: 1.0, idle_gpu: 1.0, unmeasured: 1.0}),
        ("observed", {busy_gpu: 1.0, idle_gpu: 1.0}),
        ("busy", {busy_gpu: 0.5, idle_gpu: 0.0}),
    ):
        times = START + STEP * np.arange(5)
        values = np.concatenate([rate * (times - START) for rate in rates.values()])
        offsets = np.arange(len(rates) + 1) * len(times)
        answer = Matrix(list(rates), offsets, np.tile(times, len(rates)), values)
        growth.add(name, answer.keys, START, START + 60, charging.steps(name, answer))
    ((part,),) = growth.consumption().values()
    assert (part.allocated, part.observed, part.busy, part.idle) == (180, 120, 30, 60)
    unknown = grown({START: 0.0, START + STEP: 15.0}, [START, START + 60])
    assert [part.idle for parts in unknown.consumption().values() for part in parts] == [None]


def test_energy_is_none_where_no_gpu_counts_it() -> None:
    (parts,) = grown({START: 0.0, START + STEP: 15.0}, [START, START + 60]).consumption().values()
    assert [part.energy for part in parts] == [None]


def test_what_was_consumed_says_between_which_instants_within_its_hour() -> None:
    full = HOUR * (START // HOUR + 1)
    samples = {full - 300.0 + STEP * i: STEP * i for i in range(41)}
    (parts,) = grown(samples, [full - 300, full, full + 300]).consumption().values()
    assert [(part.since, part.until) for part in parts] == [(full - 300, full), (full, full + 300)]


@pytest.mark.parametrize(
    ("since", "at", "expected"),
    [
        pytest.param(None, 1000.0, [960.0], id="never: nothing of the past is charged"),
        pytest.param(900.0, 1000.0, [900.0, 960.0], id="a minute later"),
        pytest.param(960.0, 1000.0, [960.0], id="nothing new"),
        pytest.param(5000.0, 1000.0, [5000.0], id="the clock was set back: not twice"),
        pytest.param(901.0, 1000.0, [915.0, 960.0], id="another scrape interval than before"),
        pytest.param(0.0, 600.0, [0.0, 240.0, 480.0, 570.0], id="in spans that an answer can hold"),
    ],
)
def test_what_is_due_ends_two_scrapes_ago(since: float | None, at: float, expected: list[float]) -> None:
    assert spans(since, at, STEP).instants == expected


@pytest.mark.parametrize(
    ("since", "told"),
    [
        pytest.param(None, False, id="never accounted"),
        pytest.param(940.0, False, id="as ever"),
        pytest.param(1045.0, False, id="a clock that was set a little"),
        pytest.param(1060.0, True, id="a minute ahead"),
        pytest.param(1e9, True, id="far ahead"),
    ],
)
def test_what_is_accounted_for_until_a_time_to_come_is_told(since: float | None, *, told: bool) -> None:
    said = ahead(since, 1000.0, STEP)
    assert bool(said) == told
    if since == 1e9:
        assert said.startswith("usage counts as accounted for until 2001-09-09 01:46 UTC, which is to come")


@pytest.mark.parametrize(
    "grew_until",
    [
        pytest.param(None, id="it is not known to have grown"),
        # A scrape was missed there, or comes less often than is configured.
        pytest.param(285.0, id="it did not grow to the end of what is accounted for"),
        pytest.param(600.0, id="it went on behind what is accounted for"),
    ],
)
def test_while_usage_is_behind_a_job_does_not_end_where_that_stands(grew_until: float | None) -> None:
    samples = {} if grew_until is None else {START + t: t for t in np.arange(0, grew_until + 1, STEP).tolist()}
    growth = grown(samples, [START, START + 600])
    assert growth.end_of(("c", "slurm/1"), START + 3000) == START + 3000


def test_a_job_has_ended_when_it_last_grew_where_usage_is_not_behind() -> None:
    growth = grown({START + t: float(t) for t in range(0, 601, 15)}, [START, START + 600])
    assert growth.end_of(("c", "slurm/1"), START + 590) == START + 600


def test_hours_are_caught_up_a_part_at_each_pass() -> None:
    due = spans(0.0, 10 * HOUR, STEP)
    assert len(due.instants) == SPANS + 1
    assert due.until == SPANS * SPAN * STEP


def test_at_most_a_week_is_caught_up() -> None:
    assert spans(0.0, 100 * 86400.0, STEP).instants[0] == pytest.approx(93 * 86400, abs=60)


@pytest.fixture
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = open_database(f"sqlite:///{tmp_path_factory.mktemp('store')}/a.sqlite3")
    yield found
    found.close()


class Passes:
    """Passes over a real engine; each has a source of its own, as after a restart, where `anew`."""

    def __init__(self, url: str, interval: float, database: Database, *, anew: bool) -> None:
        section = {"url": url, "scrape_interval": interval}
        self.settings = Settings.model_validate({"prometheus": section}).scaled()
        self.database, self.anew = database, anew
        self.used: Counter[tuple[str, str]] = Counter()
        self.source = PrometheusSource(self.settings, database)

    def run(self, at: float, *, fail: bool = False) -> None:
        if self.anew:
            self.source.close()
            self.source = PrometheusSource(self.settings, self.database)
        with suppress(ZeroDivisionError), self.source.evidence(at) as evidence:
            assert 1 / (not fail)
            with self.database.write() as connection:
                set_meta(connection, WATERMARK, evidence.accounted_until)
                if evidence.accounted_total is not None:
                    set_meta(connection, TOTAL, evidence.accounted_total)
            for item in evidence.jobs:
                for part in item.recent:
                    for name in ("allocated", "observed", "busy"):
                        self.used[item.job.id, name] += getattr(part, name)
                    self.used[item.job.user, "of user"] += part.allocated


@pytest.mark.parametrize("anew", [False, True], ids=["one alerter", "restarted before every pass"])
def test_the_ledger_gets_what_the_jobs_had(
    prometheus: PrometheusServer, story: Story, database: Database, *, anew: bool
) -> None:
    """Through an outage of more than an hour, in which slurm/5 ended and slurm/6 began, a pass that is not committed,
    and a restart of an exporter.
    """
    interval = story.past.interval
    passes = Passes(prometheus.url, interval, database, anew=anew)
    passes.run(START + 2 * interval)
    for at in (300, 361, 365, 6000):
        passes.run(START + at)
    passes.run(START + 7000, fail=True)
    for at in (8000, story.at - START, story.at - START + 2 * interval):
        passes.run(START + at)
    passes.source.close()
    until = story.at - START
    assert passes.used["slurm/1", "allocated"] == pytest.approx(2 * until)
    assert passes.used["slurm/1", "busy"] == pytest.approx(until)
    assert passes.used["slurm/2", "busy"] == pytest.approx(0.0004 * until)
    assert passes.used["slurm/3", "allocated"] == pytest.approx(0.5 * until)
    assert passes.used["slurm/5", "busy"] == pytest.approx(3600)
    # Without what its first sample held already: an exporter would have shown 0 there.
    assert passes.used["slurm/6", "allocated"] == pytest.approx(until - 3720 - interval)
    assert passes.used["slurm/7", "allocated"] == pytest.approx(until)
    assert passes.used["slurm/8", "observed"] == 0
    assert passes.used["slurm/12", "allocated"] == pytest.approx(2 * until)
    assert passes.used["slurm/13", "allocated"] == pytest.approx(until)
    assert passes.used['o"brien\\', "of user"] == pytest.approx(2 * until)
    assert passes.used["alice", "of user"] > until
    assert passes.used["", "of user"] == 0
    if not anew:
        kept = passes.source._accounting._remembered._away.values()
        away = {one.key[4] for one in kept if one is not None}
        # Long after the one ended, and while the exporter of the other is silent.
        assert ("slurm/5" in away, "slurm/11" in away) == (False, True)
