"""The `scrape` source over real HTTP and a real store: one failing part never takes another with it."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.fleet import Doing, doing
from dutycycle_alerter.views import IncidentFilter, TargetStatus
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import INTERVAL, Page, Rig, refusing, running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def exporter(node: str = "gpu01", **options: object) -> FakeExporter:
    made = FakeExporter(node, 2, **options)  # type: ignore[arg-type]
    made.allocate(f"slurm/{node}", 0, start=1.0)
    return made


def test_what_exporters_say_becomes_evidence_and_is_shown(path: Path) -> None:
    with running(path, exporter("gpu01"), exporter("gpu02")) as rig:
        rig.step(10, 0.8)
        found = rig.evidence()
        assert found.keys() == {"slurm/gpu01", "slurm/gpu02"}
        assert found["slurm/gpu01"].window(900).gpus[0].busy == pytest.approx(0.8 * 9 * INTERVAL)
        assert rig.source.targets() == tuple(
            TargetStatus(url, node, rig.clock(), "") for url, node in zip(rig.targets, ("gpu01", "gpu02"), strict=True)
        )
        assert [(gpu.gpu.label, gpu.stale, gpu.utilization, gpu.temperature) for gpu in rig.gpus()] == [
            (f"gpu0{node}:{index}", False, 0.5, 45) for node in (1, 2) for index in (0, 1)
        ]
        assert rig.gpus()[0].workloads == (("slurm/gpu01", "alice", 1.0),)
        assert rig.gpus()[1].workloads == ()


def test_present_utilization_is_the_mean_of_the_last_minute(path: Path) -> None:
    node = exporter()
    with running(path, node) as rig:
        rig.step()
        assert rig.gpus()[0].utilization is None, "one answer shows no growth"
        for reading in (1.0, 0.0) * 4:
            node.devices[0].utilization = reading
            rig.step()
        assert (rig.gpus()[0].utilization, doing(rig.gpus()[0])) == (0.5, Doing.BUSY)
        node.restart()
        rig.step(2)
        assert rig.gpus()[0].utilization == pytest.approx(0.25), "an exporter that restarts counts from 0"
        rig.step(4)
        assert (rig.gpus()[0].utilization, doing(rig.gpus()[0])) == (0.0, Doing.IDLE)


def test_before_the_first_scrape_nothing_is_known(path: Path) -> None:
    with running(path, exporter()) as rig:
        assert rig.evidence() == {}
        assert [(target.last_success, target.error) for target in rig.source.targets()] == [(None, "")]
        assert not rig.source.replaying()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda: (500, b""), "answered 500"),
        (lambda: "node_load1 1\n", "not a Dutycycle exporter"),
        (lambda: (200, b"\xff\xfe"), "utf-8"),
        (lambda: "gpu_allocation{", "cut off"),
        (lambda: "garbage in\n", "not a Prometheus exposition"),
        (FakeExporter("gpu02", time_scale=30).page, "the exporter runs at time scale 30, the alerter at 1"),
    ],
)
def test_one_target_that_fails_does_not_disturb_the_other(path: Path, broken: Page, why: str) -> None:
    with running(path, broken, exporter()) as rig:
        rig.step(5)
        bad, good = rig.source.targets()
        assert why in bad.error
        assert bad.last_success is None
        assert (good.error, good.last_success) == ("", rig.clock())
        assert rig.evidence()["slurm/gpu01"].visible
        assert len(rig.gpus()) == 2


def test_a_target_that_is_not_there_is_an_error_that_goes_away(path: Path) -> None:
    failing = [True]
    node = exporter("gpu02")
    page: Page = lambda: (503, b"") if failing[0] else node.page()  # noqa: E731
    with running(path, page, exporter()) as rig:
        rig.step(2)
        assert "answered 503" in rig.source.targets()[0].error
        failing[0] = False
        rig.step()
        assert rig.source.targets()[0] == TargetStatus(rig.targets[0], "gpu02", rig.clock(), "")
        seen = rig.clock()
        failing[0] = True
        rig.step(10)
        assert rig.source.targets()[0].last_success == seen
        found = rig.evidence()
        assert {name: item.visible for name, item in found.items()} == {"slurm/gpu01": True, "slurm/gpu02": False}
        # What was last seen of its GPUs stays, with its time; readings that old are not shown.
        shown = {gpu.gpu.node: (gpu.scraped_at, gpu.stale) for gpu in rig.gpus()}
        assert shown == {"gpu01": (rig.clock(), False), "gpu02": (seen, True)}


def test_a_gpu_that_its_exporter_no_longer_shows_is_not_shown(path: Path) -> None:
    node = exporter()
    with running(path, node) as rig:
        rig.step()
        assert len(rig.gpus()) == 2
        node.gpus = 1
        rig.step()
        assert [gpu.gpu.index for gpu in rig.gpus()] == ["0"]
        node.visible = False
        rig.step()
        assert [gpu.gpu.index for gpu in rig.gpus()] == ["0"], "an exporter that sees no GPU says nothing of them"


def test_a_lost_gpu_stays_listed_until_it_is_back(path: Path) -> None:
    node = exporter()
    node.expected = 2
    node.allocate("slurm/7", 1)
    with running(path, node) as rig:
        rig.step(2)
        seen = rig.clock()
        node.devices[1].shown = False
        rig.step(2)
        rig.restart()
        rig.step()
        here, lost = rig.gpus()
        assert (here.lost_since, lost.gpu.uuid, lost.gpu.index) == (None, "GPU-gpu01-1", "1")
        assert (lost.lost_since, lost.stale, doing(lost)) == (seen, False, Doing.UNKNOWN)
        assert [workload for workload, *_ in lost.workloads] == ["slurm/7"], "its job holds it"
        node.end("slurm/7")
        rig.step()
        assert [(gpu.lost_since, gpu.workloads) for gpu in rig.gpus()][1] == (seen, ())
        node.devices[1].shown = True
        rig.step(2)
        assert [gpu.lost_since for gpu in rig.gpus()] == [None, None]


def test_a_replay_is_told_while_any_exporter_replays(path: Path) -> None:
    with running(path, exporter("gpu01"), exporter("gpu02", replay=True)) as rig:
        rig.step()
        assert rig.source.replaying()


def test_one_exporter_under_two_urls_does_no_harm(path: Path) -> None:
    node = exporter()
    with running(path, node, node.page) as rig:
        rig.step(10, 1.0)
        assert len(rig.gpus()) == 2
        assert rig.evidence()["slurm/gpu01"].recent[0].busy == pytest.approx(9 * INTERVAL)


def test_counters_are_kept_once_per_resolution(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step(41)
        assert rig.points() == 11
        rig.restart()
        assert rig.points() == 11, "nothing new was scraped since it was kept"
        rig.step(1)
        rig.restart()
        assert rig.points() == 12, "what was scraped last is kept at the end"


def test_housekeeping_forgets_what_is_older_than_the_retention(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step(5)
        before = rig.points()
        rig.source.housekeeping()
        assert rig.points() == before
        rig.clock.advance(8 * 86400)
        rig.step()
        rig.source.housekeeping()
        assert rig.points() == 1


def test_a_restart_goes_on_with_what_was_seen_before(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step(100, 0.2)
        rig.evidence()
        rig.restart()
        rig.step(20, 0.2)
        item = rig.evidence()["slurm/gpu01"]
        assert item.visible
        assert item.watched_from == rig.clock() - 119 * INTERVAL
        (usage,) = item.window(1785).gpus
        assert usage.observed == pytest.approx(1785)
        assert usage.utilization == pytest.approx(0.2)
        assert item.window(900).host.cpu_cores == pytest.approx(4)


def test_a_pass_that_fails_keeps_its_consumption_and_one_that_does_not_lets_it_go(path: Path) -> None:
    def fail(rig: Rig) -> None:
        with rig.source.evidence(rig.clock()):
            raise StoreError("full")

    with running(path, exporter()) as rig:
        rig.step()
        rig.step(4, 1.0)
        with pytest.raises(StoreError):
            fail(rig)
        assert rig.evidence()["slurm/gpu01"].recent[0].busy == 4 * INTERVAL
        assert rig.evidence()["slurm/gpu01"].recent == ()


# A store that fails


@pytest.mark.parametrize("table", ["gpu_counter", "gpu_series", "host_counter", "gpu_now"])
def test_a_store_that_fails_for_a_while_loses_no_counts(path: Path, table: str) -> None:
    with running(path, exporter()) as rig:
        rig.exporters[0].allocate("slurm/2", 1, start=1.0)
        rig.step()
        with refusing(path, table):
            rig.exporters[0].allocate("slurm/3", 1, start=1.0)
            failures = []
            for _ in range(20):
                try:
                    rig.step(1, 1.0)
                except StoreError as error:
                    failures.append(str(error))
            assert len(failures) >= 4
            assert all("disk is full" in failure for failure in failures)
            assert rig.evidence()["slurm/gpu01"].visible, "evidence does not need the store"
        rig.step(4, 1.0)
        rig.restart()
        rig.step(1, 1.0)
        item = rig.evidence()["slurm/gpu01"]
        assert item.window(25 * INTERVAL).gpus[0].busy == pytest.approx(25 * INTERVAL)
        assert {gpu.scraped_at for gpu in rig.gpus()} == {rig.clock()}


def test_a_scrape_that_the_store_refused_left_nothing_half_written(path: Path) -> None:
    with running(path, exporter()) as rig:
        with refusing(path, "host_counter"), pytest.raises(StoreError):
            rig.step()
        assert rig.points() == 0


LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


def test_a_store_that_another_process_writes_to_is_waited_for(path: Path) -> None:
    with running(path, exporter()) as rig:
        command = [sys.executable, "-c", LOCKING, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline() == "locked\n"
            scrape = threading.Thread(target=rig.step)
            scrape.start()
            assert rig.points() == 0, "who only looks does not wait"
            other.stdin.write("\n")
            other.stdin.flush()
            scrape.join()
        assert rig.points() == 1


def test_a_store_that_stays_locked_is_an_error_and_the_next_scrape_goes_on(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                rig.step(1, 1.0)
            other.execute("ROLLBACK")
        rig.step(1, 1.0)
        assert rig.evidence()["slurm/gpu01"].recent[0].busy == 2 * INTERVAL


def test_a_store_whose_directory_was_removed_is_an_error_until_it_is_back_and_then_goes_on(tmp_path: Path) -> None:
    """SQLite itself would go on writing into the removed file, and everything would be lost without an error."""
    directory = tmp_path / "state"
    directory.mkdir()
    with running(directory / "store.sqlite3", exporter()) as rig:
        rig.step(4)
        rig.run_pass()
        shutil.rmtree(directory)
        for _ in range(3):
            with pytest.raises(StoreError, match="unable to open"):
                rig.step(4, 1.0)
            with pytest.raises(StoreError, match="unable to open"):
                rig.run_pass()
        directory.mkdir()
        rig.step(1, 1.0)
        rig.run_pass()
        (usage,) = rig.reader.users(since=0, until=1e12)
        assert usage.busy == pytest.approx(4 * INTERVAL), "what the ledger lacked, and no more"
        assert rig.points() == 1
        assert rig.reader.status().time_scale == 1


# A clock that is set back


def test_a_clock_that_was_set_back_stops_neither_evidence_nor_the_store(path: Path) -> None:
    silent = [False]
    node = exporter("gpu02")
    page: Page = lambda: (503, b"") if silent[0] else node.page()  # noqa: E731
    with running(path, exporter(), page) as rig:
        rig.step(40, 1.0)
        rig.run_pass()
        rig.clock.advance(-2 * 3600)
        silent[0] = True
        rig.step(40, 1.0)
        rig.run_pass()
        newest = rig.clock()
        found = rig.evidence()
        assert (found["slurm/gpu01"].visible, found["slurm/gpu02"].visible) == (True, False)
        assert all(target.last_success is not None and target.last_success <= newest for target in rig.source.targets())
        assert {gpu.gpu.node: gpu.stale for gpu in rig.gpus()} == {"gpu01": False, "gpu02": True}
        with closing(sqlite3.connect(path)) as connection:
            (latest,) = connection.execute("SELECT max(t) FROM gpu_counter").fetchone()
        assert newest - 60 <= latest <= newest
        rig.restart()
        rig.step(4, 1.0)
        rig.run_pass()
        used = rig.reader.users(since=0, until=1e12)
        assert sum(usage.busy for usage in used) == pytest.approx((39 + 40 + 4) * INTERVAL + 0, abs=1)
        assert rig.evidence()["slurm/gpu01"].window(600).host.cpu_cores == pytest.approx(4)


def test_a_clock_that_was_set_back_before_a_start_is_noticed_there(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step(40, 1.0)
        rig.run_pass()
        rig.source.close()
        rig.clock.advance(-86400 / 2)
        rig.source = rig.started()
        rig.step(8, 1.0)
        rig.run_pass()
        assert rig.evidence()["slurm/gpu01"].visible
        (usage,) = rig.reader.users(since=0, until=1e12)
        assert 39 * INTERVAL <= usage.busy <= 47 * INTERVAL
        rig.restart()
        rig.step(4, 1.0)
        item = rig.evidence()["slurm/gpu01"]
        assert item.window(900).gpus[0].observed <= 900 + 60


def test_a_clock_that_is_set_back_while_an_exporter_answers_leaves_no_answer_of_later(path: Path) -> None:
    node, back = exporter(), [0.0]

    def page() -> str:
        rig.clock.advance(-back[0])
        return node.page()

    with running(path, page) as rig:
        rig.step(4)
        back[0] = 3600.0
        rig.step()
        back[0] = 0.0
        (target,) = rig.source.targets()
        assert (target.error, target.last_success) == ("", rig.clock())


# A process that is stopped (SIGSTOP, a paused container or machine), and goes on


def test_what_counters_grew_by_during_a_stop_falls_into_no_window_after_it(path: Path) -> None:
    """The exporter answered just before: what it said is as old as the stop is long when it is read."""
    node, stop = exporter(), [0.0]

    def page() -> str:
        said = node.page()
        rig.clock.advance(stop[0])
        return said

    with running(path, page) as rig:
        rig.exporters.append(node)
        for _ in range(40):
            rig.step(4, 0.9)
            rig.run_pass()
        asked, stop[0] = rig.clock() + INTERVAL, 3 * 3600.0
        rig.step(1, 0.9)
        stop[0] = 0.0
        node.run(8700, 0.02)
        node.run(2100, 0.9)
        rig.run_pass()
        assert not rig.evidence()["slurm/gpu01"].visible, "what is known is three hours old"
        assert [target.last_success for target in rig.source.targets()] == [asked]
        assert {(gpu.scraped_at, gpu.stale) for gpu in rig.gpus()} == {(asked, True)}
        rig.step(1, 0.9)
        rig.run_pass()
        assert rig.evidence()["slurm/gpu01"].visible
        for window in (900, 1800, 7200):
            (usage,) = rig.evidence()["slurm/gpu01"].window(window).gpus
            assert usage.observed == 0, "nobody knows when it was"
        assert rig.reader.incidents(IncidentFilter())[1] == 0
        for _ in range(15):
            rig.step(4, 0.9)
            rig.run_pass()
        (usage,) = rig.evidence()["slurm/gpu01"].window(900).gpus
        assert (usage.observed, usage.utilization) == (pytest.approx(900), pytest.approx(0.9))
        assert rig.reader.incidents(IncidentFilter())[1] == 0
        used = rig.reader.users(since=0, until=1e12)
        grown = node.allocations["slurm/gpu01", 0].counters["busy"] - 0.9 * INTERVAL
        assert sum(usage.busy for usage in used) == pytest.approx(grown), "the ledger has all of it"


# Exporters that do not answer


def test_an_answer_counts_while_another_is_still_waited_for(path: Path) -> None:
    release, asked = threading.Event(), threading.Event()

    def late() -> str:
        asked.set()
        assert release.wait(60)
        return exporter("gpu02").page()

    with running(path, late, exporter()) as rig:
        rig.clock.advance(INTERVAL)
        scrape = threading.Thread(target=rig.source.scrape)
        scrape.start()
        assert asked.wait(60)
        try:
            while rig.source.targets()[1].last_success is None:
                assert scrape.is_alive()
            assert rig.evidence()["slurm/gpu01"].visible
            assert rig.source.targets()[0].last_success is None
        finally:
            release.set()
            scrape.join()
        assert rig.source.targets()[0].last_success == rig.clock() or rig.source.targets()[0].error


def test_a_silent_exporter_is_not_asked_again_before_it_has_answered_and_holds_up_no_round(path: Path) -> None:
    release, asked = threading.Event(), []

    def late() -> str:
        asked.append(None)
        assert release.wait(60)
        return exporter("gpu02").page()

    # Rounds are a twentieth of a second here, and a time-out is a minute.
    with running(path, late, exporter(), interval=0.05) as rig:
        for _ in range(100):
            rig.step()
            if rig.source.targets()[1].last_success == rig.clock():
                break
        rounds = len(asked)
        assert rounds <= 1 or rig.source.targets()[0].error, "a second question only after a time-out"
        release.set()
        for _ in range(1000):
            rig.step()
            if rig.source.targets()[0].last_success is not None:
                break
        assert rig.source.targets()[0].node == "gpu02"


def test_what_is_scraped_while_a_pass_begins_is_counted_once_also_by_who_goes_on_from_the_store(path: Path) -> None:
    with running(path, exporter()) as rig:
        rig.step(8)
        began = rig.clock()
        rig.step(1)  # the schedulers took a while to answer
        Engine(rig.settings, rig.source, rig.database, lambda: began).run_pass()
        rig.restart()
        rig.step(4)
        rig.run_pass()
        (user,) = rig.reader.users(since=0, until=1e12)
        counters = [item.counters["allocated"] for item in rig.exporters[0].allocations.values()]
        assert user.allocated == pytest.approx(sum(counters) - len(counters) * rig.interval)
