"""What fails of one job, GPU or node changes nothing of it, stops nothing else, and is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from dutycycle_alerter.engine import Engine, Source
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.incidents.model import EventKind, Incident, State
from dutycycle_alerter.isolation import Doing, Failures
from dutycycle_alerter.model import DeviceWindow, Evidence, GpuEvidence, JobEvidence, WindowEvidence
from dutycycle_alerter.views import IncidentFilter, TargetStatus
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, Store, running

START = 1_750_000_000.0
MINUTE = 60.0


@dataclass
class Breaking:
    """A source whose evidence of one job cannot be read from its `nth` question for a window on: the first are those of
    judging it, the next those of its incident. `device` is one whose windows never can.
    """

    source: Source
    subject: str = ""
    nth: int = 1
    device: str = ""
    error: Exception = field(default_factory=lambda: ZeroDivisionError("nothing was measured"))

    @contextmanager
    def evidence(self, at: float) -> Iterator[Evidence]:
        with self.source.evidence(at) as read:
            jobs = [self._job(item) if item.job.id == self.subject else item for item in read.jobs]
            gpus = [self._gpu(item) if item.gpu.uuid == self.device else item for item in read.gpus]
            yield replace(read, jobs=jobs, gpus=gpus)

    def targets(self) -> tuple[TargetStatus, ...]:
        return self.source.targets()

    def replaying(self) -> bool:
        return self.source.replaying()

    def _job(self, item: JobEvidence) -> JobEvidence:
        asked: Counter[float] = Counter()

        def window(length: float) -> WindowEvidence:
            asked[length] += 1
            if asked[length] >= self.nth:
                raise self.error
            return item.window(length)

        return replace(item, window=window)

    def _gpu(self, item: GpuEvidence) -> GpuEvidence:
        def window(_: float) -> DeviceWindow:
            raise self.error

        return replace(item, window=window)


def engine_of(rig: Rig, source: Source) -> Engine:
    return Engine(rig.settings, source, rig.database, rig.clock)


def node(*workloads: str) -> FakeExporter:
    made = FakeExporter("gpu01", 4)
    for gpu, workload in enumerate(workloads):
        made.allocate(workload, gpu, start=START)
    return made


def work(rig: Rig, minutes: int, utilization: float, run_pass: Callable[[], None]) -> None:
    for _ in range(minutes):
        rig.step(1, utilization)
        run_pass()


def incidents(rig: Rig) -> dict[str, Incident]:
    return {item.subject: item for item in rig.reader.incidents(IncidentFilter())[0]}


@pytest.mark.parametrize(("nth", "step"), [(1, "judge"), (2, "incident")])
def test_a_job_that_cannot_be_judged_opens_nothing_and_others_are_judged(
    store: Store, caplog: pytest.LogCaptureFixture, nth: int, step: str
) -> None:
    with running(store, node("slurm/1", "slurm/2"), interval=MINUTE) as rig:
        engine = engine_of(rig, Breaking(rig.source, "slurm/1", nth))
        work(rig, 50, 0.0, engine.run_pass)
        assert set(incidents(rig)) == {"slurm/2"}
        assert engine.failures()[step] > 1
        assert engine.failures()["report"] == 0
        # Once, however many passes it lasts.
        (told,) = [record for record in caplog.records if record.exc_info]
        assert told.getMessage() == f"{step} of slurm/1 failed: nothing of it is changed"
        (notice,) = rig.reader.status().notices
        assert notice == "Not judged, since the alerter fails on them (its log says how): 1 (slurm/1)"
        # What it consumed is in the ledger all the same.
        (usage,) = rig.reader.users(since=0, until=1e12)
        assert usage.allocated == pytest.approx(2 * 49 * MINUTE)
        engine_of(rig, rig.source).run_pass()
        assert set(incidents(rig)) == {"slurm/1", "slurm/2"}
        assert rig.reader.status().notices == ()


def test_the_incident_of_a_job_that_cannot_be_judged_stays_as_it_is(store: Store) -> None:
    with running(store, node("slurm/1", "slurm/2"), interval=MINUTE) as rig:
        work(rig, 50, 0.0, engine_of(rig, rig.source).run_pass)
        before = incidents(rig)
        # For more than the day after which an incident of which nothing is known is lost.
        rig.clock.advance(25 * 60 * MINUTE)
        engine = engine_of(rig, Breaking(rig.source, "slurm/1"))
        work(rig, 20, 0.9, engine.run_pass)
        after = incidents(rig)
        assert after["slurm/1"] == before["slurm/1"]
        assert [event.kind for event in rig.reader.events(before["slurm/1"].id)] == [EventKind.OPENED]
        assert after["slurm/2"].state is State.RESOLVED


def test_what_fails_of_a_report_is_tried_once_and_the_next_job_is_reported(store: Store) -> None:
    exporter = node("slurm/1", "slurm/2")
    for one in exporter.allocations.values():
        one.memory_used = 1e9
    with running(store, exporter, interval=MINUTE) as rig:
        work(rig, 100, 0.1, engine_of(rig, rig.source).run_pass)
        engine = engine_of(rig, Breaking(rig.source, "slurm/1"))
        for workload in ("slurm/1", "slurm/2"):
            exporter.end(workload)
        work(rig, 3, 0.0, engine.run_pass)
        assert engine.failures()["report"] == 1
        reported = [item for item in rig.reader.incidents(IncidentFilter())[0] if item.kind == "report"]
        assert [item.subject for item in reported] == ["slurm/2"]


def test_a_gpu_that_cannot_be_judged_stops_nothing(store: Store) -> None:
    with running(store, node("slurm/1"), interval=MINUTE) as rig:
        engine = engine_of(rig, Breaking(rig.source, device="GPU-gpu01-0"))
        work(rig, 50, 0.0, engine.run_pass)
        assert set(incidents(rig)) == {"slurm/1"}
        assert engine.failures()["judge"] > 0


def test_what_the_alerter_has_to_say_itself_ends_the_pass(store: Store) -> None:
    """A source that cannot be read is no job's failure: nothing is written."""
    with running(store, node("slurm/1"), interval=MINUTE) as rig:
        rig.step(50, 0.0)
        before = rig.contents()
        with pytest.raises(SourceError):
            engine_of(rig, Breaking(rig.source, "slurm/1", error=SourceError("gone"))).run_pass()
        assert rig.contents() == before


def test_names_in_notices_and_logs_are_harmless_and_few(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    for number in range(5):
        with failures.of(Doing.JUDGE, f"{number}\nERROR"):
            raise KeyError
    assert failures.notices() == (
        "Not judged, since the alerter fails on them (its log says how): 5 (0␊ERROR, 1␊ERROR, 2␊ERROR, ...)",
    )
    assert not any("\n" in message for message in caplog.messages)
    failures.begin()
    assert failures.notices() == ()
    assert failures.counts() == {"judge": 5, "incident": 0, "report": 0}
