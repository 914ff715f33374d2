"""The nodes on which exporters are measured: the NVML double's GPUs, whole or cut into MIG instances, all at work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.cgroup import slurm_task
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import GpuProcess, Load, Steps
from tests.fakes.nvml.compiler import Libraries
from tests.fakes.proc import FakeProcess

PATTERN = Steps(period=2, duty=0.6)
WORK = Work()
_PIDS_OF_INSTANCES = 50_000


@dataclass(frozen=True)
class Shape:
    """So many GPUs, each in so many MIG instances; 0 for GPUs that are not cut."""

    gpus: int
    instances: int = 0

    @property
    def name(self) -> str:
        return f"{self.gpus} x {self.instances} MIG instances" if self.instances else f"{self.gpus} GPUs"

    @property
    def devices(self) -> int:
        """What jobs can hold."""
        return self.gpus * (self.instances or 1)


@contextmanager
def node(folder: Path, libraries: Libraries, shape: Shape) -> Iterator[FakeNode]:
    """A node with a Slurm job of one process on every device; its prolog's files are in `folder/prolog`."""
    with FakeNode(folder / "fake", libraries, gpus=shape.gpus) as fake:
        jobs = _on_instances(fake, shape) if shape.instances else _on_gpus(fake, shape)
        prolog = folder / "prolog"
        prolog.mkdir(mode=0o755)
        for uuid, job in jobs.items():
            path = prolog / f"{uuid}.json"
            path.write_text(json.dumps({"job_id": job, "uid": 1000, "user": "ada", "start": time.time()}))
            path.chmod(0o644)
        yield fake.start()


def _on_gpus(fake: FakeNode, shape: Shape) -> dict[str, int]:
    for gpu in range(shape.gpus):
        fake.slurm_job(1000 + gpu, {gpu: PATTERN}, WORK)
    return {fake.driver.gpus[gpu].uuid: 1000 + gpu for gpu in range(shape.gpus)}


def _on_instances(fake: FakeNode, shape: Shape) -> dict[str, int]:
    jobs: dict[str, int] = {}
    for gpu in range(shape.gpus):
        uuids = fake.driver.set_mig(gpu, ["1g.10gb"] * shape.instances)
        for place, uuid in enumerate(uuids):
            job = jobs[uuid] = 1000 + gpu * shape.instances + place
            cgroup, pid = slurm_task(job), _PIDS_OF_INSTANCES + job
            fake.cgroups.add(cgroup)
            fake.cgroups.use(cgroup, WORK.use, [pid])
            fake.processes.add(FakeProcess(pid, time.time(), cgroup, WORK.command, uid=WORK.uid))
            fake.driver.run(f"slurm/{job}", {(gpu, place): Load(PATTERN, [GpuProcess(pid, WORK.memory)])})
    return jobs
