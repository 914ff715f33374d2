"""What jobs do on their GPUs, by the names that they were submitted under, and the thread that makes them do it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fakes.node import FakeNode, NodeJob, Work
from tests.fakes.nvml import Pattern
from tests.slurm.cluster import Cluster
from tests.slurm.truth import slurm_owners

_PAUSE = 0.05
"""Seconds between two looks at the prolog's files."""
_LOOKS = 8
"""Of these for one at what Slurm runs, which starts a process."""
_FIELDS = re.compile(r"(?:^| )(JobId|JobName|JobState|Restarts|StartTime|EndTime)=(\S+)")

PLAIN = Work()


@dataclass(frozen=True)
class Behaviour:
    """One life of a job: a pattern on each of its GPUs, in the order of nodes and of Slurm's numbers.

    None: the GPU is allocated, and no process of the job is on it. `silent_links`: nothing goes over PCIe and NVLink.
    """

    patterns: tuple[Pattern | None, ...]
    work: Work = PLAIN
    silent_links: bool = False


PlaceInSlurm = tuple[str, int]
"""A GPU by its node and Slurm's number there."""


@dataclass(frozen=True, order=True)
class Life:
    """A job from one start to its end; a job that is requeued begins another one."""

    job: int
    restarts: int


@dataclass
class Hold:
    """When a life had a GPU, by the file that the prolog left on its node and the epilog took away: Unix seconds."""

    file: Path
    since: float
    seen: float = 0.0
    """When it still had it for certain."""
    until: float | None = None
    """When it certainly had it no longer; None while it has."""

    def look(self) -> None:
        if self.until is None:
            before = time.time()
            if self.file.exists():
                self.seen = before
            else:
                self.until = time.time()


@dataclass(frozen=True)
class Shown:
    """A life as Slurm shows it. `gpus` are nodes and Slurm's numbers, while it holds them; times are Slurm's text."""

    life: Life
    name: str
    state: str
    start: str
    end: str
    gpus: tuple[PlaceInSlurm, ...]


def shown(text: str) -> list[Shown]:
    """From `scontrol --oneliner show job -d`."""
    found = []
    for line in text.splitlines():
        fields = dict(_FIELDS.findall(line))
        if "JobId" in fields:
            life = Life(int(fields["JobId"]), int(fields["Restarts"]))
            times = fields["StartTime"], fields["EndTime"]
            found.append(Shown(life, fields["JobName"], fields["JobState"], *times, tuple(sorted(slurm_owners(line)))))
    return found


class Loads:
    """Gives the GPUs of every running job the load of its name's behaviour. A context manager; a thread while it lasts.

    `slots` are NVML's slots of a node by Slurm's numbers, `files` tells the prolog's file of a GPU and a job.
    `behaviours` have one entry for each life of such a job, the last one for all that follow.
    """

    def __init__(
        self,
        cluster: Cluster,
        nodes: Mapping[str, FakeNode],
        slots: Mapping[int, int],
        files: Callable[[PlaceInSlurm, int], Path],
        behaviours: Mapping[str, tuple[Behaviour, ...]],
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._slots = slots
        self._files = files
        self._behaviours = behaviours
        self._playing: dict[Life, list[NodeJob]] = {}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="loads", daemon=True)
        self.holds: dict[Life, dict[PlaceInSlurm, Hold]] = {}
        """Of every life that ever had GPUs, in the order of nodes and of Slurm's numbers."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        for jobs in self._playing.values():
            for job in jobs:
                job.stop()
        if self._failure is not None and error is None:
            raise self._failure

    def check(self) -> None:
        """Raises what ended the thread."""
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        try:
            looks = 0
            while not self._stopping.wait(_PAUSE):
                for holds in self.holds.values():
                    for hold in holds.values():
                        hold.look()
                if looks % _LOOKS == 0:
                    self._follow()
                looks += 1
        except BaseException as failure:  # noqa: BLE001 - told to the test by `check`
            self._failure = failure

    def _follow(self) -> None:
        text = self._cluster.scontrol("--oneliner", "show", "job", "-d")
        if not text.strip():
            return  # the controller is away: jobs go on
        running = {one.life: one for one in shown(text) if one.state == "RUNNING" and one.gpus}
        for life in self._playing.keys() - running.keys():
            for job in self._playing.pop(life):
                job.stop()
        for life in sorted(running.keys() - self._playing.keys()):
            files = {gpu: self._files(gpu, life.job) for gpu in running[life].gpus}
            # Slurm calls a job running before its prologs are done.
            with suppress(FileNotFoundError):
                self.holds[life] = {gpu: Hold(file, file.stat().st_mtime) for gpu, file in files.items()}
                self._playing[life] = self._play(running[life])

    def _play(self, one: Shown) -> list[NodeJob]:
        lives = self._behaviours[one.name]
        behaviour = lives[min(one.life.restarts, len(lives) - 1)]
        assert len(behaviour.patterns) == len(one.gpus), f"{one} is to behave like {behaviour}"
        patterns = dict(zip(one.gpus, behaviour.patterns, strict=True))
        started = []
        for name in sorted({node for node, _ in one.gpus}):
            node = self._nodes[name]
            own = {self._slots[gpu]: pattern for (where, gpu), pattern in patterns.items() if where == name}
            with ExitStack() as stack:
                stack.enter_context(node.driver.changing())
                for slot in own:
                    rate = 0.0 if behaviour.silent_links else None
                    node.driver.traffic(slot, pcie_tx=rate, pcie_rx=rate, nvlink_tx=rate, nvlink_rx=rate)
                busy = {slot: pattern for slot, pattern in own.items() if pattern is not None}
                if busy:
                    started.append(node.slurm_job(one.life.job, busy, behaviour.work))
        return started
