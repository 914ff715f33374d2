"""A node with one job and a Slurm beside it that says what it is told to, under one engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.incidents.model import EventKind, Incident
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, SlurmNode
from dutycycle_alerter.slurm.watching import Watch
from dutycycle_alerter.slurm.word import SlurmWorkloads
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, running

START = 1_750_000_000.0
MINUTE = 60.0
HOUR = 3600.0
JOB = SlurmJob(
    1,
    JobState.RUNNING,
    ("RUNNING",),
    user="alice",
    account="physics",
    partition="gpu",
    qos="normal",
    name="train",
    start=START,
    limit=24 * HOUR,
    cpus_allocated=16,
    batch=True,
    restarts=0,
)


@dataclass
class FakeSlurm:
    """A Slurm that says what it is told to; `down` and `accounting_down` are its silences."""

    known: dict[int, SlurmJob] = field(default_factory=lambda: {1: JOB})
    accounted: list[FinalFigures] = field(default_factory=list)
    down: bool = False
    accounting_down: bool = False
    asked: list[tuple[int, ...]] = field(default_factory=list)
    odd: Mapping[str, int] = field(default_factory=dict)
    node: SlurmNode = field(
        default_factory=lambda: SlurmNode("gpu01", frozenset({"MIXED"}), gpus=4, partitions=("gpu",))
    )

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table:
        self._answers(self.down)
        nonsense.update(self.odd)
        return Table(dict(self.known))

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        self._answers(self.down)
        return {"gpu01": self.node}

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        self.asked.append(tuple(jobs))
        self._answers(self.accounting_down)
        nonsense.update({"sacct.End": 1} if self.odd else {})
        return [run for run in self.accounted if run.id in jobs]

    def close(self) -> None:
        pass

    def _answers(self, down: bool) -> None:
        if down:
            raise SourceError("slurmrestd does not answer")


@dataclass
class Site:
    """A node with one idle job, a Slurm beside it, and one engine over both."""

    rig: Rig
    slurm: FakeSlurm
    engine: Engine = field(init=False)
    workloads: SlurmWorkloads = field(init=False)

    @property
    def now(self) -> float:
        return self.rig.clock()

    def live(self, seconds: float, utilization: float | dict[str, float | None] = 0.0) -> None:
        for _ in range(round(seconds / MINUTE)):
            self.rig.step(1, utilization)
            self.engine.run_pass()

    def incidents(self) -> list[Incident]:
        return list(self.rig.reader.incidents(IncidentFilter())[0])

    def kinds(self, number: int = 1) -> list[EventKind]:
        return [event.kind for event in self.rig.reader.events(number)]

    def configure(self, **changed: Any) -> None:
        """An engine with other settings, which knows nothing yet."""
        settings = self.rig.settings.model_copy(update={"slurm": Slurm(), **changed})
        self.workloads = SlurmWorkloads(Slurm(), Watch(self.slurm, Slurm()))
        self.engine = Engine(settings, self.rig.source, self.rig.database, self.rig.clock, workloads=self.workloads)

    def end(self, state: str = "CANCELLED", *, purge: bool = False) -> float:
        """Slurm says that the job ended now; its allocation stays published until `forget`."""
        ended = replace(JOB, state=JobState.ENDED, states=(state,), end=self.now)
        self.slurm.known = {} if purge else {1: ended}
        return self.now

    def account(self, state: str = "CANCELLED", **figures: float) -> None:
        run = FinalFigures(1, state, user="alice", start=START, end=self.now, elapsed=self.now - START, gpus=1)
        self.slurm.accounted = [replace(run, **figures)]  # type: ignore[arg-type]


@contextmanager
def slurm_site(path: Path, workload: str = "slurm/1", *gpus: int) -> Iterator[Site]:
    """The job's allocation begins at `START`; the store is in `path`."""
    exporter = FakeExporter("gpu01", 4)
    exporter.allocate(workload, *(gpus or (0,)), start=START)
    with running(path / "store.sqlite3", exporter, interval=MINUTE) as rig:
        site = Site(rig, FakeSlurm())
        site.configure()
        yield site
