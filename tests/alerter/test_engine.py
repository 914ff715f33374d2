"""Passes over real evidence and a real store: all of a pass happens, or nothing, and what happened happens once."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.settings import Prometheus, Schedule
from dutycycle_alerter.store.schema import gpu_counter, gpu_series
from dutycycle_alerter.views import IncidentFilter, NotEvaluable, TargetStatus
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Page, Rig, Store, refusing, running

START = 1_750_000_000.0
MINUTE = 60.0
HOUR = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """For what the kind of database cannot change."""
    return tmp_path / "store.sqlite3"


def node(*workloads: str) -> FakeExporter:
    """One node whose workloads have one GPU each, allocated when the clock starts."""
    made = FakeExporter("gpu01", 4)
    for gpu, workload in enumerate(workloads):
        made.allocate(workload, gpu, start=START)
    return made


def run(store: Store, *pages: FakeExporter | Page) -> AbstractContextManager[Rig]:
    """Scrapes are a minute apart here: fewer of them show the same."""
    return running(store, *pages, interval=MINUTE)


def work(rig: Rig, seconds: float, utilization: float | dict[str, float | None], *, passes: bool = True) -> None:
    """Scrape for a while at one utilization, with a pass every minute."""
    for _ in range(round(seconds / MINUTE)):
        rig.step(1, utilization)
        if passes:
            rig.run_pass()


def incidents(rig: Rig) -> list[Incident]:
    return list(rig.reader.incidents(IncidentFilter())[0])


def events(rig: Rig, number: int = 1) -> list[EventKind]:
    return [event.kind for event in rig.reader.events(number)]


def allocated(rig: Rig) -> dict[str, float]:
    """GPU-seconds in the ledger by user."""
    return {usage.user: usage.allocated for usage in rig.reader.users(since=0, until=1e12)}


# From evidence to an incident and back


def test_an_idle_job_opens_one_incident_that_resolves_when_it_works(store: Store) -> None:
    with run(store, node("slurm/1", "slurm/2")) as rig:
        rig.exporters[0].allocations["slurm/2", 1].labels["user"] = "bob"
        rig.exporters[0].allocations["slurm/1", 0].processes = 0
        work(rig, 50 * MINUTE, {"slurm/1": 0.0, "slurm/2": 0.9})
        (item,) = incidents(rig)
        assert (item.subject, item.rule, item.state, item.user) == ("slurm/1", "idle", State.OPEN, "alice")
        # Grace, the window, and at most one pass more.
        assert 40 * MINUTE <= item.opened_at - START <= 43 * MINUTE
        assert item.wasted == pytest.approx(rig.clock() - item.started_at, abs=2 * MINUTE)
        work(rig, 20 * MINUTE, 0.9)
        (item,) = incidents(rig)
        assert (item.state, item.resolution) == (State.RESOLVED, Resolution.CLEARED)
        assert (events(rig)[0], events(rig)[-1]) == (EventKind.OPENED, EventKind.RESOLVED)
        assert allocated(rig) == {
            "alice": pytest.approx(70 * MINUTE - MINUTE),
            "bob": pytest.approx(70 * MINUTE - MINUTE),
        }


def test_a_job_that_ends_resolves_its_incident_as_ended(store: Store) -> None:
    with run(store, node("slurm/1")) as rig:
        work(rig, 50 * MINUTE, 0.0)
        assert incidents(rig)[0].state is State.OPEN
        ended = rig.clock()
        rig.exporters[0].end("slurm/1")
        work(rig, 3 * MINUTE, 0.0)
        (item,) = incidents(rig)
        assert (item.state, item.resolution, item.resolved_at) == (State.RESOLVED, Resolution.ENDED, ended)
        work(rig, 10 * MINUTE, 0.0)
        assert len(incidents(rig)) == 1


def test_a_dead_exporter_opens_and_resolves_nothing(path: Path) -> None:
    answering = [True]
    exporter = node("slurm/1")
    with run(path, lambda: exporter.page() if answering[0] else (503, b"")) as rig:
        rig.exporters.append(exporter)
        work(rig, 50 * MINUTE, 0.0)
        before = [replace(item, wasted=0, energy=0, known_at=0, updated_at=0) for item in incidents(rig)]
        answering[0] = False
        work(rig, 3 * HOUR, 0.9)
        after = [replace(item, wasted=0, energy=0, known_at=0, updated_at=0) for item in incidents(rig)]
        assert after == before
        assert events(rig) == [EventKind.OPENED]


# Two passes on the same evidence


def test_a_second_pass_on_the_same_evidence_changes_nothing(path: Path) -> None:
    with run(path, node("slurm/1", "slurm/2")) as rig:
        for state in ("idle", "working", "ended"):
            if state == "ended":
                rig.exporters[0].end("slurm/1")
            work(rig, 50 * MINUTE, 0.9 if state == "working" else 0.0, passes=state != "working")
            rig.run_pass()
            before = rig.contents()
            rig.run_pass()
            rig.run_pass()
            assert rig.contents() == before, state


# A store that fails in the middle of a pass


@pytest.mark.parametrize(
    ("table", "action"),
    [
        ("incident", "INSERT"),
        ("incident_event", "INSERT"),
        ("usage_hour", "INSERT"),
        ("meta", "UPDATE"),
    ],
)
def test_a_pass_that_fails_changes_nothing_and_the_next_makes_up_for_it(store: Store, table: str, action: str) -> None:
    with run(store, node("slurm/1")) as rig:
        work(rig, 8 * MINUTE, 0.0)
        work(rig, 42 * MINUTE, 0.0, passes=False)
        if table == "usage_hour":
            work(rig, HOUR, 0.0, passes=False)  # the next hour has no row yet
        before = rig.contents()
        consumed = rig.clock() - START - MINUTE
        with refusing(store, table, action):
            for _ in range(3):
                with pytest.raises(StoreError, match="disk is full"):
                    rig.run_pass()
        assert rig.contents() == before
        rig.run_pass()
        assert allocated(rig) == {"alice": pytest.approx(consumed)}
        (item,) = incidents(rig)
        assert events(rig, item.id) == [EventKind.OPENED]
        assert item.opened_at == rig.clock()


@pytest.mark.parametrize(("table", "action"), [("incident", "UPDATE"), ("incident_event", "INSERT")])
def test_a_resolution_that_fails_is_made_up_for(store: Store, table: str, action: str) -> None:
    with run(store, node("slurm/1")) as rig:
        work(rig, 50 * MINUTE, 0.0)
        rig.exporters[0].end("slurm/1")
        rig.step(5, 0.0)
        before = rig.contents()
        with refusing(store, table, action), pytest.raises(StoreError, match="disk is full"):
            rig.run_pass()
        assert rig.contents() == before
        rig.run_pass()
        assert incidents(rig)[0].resolution is Resolution.ENDED
        assert events(rig) == [EventKind.OPENED, EventKind.RESOLVED]


# Incidents whose job nobody knows


def pass_every(rig: Rig, seconds: float, *, until: float) -> None:
    """Passes in such intervals (wall), that no longer pause comes between."""
    rig.settings = rig.settings.model_copy(update={"schedule": Schedule(pass_interval=seconds)})
    while rig.clock() < until:
        rig.clock.now = min(until, rig.clock() + seconds)
        rig.source.scrape()
        rig.run_pass()


def test_an_incident_of_an_unknown_job_is_lost_after_a_day(store: Store) -> None:
    with run(store, node("slurm/1")) as rig:
        work(rig, 50 * MINUTE, 0.0)
        known = incidents(rig)[0].known_at
        # The machine was rebuilt: neither the job nor its counters exist any more.
        with rig.database.write() as connection:
            connection.execute(sa.delete(gpu_counter))
            connection.execute(sa.delete(gpu_series))
        rig.exporters[0].forget("slurm/1")
        rig.source = rig.started()
        pass_every(rig, HOUR, until=known + 24 * HOUR - 1)
        assert incidents(rig)[0].state is State.OPEN
        rig.clock.advance(1)
        rig.run_pass()
        (item,) = incidents(rig)
        assert (item.state, item.resolution, item.resolved_at) == (State.RESOLVED, Resolution.LOST, rig.clock())
        assert events(rig) == [EventKind.OPENED, EventKind.RESOLVED]
        assert rig.reader.events(1)[-1].text == "nothing known for 24 h"


@pytest.mark.parametrize("days", [1.1, 4])
def test_what_nobody_looked_at_for_long_is_not_lost(store: Store, days: float) -> None:
    """The site was off over a weekend, or the clock was set ahead: the first pass knows nothing of the job yet."""
    with run(store, node("slurm/1")) as rig:
        work(rig, 50 * MINUTE, 0.0)
        rig.reader.acknowledge(1, actor="carol")
        rig.exporters[0].forget("slurm/1")
        rig.exporters[0].visible = False
        for _ in range(2):
            rig.clock.advance(days * 24 * HOUR)
            for _ in range(2):
                rig.restart()
                rig.step()
                rig.run_pass()
        assert incidents(rig)[0].state is State.ACKNOWLEDGED
        known = incidents(rig)[0].known_at
        pass_every(rig, HOUR, until=rig.clock() + 23 * HOUR)
        assert (incidents(rig)[0].state, incidents(rig)[0].known_at) == (State.ACKNOWLEDGED, known)
        pass_every(rig, HOUR, until=rig.clock() + HOUR)
        assert incidents(rig)[0].resolution is Resolution.LOST
        assert rig.reader.events(1)[-1].text.startswith("nothing known for 24 h")


def test_lost_after_a_day_of_people_at_any_time_scale(path: Path) -> None:
    exporter = node("slurm/1")
    exporter.time_scale = 60
    with running(path, exporter, interval=1, time_scale=60) as rig:
        for _ in range(50):
            rig.clock.advance(1)
            exporter.run(1, 0.0)
            rig.source.scrape()
            rig.run_pass()
        assert incidents(rig)[0].state is State.OPEN
        exporter.visible = False
        exporter.forget("slurm/1")
        pass_every(rig, 60, until=rig.clock() + 24 * 60 - 10)
        assert incidents(rig)[0].state is State.OPEN
        rig.clock.advance(20)
        rig.run_pass()
        (item,) = incidents(rig)
        assert item.resolution is Resolution.LOST
        assert rig.reader.events(1)[-1].text.startswith("nothing known for 24 h")


# What a pass says of the alerter itself


def test_the_status_says_whether_there_can_be_a_list_of_gpus(path: Path) -> None:
    """Prometheus tells of no GPU by itself, whatever is waited for."""
    with run(path, node("slurm/1")) as rig:
        work(rig, MINUTE, 0.5)
        assert rig.reader.status().lists_gpus
        rig.settings = rig.settings.model_copy(update={"prometheus": Prometheus()})
        rig.run_pass()
        assert not rig.reader.status().lists_gpus


def test_the_first_verdict_is_announced_until_there_is_one(path: Path) -> None:
    with run(path, node("slurm/1")) as rig:
        assert rig.reader.status().last_pass is None
        work(rig, MINUTE, 0.5)
        status = rig.reader.status()
        assert status.last_pass == rig.clock()
        assert (status.jobs_judged, status.replay, status.time_scale) == (0, False, 1)
        first = status.first_verdict_at
        # Grace of ten minutes, and the shortest window that any rule needs.
        assert first == START + 10 * MINUTE + 15 * MINUTE
        work(rig, 23 * MINUTE, 0.5)
        assert rig.reader.status().first_verdict_at == first
        work(rig, 2 * MINUTE, 0.5)
        status = rig.reader.status()
        assert (status.first_verdict_at, status.jobs_judged) == (None, 1)


def test_a_young_job_beside_a_judged_one_announces_nothing(path: Path) -> None:
    with run(path, node("slurm/1")) as rig:
        work(rig, 30 * MINUTE, 0.5)
        rig.exporters[0].allocate("slurm/2", 1, start=rig.clock())
        work(rig, MINUTE, 0.5)
        status = rig.reader.status()
        assert (status.first_verdict_at, status.jobs_judged) == (None, 1)


def test_without_jobs_there_is_nothing_to_announce(path: Path) -> None:
    with run(path, node()) as rig:
        work(rig, MINUTE, 0.5)
        status = rig.reader.status()
        assert (status.first_verdict_at, status.jobs_judged, status.not_evaluable) == (None, 0, ())


def test_rules_without_their_evidence_are_listed_with_the_number_of_jobs(path: Path) -> None:
    exporter = node("slurm/1", "slurm/2", "slurm/3")

    def page() -> str:
        """Neither gaps, nor CPU, nor pressure are known of the first two jobs."""
        return "".join(
            f"{line}\n"
            for line in exporter.page().splitlines()
            if "slurm/3" in line or not ("idle_gap" in line or "cpu" in line or "pressure" in line)
        )

    with run(path, page) as rig:
        rig.exporters.append(exporter)
        work(rig, 30 * MINUTE, 0.5)
        ((found),) = rig.reader.status().not_evaluable
        assert isinstance(found, NotEvaluable)
        assert (found.rule, found.jobs) == ("stalled", 2)
        assert found.reason
        exporter.end("slurm/1")
        work(rig, 3 * MINUTE, 0.5)
        assert [item.jobs for item in rig.reader.status().not_evaluable] == [1]


def test_targets_and_replay_are_told(path: Path) -> None:
    with run(path, FakeExporter("gpu01", replay=True), lambda: (500, b"")) as rig:
        rig.step()
        rig.run_pass()
        status = rig.reader.status()
        assert status.replay
        good, bad = status.targets
        assert good == TargetStatus(rig.targets[0], "gpu01", rig.clock(), "")
        assert (bad.url, bad.node, bad.last_success) == (rig.targets[1], "", None)
        assert "answered 500" in bad.error


def test_readings_are_stale_after_three_intervals_without_an_answer(path: Path) -> None:
    with run(path, node("slurm/1")) as rig:
        rig.step()
        rig.run_pass()
        rig.clock.advance(3 * MINUTE)
        assert not any(gpu.stale for gpu in rig.gpus())
        rig.clock.advance(1)
        assert all(gpu.stale for gpu in rig.gpus())


def test_a_log_line_of_a_pass_carries_no_text_of_others(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Names of jobs and people could break the line, or a terminal."""
    caplog.set_level("INFO", "dutycycle_alerter")
    with run(path, node("slurm/1\nERROR fake")) as rig:
        work(rig, 50 * MINUTE, 0.0)
        assert len(incidents(rig)) == 1
    assert caplog.messages == ["incident 1 (idle): opened"]
