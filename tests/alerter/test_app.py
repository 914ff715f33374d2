"""The alerter as a whole, on its own threads and in real time: it starts, watches, stops cleanly and goes on."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dutycycle_alerter.app import Alerter
from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.evaluator import Evaluator
from dutycycle_alerter.settings import Settings
from tests.alerter.exporters import FakeExporter, serving
from tests.alerter.store.test_incidents import add, incident
from tests.alerter.waiting import wait_until

SCALE = 120.0
"""A scrape every eighth of a second, a pass every half."""


@pytest.fixture
def exporter() -> FakeExporter:
    made = FakeExporter("gpu01", 2, time_scale=SCALE)
    made.allocate("slurm/1", 0, start=1.0)
    return made


@pytest.fixture
def target(exporter: FakeExporter) -> Iterator[str]:
    def page() -> str:
        exporter.run(0.1, 0.5)
        return exporter.page()

    with serving(page) as (url,):
        yield url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def configured(path: Path, *targets: str, time_scale: float = SCALE) -> Settings:
    data = {"database": f"sqlite:///{path}", "time_scale": time_scale, "source": {"targets": targets}}
    return Settings.model_validate(data)


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_it_scrapes_judges_and_shows_until_it_is_stopped(path: Path, target: str) -> None:
    before = set(threading.enumerate())
    with Alerter(configured(path, target)) as alerter:
        wait_until(lambda: alerter.store.status().last_pass)
        wait_until(lambda: alerter.store.users(since=0, until=1e12))
        status = alerter.store.status()
        assert [(t.url, t.node, t.error) for t in status.targets] == [(target, "gpu01", "")]
        assert [gpu.gpu.label for gpu in alerter.store.gpus()] == ["gpu01:0", "gpu01:1"]
        assert status.time_scale == SCALE
    assert not [thread for thread in set(threading.enumerate()) - before if "scrape" in thread.name]


def test_a_second_start_goes_on_with_the_same_store(path: Path, target: str) -> None:
    with Alerter(configured(path, target)) as alerter:
        wait_until(lambda: alerter.store.users(since=0, until=1e12))
    (first,) = alerter.store.users(since=0, until=1e12)
    points = rows(path, "gpu_counter")
    assert points >= 1
    with Alerter(configured(path, target)) as alerter:
        wait_until(lambda: alerter.store.users(since=0, until=1e12)[0].allocated > first.allocated)
        assert rows(path, "gpu_series") == 1
    assert rows(path, "gpu_counter") > points
    alerter.store.close()


def test_what_was_scraped_last_is_kept_at_the_end(path: Path, target: str) -> None:
    with Alerter(configured(path, target)) as alerter:
        wait_until(alerter.store.gpus)
        evaluator = alerter._leadership._evaluator
        assert isinstance(evaluator, Evaluator)
    with closing(sqlite3.connect(path)) as connection:
        (kept,) = connection.execute("SELECT max(t) FROM gpu_counter").fetchone()
    assert kept == evaluator._source.targets()[0].last_success


def test_what_became_of_incidents_is_counted_after_passes_also_where_nobody_scrapes(path: Path, target: str) -> None:
    with Alerter(configured(path, target)) as alerter:
        add(alerter._database, incident("slurm/2"))
        wait_until(lambda: sum(alerter._counting._tally.opened.values()))
        assert sum(alerter.tally(True).opened.values()) == 1


def test_it_goes_on_while_nothing_answers(path: Path) -> None:
    with Alerter(configured(path, "http://127.0.0.1:1/metrics")) as alerter:
        wait_until(lambda: alerter.store.status().last_pass)
        first = alerter.store.status().last_pass
        wait_until(lambda: alerter.store.status().last_pass != first)
        assert "refused" in alerter.store.status().targets[0].error


def test_an_error_in_the_block_ends_it_and_is_not_swallowed(path: Path, target: str) -> None:
    with pytest.raises(RuntimeError, match="Ctrl-C"), Alerter(configured(path, target)):
        raise RuntimeError("Ctrl-C")


def test_a_store_of_another_time_scale_is_refused(path: Path, target: str) -> None:
    Alerter(configured(path, target))._close()
    with pytest.raises(StoreError, match="time scale 120, not 60"):
        Alerter(configured(path, target, time_scale=60))


def test_a_start_that_fails_leaves_nothing_open(path: Path, target: str) -> None:
    alerter = Alerter(configured(path, target))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE gpu_series")
    with pytest.raises(StoreError, match="gpu_series"):
        alerter.__enter__()


def test_a_store_that_fails_at_the_end_is_told_and_the_end_comes(
    path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Alerter(configured(path, target)) as alerter:
        wait_until(alerter.store.gpus)
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON gpu_counter BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
            )
        wait_until(lambda: "scrape failed" in caplog.text)
    assert "the last counters were not saved" in caplog.text
    assert "disk is full" in caplog.text


def test_a_store_that_is_not_as_the_last_pass_left_it_is_gone_on_from_in_a_new_term(path: Path, target: str) -> None:
    """As after a commit of which the answer was lost, or that a stand-by which took over does not have."""
    with Alerter(configured(path, target)) as alerter:
        wait_until(lambda: alerter.store.users(since=0, until=1e12))
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("UPDATE meta SET value = CAST(value AS REAL) - 0.25 WHERE key = 'accounted_until'")
            (moved,) = connection.execute("SELECT value FROM meta WHERE key = 'accounted_until'").fetchone()
        wait_until(lambda: alerter.standing().lost == 1 and alerter.standing().leads)
        epoch = alerter.standing().epoch
        wait_until(lambda: (alerter.store.status().last_pass or 0) > float(moved) + 1)
        assert (alerter.standing().lost, alerter.standing().epoch) == (1, epoch)
        assert epoch == 2
