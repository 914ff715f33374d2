"""A cluster that is made up: nodes of eight GPUs, jobs on most of them, and what each GPU does."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

SIZES = (1, 2, 4, 8)
"""GPUs of the jobs, in turns: four jobs have 15, and a sixteenth GPU is free."""
PER_NODE = 8
MODEL = "NVIDIA H100 80GB HBM3"
MEMORY = 80 * 2**30
POWER_LIMIT, IDLE_POWER = 700.0, 70.0


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a user. `kind` is what its GPUs do."""

    number: int
    kind: str

    @property
    def workload(self) -> str:
        return f"slurm/{self.number}"

    @property
    def owner(self) -> dict[str, str]:
        number = self.number
        return {
            "cluster": "bench",
            "scheduler": "slurm",
            "workload": self.workload,
            "namespace": "",
            "pod": "",
            "job_id": str(number),
            "user": f"user{number % 300}",
            "account": f"project{number % 60}",
            "partition": f"gpu{number % 4}",
        }


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, the job that holds it and which of the job's it is; `job` is None where it is free."""

    node: str
    index: int
    uuid: str
    job: Job | None
    rank: int

    @property
    def device(self) -> dict[str, str]:
        return {"node": self.node, "gpu": str(self.index), "gpu_uuid": self.uuid, "mig": ""}

    @property
    def utilization(self) -> float:
        if self.job is None:
            return 0.0
        match self.job.kind:
            case "idle":
                return 0.0
            case "stalled":
                return 0.4
            case "uneven":
                return 0.9 if self.rank == 0 else 0.2
            case "underused":
                return 0.2
        return 0.8 + 0.02 * (self.job.number % 10)

    @property
    def power(self) -> float:
        return IDLE_POWER + self.utilization * (POWER_LIMIT - IDLE_POWER) * 0.8


class Fleet:
    """`gpus` GPUs. One job in twenty of each of four kinds is worth an incident, the others do well."""

    def __init__(self, gpus: int) -> None:
        self.gpus = list(_gpus(gpus))

    @cached_property
    def held(self) -> list[tuple[Gpu, Job]]:
        return [(gpu, gpu.job) for gpu in self.gpus if gpu.job is not None]

    @cached_property
    def free(self) -> list[Gpu]:
        return [gpu for gpu in self.gpus if gpu.job is None]

    @cached_property
    def jobs(self) -> list[Job]:
        return list(dict.fromkeys(job for _, job in self.held))

    @property
    def troubled(self) -> list[Job]:
        """Those that are worth an incident."""
        return [job for job in self.jobs if job.kind != "well"]

    @cached_property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(gpu.node for gpu in self.gpus))

    @cached_property
    def hosts(self) -> list[tuple[str, Job]]:
        """Each job on each of its nodes."""
        return list(dict.fromkeys((gpu.node, job) for gpu, job in self.held))


def _gpus(count: int) -> Iterator[Gpu]:
    kinds = {4: "idle", 6: "stalled", 13: "uneven", 17: "underused"}
    number, sizes, left, job = 100_000, cycle((*SIZES, 0)), 0, None
    for place in range(count):
        rank = 0
        if left == 0:
            left = next(sizes)
            number += 1
            job = Job(number, kinds.get(number % 20, "well")) if left else None
            left, rank = max(left, 1), 0
            size = left
        else:
            rank = size - left
        left -= 1
        name = uuid.UUID(int=place * 2**64 + 0x1234_5678_9ABC_DEF0)
        yield Gpu(f"gpu{place // PER_NODE:05d}.example.org", place % PER_NODE, f"GPU-{name}", job, rank)
