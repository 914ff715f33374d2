"""A job that is requeued while nobody looks: nothing of its former run is told of the new one."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.slurm.model import JobState, SlurmJob, Snapshot
from dutycycle_alerter.slurm.word import SlurmWord
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, running
from tests.alerter.store.test_incidents import incident

START = 1_750_000_000.0
MINUTE = 60.0


def work(rig: Rig, minutes: int, utilization: float = 0.0) -> None:
    """Scrapes a minute apart, and passes five."""
    for _ in range(minutes // 5):
        rig.step(5, utilization)
        rig.run_pass()


def incidents(rig: Rig) -> list[Incident]:
    """Oldest first."""
    return sorted(rig.reader.incidents(IncidentFilter())[0], key=lambda item: item.id)


def requeue(rig: Rig, *, gpu: int = 0, away: float = 20 * MINUTE) -> float:
    """The first run ends and the second begins, some minutes later, while the alerter is away."""
    exporter = rig.exporters[0]
    exporter.end("slurm/1")
    exporter.forget("slurm/1")
    rig.clock.advance(away)
    began = rig.clock()
    exporter.allocate("slurm/1", gpu, start=began)
    rig.clock.advance(2 * MINUTE)
    exporter.run(2 * MINUTE, 0.0)
    rig.restart()
    return began


@pytest.fixture
def exporter() -> FakeExporter:
    made = FakeExporter("gpu01", 4)
    made.allocate("slurm/1", 0, start=START)
    return made


def test_an_open_incident_of_the_former_run_is_closed_and_the_new_run_gets_its_own(
    tmp_path: Path, exporter: FakeExporter
) -> None:
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 55)
        (before,) = incidents(rig)
        assert before.state is State.OPEN
        began = requeue(rig)
        work(rig, 30)
        (former,) = incidents(rig)
        assert (former.state, former.resolution) == (State.RESOLVED, Resolution.ENDED)
        assert former.resolved_at == before.known_at, "when it was last known: nobody says when it ended"
        assert former.wasted == before.wasted, "what the new run wastes is not the former one's"
        last = rig.reader.events(former.id)[-1]
        assert (last.kind, last.text) == (EventKind.RESOLVED, "the job started again: its previous run is over")
        work(rig, 20)
        former, new = incidents(rig)
        assert former.state is State.RESOLVED
        assert (new.state, new.started_at >= began) == (State.OPEN, True)


def test_the_new_run_has_a_grace_of_its_own(tmp_path: Path, exporter: FakeExporter) -> None:
    """Also while its first process is not told: that of the former run, on the same GPU, began hours ago."""
    for item in exporter.allocations.values():
        item.first_process = START + 20
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 150)
        assert rig.evidence()["slurm/1"].job.first_process == START + 20
        requeue(rig, away=4 * MINUTE)
        work(rig, 35)
        assert rig.evidence()["slurm/1"].job.first_process is None
        (former,) = incidents(rig)
        assert former.resolution is Resolution.ENDED
        work(rig, 5)
        assert incidents(rig)[-1].state is State.OPEN


def test_also_where_the_new_run_is_on_another_gpu(tmp_path: Path, exporter: FakeExporter) -> None:
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 55)
        requeue(rig, gpu=2)
        work(rig, 75)
        assert [(item.state, item.resolution) for item in incidents(rig)] == [
            (State.RESOLVED, Resolution.ENDED),
            (State.OPEN, None),
        ]


def test_what_cleared_in_the_former_run_is_not_reopened(tmp_path: Path, exporter: FakeExporter) -> None:
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 55)
        work(rig, 20, 0.9)
        (cleared,) = incidents(rig)
        assert cleared.resolution is Resolution.CLEARED
        requeue(rig)
        work(rig, 55)
        former, new = incidents(rig)
        assert former == cleared
        assert (new.state, new.reopened) == (State.OPEN, 0)


def test_what_a_person_closed_in_the_former_run_does_not_silence_the_new_one(
    tmp_path: Path, exporter: FakeExporter
) -> None:
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 55)
        rig.reader.resolve(1, actor="bob")
        work(rig, 10)
        assert len(incidents(rig)) == 1
        requeue(rig)
        work(rig, 55)
        former, new = incidents(rig)
        assert (former.resolution, new.state) == (Resolution.OPERATOR, State.OPEN)


def _starts_again(rig: Rig) -> None:
    rig.exporters[0].restart()


def _later(seconds: float) -> Callable[[Rig], None]:
    def move(rig: Rig) -> None:
        for item in rig.exporters[0].allocations.values():
            item.start = None if item.start is None else item.start + seconds

    return move


def _another_process(rig: Rig) -> None:
    """Of a job that no prolog tells of, while exporter and alerter were away: the oldest that lives is a new one."""
    rig.clock.advance(30 * MINUTE)
    for item in rig.exporters[0].allocations.values():
        item.start = item.first_process = rig.clock()
    rig.clock.advance(2 * MINUTE)
    rig.exporters[0].restart()
    rig.restart()


def _untold(rig: Rig) -> None:
    """A start that no exporter tells is when the job was first seen: here after the alerter forgot its counters."""
    rig.source.close()
    with closing(sqlite3.connect(rig.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("DELETE FROM gpu_counter")
        connection.execute("DELETE FROM gpu_series")
    for item in rig.exporters[0].allocations.values():
        item.start = None
    rig.clock.advance(20 * MINUTE)
    rig.source = rig.started()


@pytest.mark.parametrize(
    "change", [_starts_again, _later(1), _later(-1), _later(45 * MINUTE), _another_process, _untold]
)
def test_the_run_is_the_same(tmp_path: Path, exporter: FakeExporter, change: Callable[[Rig], None]) -> None:
    """An exporter that is started again, a start that moves (also to that of another process of the job), one that is
    not told.
    """
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        work(rig, 55)
        (before,) = incidents(rig)
        change(rig)
        work(rig, 15)
        (after,) = incidents(rig)
        assert (after.id, after.state) == (before.id, State.OPEN)
        assert len(rig.reader.events(before.id)) == 1


def test_the_incident_of_the_run_that_slurm_shows_is_not_of_a_former_one() -> None:
    """It was opened in one run, and reopened in the next, whose start no exporter told."""
    began = START + 3600
    job = SlurmJob(1, JobState.RUNNING, ("RUNNING",), start=began, restarts=1)
    word = SlurmWord(Snapshot(at=began + 7200, jobs={1: job}, nodes={}))
    item = _opened(START + 1800)
    assert word.end(replace(item, known_at=began + 7000)) is None
    end = word.end(replace(item, known_at=START + 1900))
    assert end is not None
    assert (end.outcome, end.at) == ("REQUEUED", START + 1900)


def _opened(at: float) -> Incident:
    return incident(started_at=at - 1800, opened_at=at, updated_at=at, known_at=at)
