"""Passes over exporters that tell of faults, leaks, heat and lost GPUs: the right incidents, and no others."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, Severity, State
from dutycycle_alerter.settings import Schedule
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import GIB, FakeExporter
from tests.alerter.rig import Page, Rig, Store, refusing, running

MINUTE = 60.0
HOUR = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """For what the kind of database cannot change."""
    return tmp_path / "store.sqlite3"


def node(name: str = "gpu01", gpus: int = 2) -> FakeExporter:
    """A node of free GPUs, all of which it shows."""
    made = FakeExporter(name, gpus)
    made.expected = gpus
    for one in made.devices:
        one.free()
        one.throttled = {"thermal": 0.0, "power_cap": 0.0}
    return made


def run(store: Store, *pages: FakeExporter | Page) -> AbstractContextManager[Rig]:
    return running(store, *pages, interval=MINUTE)


def work(rig: Rig, seconds: float) -> None:
    """Scrape and pass every minute."""
    for _ in range(round(seconds / MINUTE)):
        rig.step()
        rig.run_pass()


def incidents(rig: Rig) -> dict[tuple[str, str], Incident]:
    """The newest incident by subject and class."""
    return {(one.subject, one.kind): one for one in reversed(rig.reader.incidents(IncidentFilter())[0])}


def events(rig: Rig, incident: Incident) -> list[EventKind]:
    return [event.kind for event in rig.reader.events(incident.id)]


GPU = "gpu/gpu01/GPU-gpu01-0"
NODE = "node/gpu01"


def test_healthy_gpus_have_no_incidents(path: Path) -> None:
    with run(path, node(), node("gpu02")) as rig:
        work(rig, 30 * MINUTE)
        assert incidents(rig) == {}


def test_an_xid_opens_an_incident_at_once_and_names_who_holds_the_gpu(store: Store) -> None:
    exporter = node()
    exporter.allocate("slurm/7", 0)
    with run(store, exporter) as rig:
        work(rig, 5 * MINUTE)
        exporter.devices[0].xids[95] = rig.clock() + 10
        work(rig, MINUTE)
        ((key, item),) = incidents(rig).items()
        assert key == (GPU, "gpu_fault")
        assert (item.severity, item.state, item.started_at) == (Severity.CRITICAL, State.OPEN, rig.clock() - 50)
        assert item.diagnosis.evidence[-1] == "the GPU is held by slurm/7"
        assert item.diagnosis.commands[0].startswith("scontrol update NodeName=gpu01 ")
        assert not any(command.startswith("kubectl") for command in item.diagnosis.commands)
        exporter.end("slurm/7")
        work(rig, 10 * MINUTE)
        assert incidents(rig)[key].state is State.OPEN  # it does not end with the job


def test_a_fault_clears_when_nothing_was_reported_for_its_time_whatever_is_started_again(path: Path) -> None:
    exporter = node()
    quiet = 6 * HOUR
    with run(path, exporter) as rig:
        work(rig, 2 * MINUTE)
        reported = rig.clock()
        exporter.devices[0].xids[48] = reported
        work(rig, MINUTE)
        exporter.devices[0].xids.clear()  # the exporter started again
        rig.restart()  # and so did the alerter
        work(rig, 10 * MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].state is State.OPEN
        rig.clock.now = reported + quiet - 2 * MINUTE
        work(rig, MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].state is State.OPEN
        work(rig, MINUTE)
        item = incidents(rig)[GPU, "gpu_fault"]
        assert (item.state, item.resolution, item.resolved_at) == (
            State.RESOLVED,
            Resolution.CLEARED,
            reported + quiet,
        )


def test_what_the_driver_asks_for_holds_until_the_driver_says_otherwise(path: Path) -> None:
    exporter = node()
    one = exporter.devices[0]
    with run(path, exporter) as rig:
        one.recovery_action = 1
        work(rig, 2 * MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].state is State.OPEN
        one.recovery_action = None
        work(rig, 10 * MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].state is State.OPEN
        one.recovery_action = 0
        work(rig, MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].resolution is Resolution.CLEARED


def test_a_gpu_that_falls_off_the_bus_is_a_fault_of_its_node(path: Path) -> None:
    exporter = node(gpus=4)
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        exporter.devices[2].shown = False
        work(rig, MINUTE)
        assert incidents(rig) == {}  # a driver that is loaded anew shows its GPUs one by one
        work(rig, MINUTE)
        item = incidents(rig)[NODE, "gpu_fault"]
        assert (item.figures, item.job_gpus) == ({"expected": 4, "visible": 3}, 4)
        assert [gpu.uuid for gpu in item.gpus] == ["GPU-gpu01-2"]
        exporter.devices[2].shown = True
        work(rig, MINUTE)
        assert incidents(rig)[NODE, "gpu_fault"].resolution is Resolution.CLEARED


@pytest.mark.parametrize("delay", [0, 5], ids=["xid first", "xid later"])
def test_a_lost_gpu_and_its_xid_open_one_incident(path: Path, delay: int) -> None:
    exporter = node(gpus=4)
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        exporter.devices[2].shown = False
        work(rig, delay * MINUTE)
        exporter.devices[2].xids = {79: rig.clock()}
        work(rig, 8 * HOUR)
        (subject, _), *others = incidents(rig)
        assert (subject, others) == (NODE if delay else "gpu/gpu01/GPU-gpu01-2", [])
        exporter.devices[1].shown = False
        work(rig, 2 * MINUTE)
        assert incidents(rig)[NODE, "gpu_fault"].figures["visible"] == 2, "another GPU is news"


def test_a_driver_that_is_loaded_anew_is_no_fault(path: Path) -> None:
    exporter = node()
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        exporter.visible = False
        work(rig, 2 * MINUTE)
        exporter.visible, exporter.devices[0].shown = True, False
        work(rig, MINUTE)
        exporter.devices[0].shown = True
        work(rig, 5 * MINUTE)
        assert incidents(rig) == {}


def test_memory_that_nobody_uses_is_a_leak_after_a_quarter_of_an_hour(path: Path) -> None:
    exporter = node()
    one = exporter.devices[0]
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        one.memory_used = 20 * GIB
        work(rig, 14 * MINUTE)
        assert incidents(rig) == {}
        work(rig, 3 * MINUTE)
        ((key, item),) = incidents(rig).items()
        assert key == (GPU, "leaked_memory")
        assert item.figures == {"memory_used": 20 * GIB, "memory_baseline": 0.5 * GIB}
        one.memory_used = 0.5 * GIB
        work(rig, MINUTE)
        assert incidents(rig)[key].resolution is Resolution.CLEARED


def test_an_alerter_that_starts_again_knows_the_baseline_and_closes_nothing_unseen(path: Path) -> None:
    exporter = node(gpus=1)
    one = exporter.devices[0]
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        one.memory_used = 20 * GIB
        work(rig, 20 * MINUTE)
        assert incidents(rig)[GPU, "leaked_memory"].state is State.OPEN
        rig.restart()
        work(rig, 5 * MINUTE)
        assert incidents(rig)[GPU, "leaked_memory"].state is State.OPEN
        one.memory_used = 0.5 * GIB
        work(rig, MINUTE)
        assert incidents(rig)[GPU, "leaked_memory"].resolution is Resolution.CLEARED


def test_heat_is_a_warning_and_the_power_limit_information(path: Path) -> None:
    exporter = node()
    with run(path, exporter) as rig:
        for _ in range(20):
            exporter.devices[0].throttled["thermal"] += 0.1 * MINUTE
            exporter.devices[1].throttled["power_cap"] += 0.9 * MINUTE
            work(rig, MINUTE)
        found = incidents(rig)
        assert {key: one.severity for key, one in found.items()} == {
            (GPU, "throttled"): Severity.WARNING,
            ("gpu/gpu01/GPU-gpu01-1", "throttled"): Severity.INFO,
        }
        work(rig, 20 * MINUTE)
        assert {one.resolution for one in incidents(rig).values()} == {Resolution.CLEARED}


def test_heat_on_a_gpu_at_its_power_limit_is_told_as_heat_and_ends_with_it(path: Path) -> None:
    exporter = node()
    one = exporter.devices[0]

    def heated(rig: Rig, minutes: int, heat: float) -> Incident:
        for _ in range(minutes):
            one.throttled["power_cap"] += 0.8 * MINUTE
            one.throttled["thermal"] += heat * MINUTE
            work(rig, MINUTE)
        return incidents(rig)[GPU, "throttled"]

    with run(path, exporter) as rig:
        capped = heated(rig, 20, 0.0)
        assert (capped.id, capped.severity) == (1, Severity.INFO)
        assert "normal" in capped.diagnosis.advice[0]
        hot = heated(rig, 10, 0.2)
        assert (hot.id, hot.severity, hot.figures["thermal"] >= 0.05) == (1, Severity.WARNING, True)
        assert hot.diagnosis.evidence[0].startswith("clocks held down by heat or the power brake for ")
        assert "inlet temperature" in hot.diagnosis.advice[0]
        limited = heated(rig, 40, 0.0)
        assert (limited.id, limited.severity, limited.state) == (2, Severity.INFO, State.OPEN)
        (former,) = (one for one in rig.reader.incidents(IncidentFilter())[0] if one.id == 1)
        assert (former.resolution, former.reopened) == (Resolution.CLEARED, 0)


def test_a_fault_that_a_job_runs_into_says_which(path: Path) -> None:
    """A scheduler that knows nothing of it places jobs on the GPU and on the node."""
    exporter = node(gpus=4)
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        exporter.devices[0].xids[48] = rig.clock()
        exporter.devices[2].shown = False
        work(rig, 2 * MINUTE)
        found = incidents(rig)
        assert [found[key].diagnosis.evidence[-1] for key in ((GPU, "gpu_fault"), (NODE, "gpu_fault"))] == [
            "no job holds the GPU",
            "no job holds the node",
        ]
        exporter.allocate("slurm/7", 0)
        work(rig, MINUTE)
        found = incidents(rig)
        assert {one.severity for one in found.values()} == {Severity.CRITICAL}
        assert [found[key].diagnosis.evidence[-1] for key in ((GPU, "gpu_fault"), (NODE, "gpu_fault"))] == [
            "the GPU is held by slurm/7",
            "the node is held by slurm/7",
        ]


def test_a_gpu_may_have_an_incident_of_each_class(path: Path) -> None:
    exporter = node()
    one = exporter.devices[0]
    with run(path, exporter) as rig:
        work(rig, 5 * MINUTE)
        one.memory_used, one.remap_failed = 20 * GIB, 1
        for _ in range(20):
            one.throttled["thermal"] += 0.1 * MINUTE
            work(rig, MINUTE)
        assert set(incidents(rig)) == {(GPU, kind) for kind in ("gpu_fault", "leaked_memory", "throttled")}


def test_a_dead_exporter_opens_and_resolves_nothing(path: Path) -> None:
    exporter, other = node(), node("gpu02")
    answering = [True]
    one = exporter.devices[0]
    with run(path, lambda: exporter.page() if answering[0] else (503, b""), other) as rig:
        rig.exporters.append(exporter)
        work(rig, 5 * MINUTE)
        one.recovery_action, one.memory_used = 1, 20 * GIB
        exporter.expected = 3
        work(rig, 20 * MINUTE)
        before = {key: (item.state, events(rig, item)) for key, item in incidents(rig).items()}
        assert set(before) == {(GPU, "gpu_fault"), (GPU, "leaked_memory"), (NODE, "gpu_fault")}
        answering[0] = False
        one.recovery_action, one.memory_used, exporter.expected = 0, 0.5 * GIB, 2
        exporter.devices[1].remap_failed = 1
        work(rig, 2 * HOUR)
        assert {key: (item.state, events(rig, item)) for key, item in incidents(rig).items()} == before


def test_a_node_that_left_the_fleet_loses_its_incidents_after_a_day(path: Path) -> None:
    exporter = node()
    answering = [True]
    with run(path, lambda: exporter.page() if answering[0] else (503, b""), node("gpu02")) as rig:
        work(rig, 2 * MINUTE)
        exporter.devices[0].remap_failed, exporter.expected = 1, 3
        work(rig, 3 * MINUTE)
        assert len(incidents(rig)) == 2
        answering[0] = False
        rig.restart()  # nothing of the node is in memory any more
        known = incidents(rig)[GPU, "gpu_fault"].known_at
        rig.clock.now = known + 50 * HOUR
        work(rig, MINUTE)
        assert {one.state for one in incidents(rig).values()} == {State.OPEN}, "nobody looked"
        rig.settings = rig.settings.model_copy(update={"schedule": Schedule(pass_interval=HOUR)})
        for _ in range(23):
            rig.clock.advance(HOUR)
            work(rig, MINUTE)
        assert {one.state for one in incidents(rig).values()} == {State.OPEN}
        rig.clock.advance(HOUR)
        work(rig, MINUTE)
        assert {one.resolution for one in incidents(rig).values()} == {Resolution.LOST}


def test_what_a_person_closed_opens_again_only_for_something_new(store: Store) -> None:
    exporter = node()
    one = exporter.devices[0]
    with run(store, exporter) as rig:
        work(rig, 2 * MINUTE)
        one.xids[48] = rig.clock()
        work(rig, MINUTE)
        rig.reader.resolve(1, actor="bob")
        work(rig, 10 * MINUTE)
        assert [item.id for item in incidents(rig).values()] == [1]
        one.xids[48] = rig.clock()
        work(rig, MINUTE)
        assert [(item.id, item.state) for item in incidents(rig).values()] == [(2, State.OPEN)]
        one.xids.clear()
        rig.clock.advance(7 * HOUR)
        work(rig, MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].resolution is Resolution.CLEARED
        rig.clock.advance(7 * HOUR)
        one.remap_failed = 1
        work(rig, MINUTE)
        assert incidents(rig)[GPU, "gpu_fault"].id == 3


def test_a_second_pass_on_the_same_evidence_changes_nothing(store: Store) -> None:
    exporter = node()
    one = exporter.devices[0]
    with run(store, exporter) as rig:
        work(rig, 5 * MINUTE)
        one.xids[48], one.memory_used, exporter.expected = rig.clock(), 20 * GIB, 3
        work(rig, 20 * MINUTE)
        assert len(incidents(rig)) == 3
        for ending in (False, True):
            if ending:
                one.memory_used, exporter.expected = 0.5 * GIB, 2
                work(rig, 2 * MINUTE)
            before = rig.contents()
            rig.run_pass()
            rig.run_pass()
            assert rig.contents() == before


def test_a_pass_that_fails_changes_nothing_and_the_next_makes_up_for_it(store: Store) -> None:
    from dutycycle_alerter.errors import StoreError

    exporter = node()
    with run(store, exporter) as rig:
        work(rig, 2 * MINUTE)
        exporter.devices[0].remap_failed = 1
        rig.step()
        before = rig.contents()
        with refusing(store, "incident_event"), pytest.raises(StoreError, match="disk is full"):
            rig.run_pass()
        assert rig.contents() == before
        rig.run_pass()
        assert events(rig, incidents(rig)[GPU, "gpu_fault"]) == [EventKind.OPENED]


def test_hours_of_the_fleet_are_counted_as_passes_see_it(path: Path) -> None:
    exporter = node(gpus=4)
    answering = [True]
    with run(path, lambda: exporter.page() if answering[0] else (503, b"")) as rig:
        rig.exporters.append(exporter)
        exporter.allocate("slurm/7", 0, 1, 2)
        work(rig, 31 * MINUTE)
        exporter.end("slurm/7")
        work(rig, 10 * MINUTE)
        (found,) = rig.reader.fleet(since=0, until=1e12)
        assert (found.allocated, found.unallocated) == (3 * 30 * MINUTE, (30 + 4 * 10) * MINUTE)
        answering[0] = False
        rig.clock.advance(8 * HOUR)
        work(rig, MINUTE)
        (later,) = rig.reader.fleet(since=0, until=1e12)
        assert (later.allocated, later.unallocated) == (found.allocated, found.unallocated)
        assert later.unknown == 4 * 3 * MINUTE  # and not for the night
