"""The exporter without its processes: every part of it in this one, on a fake node whose clock a test moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.collector import ExporterCollector, Operation
from dutycycle_exporter.nvml import NvmlReader
from dutycycle_exporter.service import Service
from tests.exporter.published import registry_of, samples
from tests.fakes.clock import FakeClock
from tests.fakes.node import FakeNode


class Rig:
    """Reads, accounts and exposes in turns; NVML is the double that the fixture `rig` has bound to this process."""

    def __init__(
        self,
        node: FakeNode,
        clock: FakeClock,
        prolog: Path,
        *,
        interval: float = 5.0,
        hold: float = 30.0,
        local: bool = False,
        collect: frozenset[str] = DEFAULT,
    ) -> None:
        self.node = node
        self.clock = clock
        self.prolog = prolog
        self.interval = interval
        self.started = clock.now
        self.step = 0.0
        """By how many seconds the time of day has been set."""
        attribution = Attribution(
            slurm_prolog_dir=prolog,
            procfs=node.paths["procfs"],
            cgroup=node.paths["cgroup"],
            local=local,
            people="processes" in collect,
            users={1000: "ada", 1001: "bob"}.__getitem__,
        )
        self.service = Service(
            attribution,
            interval=interval,
            hold=hold,
            sysfs=node.paths["sysfs"],
            clock=lambda: clock.now + self.step,
            elapsed=clock,
        )
        self.collector = ExporterCollector(
            self.service,
            node=node.name,
            cluster="lab",
            time_scale=1,
            replay=False,
            processes="processes" in collect,
            operation=lambda: Operation(reloaded_at=self.started),
        )
        self.registry = registry_of(self.text)
        self.reader = self.new_reader(collect)

    def new_reader(self, collect: frozenset[str]) -> NvmlReader:
        """One for the driver as it is now."""
        return NvmlReader(
            interval=self.interval,
            collect=collect,
            on_xid=self.service.on_xid,
            clock=lambda: self.clock.now + self.step,
            timer=lambda: 0.0,
        )

    def turn(self, turns: int = 1) -> Self:
        """Lets time pass and takes a snapshot, as often as told."""
        for _ in range(turns):
            self.clock.advance(self.interval)
            self.node.driver.step()
            self.snapshot()
        return self

    def close(self) -> None:
        """Lets go of the reader that it has now: a test may have put another in its place."""
        self.reader.close()

    def snapshot(self) -> None:
        self.service.on_snapshot(self.reader.read(self.clock.now + self.step, self.clock.now))

    def text(self) -> str:
        return self.collector.text()

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample of that name with those labels, whatever its others are; None where there is none."""
        values = self.values(name, **labels)
        assert len(values) <= 1, f"{name} with {labels} is {len(values)} series"
        return values[0] if values else None

    def values(self, name: str, **labels: str) -> list[float]:
        return [sample.value for sample in samples(self.text(), name, **labels)]

    def allocate(self, gpu: int | str, job_id: int, *, user: str = "ada", uid: int = 1000, **fields: object) -> Path:
        """What the Slurm prolog does; `gpu` is an index, or the UUID of a MIG instance."""
        self.prolog.mkdir(mode=0o755, exist_ok=True)
        uuid = gpu if isinstance(gpu, str) else self.node.driver.gpus[gpu].uuid
        path = self.prolog / f"{uuid}.json"
        entry = {"job_id": job_id, "uid": uid, "user": user, "start": self.clock.now, **fields}
        path.write_text(json.dumps(entry))
        path.chmod(0o644)
        return path
