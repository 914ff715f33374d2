"""A `prometheus.scrape_interval` that is not the real one is told, an outage is not; and what the engine remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.sources.prometheus.identity import Answers
from dutycycle_alerter.sources.prometheus.listening import Listening
from dutycycle_alerter.sources.prometheus.pace import Pace
from dutycycle_alerter.sources.prometheus.scope import COUNTED
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.store.database import open_database
from tests.alerter.sources.prometheus.past import START
from tests.prometheus.server import PrometheusServer

MINUTE = 60.0
INTERVAL = 15.0
REMEDY = " as prometheus.scrape_interval says: set it to what the engine's scrape job has"


@contextmanager
def source_of(url: str, interval: float, path: Path) -> Iterator[PrometheusSource]:
    given = {"prometheus": {"url": url, "scrape_interval": interval}, "database": f"sqlite:///{path}"}
    settings = Settings.model_validate(given).scaled()
    database = open_database(settings.database)
    source = PrometheusSource(settings, database)
    yield source
    source.close()
    database.close()


def notes(source: PrometheusSource, instants: Sequence[float]) -> list[str]:
    found = []
    for at in instants:
        with source.evidence(at):
            pass
        (target,) = source.targets()
        assert target.error == ""
        found.append(target.note)
    return found


@pytest.mark.parametrize(
    ("interval", "first", "said"),
    [
        (60.0, 30 * MINUTE, ""),
        (15.0, 20 * MINUTE, "6 exporters are scraped about every 60s, not every 15s" + REMEDY),
        (180.0, 56 * MINUTE, "6 exporters are scraped about every 60s, not every 3m" + REMEDY),
    ],
)
def test_a_real_engine_that_scrapes_otherwise_than_configured_is_told_of(
    prometheus: PrometheusServer, tmp_path: Path, interval: float, first: float, said: str
) -> None:
    """Once that lasts longer than an outage can show: the engine of the story scrapes once a minute."""
    # Between two scrapes: some engines' ranges hold both their ends.
    start, window = START + first + 7, COUNTED * interval
    with source_of(prometheus.url, interval, tmp_path / "a.sqlite3") as source:
        early = notes(source, [start, start + window / 2])
        late = notes(source, [start + window, start + window + MINUTE])
    assert not any("scraped" in note for note in early)
    for note in late:
        assert [part for part in note.split("; ") if "scraped" in part] == ([said] if said else [])


def seen(counts: dict[str, float]) -> Answers:
    """Nodes that can be seen, with their samples in the counted window."""
    answers = Answers()
    for name, rows in (("seen_at", dict.fromkeys(counts, 1.0)), ("scrapes", {n: c for n, c in counts.items() if c})):
        keys = [(node,) for node in rows]
        answers.fold(Query(name, "", ("node",)), Vector(keys, np.array(list(rows.values()), dtype=float)))
    return answers


def after(pace: Pace, counts: Callable[[int], dict[str, float]], passes: int = 12) -> list[str]:
    """What is said in the last of passes a minute apart."""
    said: Sequence[str] = []
    for number in range(passes):
        said = pace.update(seen(counts(number)), 1e9 + number * MINUTE)
    return list(said)


CASES: dict[str, tuple[Callable[[int], dict[str, float]], list[str]]] = {
    "as configured": (lambda _: {"a": 20, "b": 21, "c": 19}, []),
    "a scrape in ten fails": (lambda _: {"a": 18}, []),
    "one that has just come": (lambda number: {"a": 20.0, "b": 4.0 * (number - 8)} if number > 8 else {"a": 20.0}, []),
    "an outage that has just ended": (lambda number: {} if number < 8 else {"a": 4.0 * (number - 7)}, []),
    "one of three": (
        lambda _: {"a": 20, "b": 5, "c": 20},
        ["1 exporter is scraped about every 60s, not every 15s" + REMEDY],
    ),
    "hardly ever": (lambda _: {"a": 0}, ["1 exporter is scraped less than every 300s, not every 15s" + REMEDY]),
    "every 400 s": (
        lambda number: {"a": 0 if number % 4 == 0 else 1},
        ["1 exporter is scraped about every 400s, not every 15s" + REMEDY],
    ),
    "slower and faster": (
        lambda _: {"a": 10, "b": 300, "c": 10},
        [
            "2 exporters are scraped about every 30s, not every 15s" + REMEDY,
            "1 exporter is scraped about every 1.0s, not every 15s" + REMEDY,
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_the_pace(case: str) -> None:
    counts, said = CASES[case]
    passes = 13 if case == "every 400 s" else 12
    assert after(Pace(INTERVAL, 1.0), counts, passes) == said


def test_seconds_are_those_of_the_configuration_at_every_time_scale() -> None:
    said = after(Pace(INTERVAL / 30, 30.0), lambda _: {"a": 5})
    assert said == ["1 exporter is scraped about every 60s, not every 15s" + REMEDY]


class Remarking:
    """An engine that has something to say of each query."""

    def __init__(self, *warnings: str) -> None:
        self.warnings = warnings

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        return Vector([], np.empty(0), self.warnings)

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        return Matrix([], np.zeros(1, dtype=np.int64), np.empty(0), np.empty(0), self.warnings)


MIXED = 'PromQL warning: encountered a mix of histograms and floats for metric name "a"'
REMARKS: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": ((), ""),
    "the same of several places": ((f"{MIXED} (1:5)", f"{MIXED} (12:40)"), f"the engine says: {MIXED}"),
    "what is known of copies": (
        ('PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "a:max" (1:6)',),
        "",
    ),
    "the first few": (tuple("edcba"), "the engine says: a; b; c; 2 more like these"),
}


@pytest.mark.parametrize("case", REMARKS)
def test_each_remark_of_the_engine_is_told_once(case: str) -> None:
    warnings, said = REMARKS[case]
    engine = Listening(Remarking(*warnings))
    for _ in range(3):
        engine.instant("a", at=0.0, labels=(), within=1.0)
        engine.raw("a[1m]", at=0.0, labels=(), within=1.0)
    assert engine.take() == said
    assert engine.take() == ""
