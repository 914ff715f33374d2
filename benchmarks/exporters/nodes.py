"""The nodes on which exporters are measured: the NVML double's GPUs, whole or cut into MIG instances, all at work.

Of the jobs on its devices every second one is a Slurm job, with a file of the prolog, and the others are pods, which a
kubelet lists: no real node has both, and an exporter has to do all that any of them takes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fakes.cgroup import pod_container, slurm_task
from tests.fakes.kubelet import FakeKubelet, pod
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import GpuProcess, Load, Steps
from tests.fakes.nvml.compiler import Libraries
from tests.fakes.nvml.job import Place
from tests.fakes.proc import FakeProcess

PATTERN = Steps(period=1.97, duty=0.6)
"""A scrape each 15 s is at another place in the step each time, for 197 scrapes. In steps of two seconds there would be
two such places, and a gauge would be right or wrong by chance.
"""
WORK = Work()
_PIDS = 50_000
_JOBS = 1_000
_PROFILE = "1g.10gb"


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


@dataclass(frozen=True)
class Node:
    """A node that is at work, and where its schedulers say who does it."""

    fake: FakeNode
    prolog: Path
    kubelet: Path
    devices: int
    """That have an owner: all."""


@contextmanager
def node(folder: Path, libraries: Libraries, shape: Shape, *, time_scale: float = 1.0) -> Iterator[Node]:
    """A node with a job of one process on every device."""
    prolog, socket = folder / "prolog", folder / "kubelet.sock"
    prolog.mkdir(mode=0o755, parents=True)
    made = FakeNode(folder / "fake", libraries, gpus=shape.gpus, time_scale=time_scale)
    with made as fake, FakeKubelet(socket) as kubelet:
        for number, (uuid, place) in enumerate(_devices(fake, shape)):
            if number % 2:
                kind = f"mig-{_PROFILE}" if shape.instances else "gpu"
                kubelet.pods.append(pod(f"train-{number}", "lab", {f"nvidia.com/{kind}": [uuid]}))
                cgroup = pod_container(f"4d01379a-a293-46f9-b558-{number:012d}", "c0ffee")
            else:
                _allocate(prolog / f"{uuid}.json", _JOBS + number)
                cgroup = slurm_task(_JOBS + number)
            _run(fake, _PIDS + number, cgroup, place, pattern(number, shape.devices))
        yield Node(fake.start(), prolog, socket, shape.devices)


def _devices(fake: FakeNode, shape: Shape) -> Iterator[tuple[str, Place]]:
    """UUIDs, and where the double has them."""
    for gpu in range(shape.gpus):
        if shape.instances:
            uuids = fake.driver.set_mig(gpu, [_PROFILE] * shape.instances)
            yield from ((uuid, (gpu, instance)) for instance, uuid in enumerate(uuids))
        else:
            fake.driver.accounting(gpu, on=True)
            yield fake.driver.gpus[gpu].uuid, gpu


def _allocate(path: Path, job: int) -> None:
    """As the prolog does."""
    path.write_text(json.dumps({"job_id": job, "uid": WORK.uid, "user": "ada", "start": time.time()}))
    path.chmod(0o644)


def pattern(number: int, devices: int) -> Steps:
    """Of the device `number`: no two are in step, where a look at all of them would be a look at one."""
    return replace(PATTERN, offset=PATTERN.period * number / devices)


def _run(fake: FakeNode, pid: int, cgroup: str, place: Place, steps: Steps) -> None:
    """A process in a cgroup on a device."""
    fake.cgroups.add(cgroup, cpu_limit=WORK.cpu_limit)
    fake.cgroups.use(cgroup, WORK.use, [pid])
    fake.processes.add(FakeProcess(pid, time.time(), cgroup, WORK.command, uid=WORK.uid))
    load = Load(steps, [GpuProcess(pid, WORK.memory)])
    fake.driver.run(str(pid), {place: load})
