"""Jobs that come to a node and go, without end: what they are by a seed, and their life on a node of the double.

Half are Slurm jobs with files of the prolog, half pods that a kubelet lists; no real node has both, and an exporter
has to forget both. Each is a user's of many, and four in ten are worth an incident.
"""

from __future__ import annotations

import heapq
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fakes.cgroup import Use
from tests.fakes.kubelet import FakeKubelet, pod
from tests.fakes.node import FakeNode, NodeJob, Work
from tests.fakes.nvml import IDLE, Level, Pattern, Steps
from tests.fakes.slurm_prolog import PrologWriter

USERS = 40
SHORTEST, MEAN, LONGEST = 600.0, 2400.0, 6 * 3600.0
"""Seconds of a job."""
SIZES = ((1, 8), (2, 4), (4, 2), (8, 1))
"""GPUs of a job, and how often it is so."""
KINDS = {"well": 6, "idle": 1, "stalled": 1, "underused": 1, "empty": 1}


@dataclass(frozen=True)
class Coming:
    """A job: on which GPUs, from when to when (seconds of the full-length run), and what goes on in it."""

    number: int
    user: str
    kind: str
    gpus: tuple[int, ...]
    start: float
    end: float

    @property
    def in_pod(self) -> bool:
        return self.number % 2 == 1

    @property
    def uid(self) -> str:
        """A pod's."""
        return str(uuid.UUID(int=self.number))


def jobs(seed: int, gpus: int, length: float) -> Iterator[Coming]:
    """In the order of their starts: each begins where enough GPUs are free, a few minutes after they are."""
    rng = random.Random(seed)
    free = [(0.0, gpu) for gpu in range(gpus)]
    heapq.heapify(free)
    number, last = 1000, 0.0
    while True:
        [size] = rng.choices([s for s, _ in SIZES], [often for _, often in SIZES])
        taken = [heapq.heappop(free) for _ in range(min(size, gpus))]
        start = max(last, *(at for at, _ in taken)) + rng.uniform(60, 400)
        if start >= length:
            return
        end = start + min(LONGEST, SHORTEST + rng.expovariate(1 / (MEAN - SHORTEST)))
        for _, gpu in taken:
            heapq.heappush(free, (end, gpu))
        number, last = number + 1, start
        [kind] = rng.choices(list(KINDS), list(KINDS.values()))
        yield Coming(number, f"user{rng.randrange(USERS)}", kind, tuple(sorted(gpu for _, gpu in taken)), start, end)


class Player:
    """Brings the jobs onto a node as their time comes."""

    def __init__(self, node: FakeNode, prolog: PrologWriter, kubelet: FakeKubelet, coming: Iterator[Coming]) -> None:
        self._node = node
        self._prolog = prolog
        self._kubelet = kubelet
        self._coming = coming
        self._next = next(coming, None)
        self._running: list[tuple[float, int, Coming, NodeJob | None]] = []
        self.started = self.ended = 0

    def until(self, now: float) -> None:
        """All that begins and ends up to `now`, seconds of the full-length run."""
        while True:
            ends = self._running[0][0] if self._running else float("inf")
            starts = self._next.start if self._next is not None else float("inf")
            if min(ends, starts) > now:
                return
            if ends <= starts:
                self._end(*heapq.heappop(self._running)[2:])
            elif self._next is not None:
                job = self._next
                heapq.heappush(self._running, (job.end, job.number, job, self._start(job)))
                self._next = next(self._coming, None)

    def _start(self, job: Coming) -> NodeJob | None:
        uuids = [self._node.driver.gpus[gpu].uuid for gpu in job.gpus]
        self.started += 1
        if job.in_pod:
            self._kubelet.pods = [*self._kubelet.pods, pod(_pod(job), job.user, {"nvidia.com/gpu": uuids})]
        else:
            self._prolog.start(job.number, uuids, user=job.user, account=f"group{job.number % 7}", start=time.time())
        if job.kind == "empty":
            return None
        patterns = dict.fromkeys(job.gpus, _pattern(job))
        work = Work(use=Use(cpu_cores=7.8, io_pressure=0.3) if job.kind == "stalled" else Use(cpu_cores=1.0))
        if job.in_pod:
            return self._node.pod(job.uid, patterns, work)
        return self._node.slurm_job(job.number, patterns, work)

    def _end(self, job: Coming, running: NodeJob | None) -> None:
        self.ended += 1
        if running is not None:
            running.stop()
        if job.in_pod:
            self._kubelet.pods = [known for known in self._kubelet.pods if known.name != _pod(job)]
        else:
            self._prolog.end(job.number, [self._node.driver.gpus[gpu].uuid for gpu in job.gpus])


def _pod(job: Coming) -> str:
    return f"train-{job.number}"


def _pattern(job: Coming) -> Pattern:
    match job.kind:
        case "idle":
            return IDLE
        case "stalled":
            return Steps(2.0, 0.35)
        case "underused":
            return Level(0.12)
    return Steps(0.5, 0.93)
