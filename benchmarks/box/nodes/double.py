"""A node on the NVML double with an exporter's process of its own: its jobs have processes, cgroups, and files of the
prolog or a kubelet's word, as on a real node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from tests.e2e.site import Exporter
from tests.fakes.cgroup import pod_container, slurm_task
from tests.fakes.kubelet import FakeKubelet, pod
from tests.fakes.node import FakeNode
from tests.fakes.nvml import H100, Libraries, Load, Model
from tests.fakes.nvml.job import Job as GpuJob
from tests.fakes.proc import FakeProcess

from ..clock import Clock
from ..model import Fault, Job, Phase
from .settings import NodeSettings

SAMPLES = 1000
"""Samples that its NVML keeps: of a time long enough for a machine that stalls."""
_STEP = 1.0
"""Seconds of the scenario between two steps of its NVML, at most."""
_UID = 1000
_FIRST_PID = 10_000
_LINKS = ("pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx")

Action = tuple[float, Callable[[], None]]
"""What is to be done, after its Unix time."""


class DoubleNode:
    """A context manager; within it time passes and the exporter runs."""

    def __init__(
        self,
        name: str,
        gpus: int,
        directory: Path,
        libraries: Libraries,
        settings: NodeSettings,
        model: Model = H100,
    ) -> None:
        self.name = name
        self.node = FakeNode(
            directory / name,
            libraries,
            name=name,
            gpus=gpus,
            model=model,
            time_scale=settings.time_scale,
            sample_period=settings.sample_period,
            capacity=SAMPLES,
            step=_STEP,
        )
        self.uuids = [gpu.uuid for gpu in self.node.driver.gpus]
        self._kubelet = FakeKubelet(directory / f"{name}.sock")
        self.exporter = Exporter(
            self.node,
            directory,
            settings.time_scale,
            f"--sample-interval={settings.read_interval:g}s",
            f"--series-hold={2 * settings.interval:g}s",
            f"--kubernetes.socket={self._kubelet.path}",
            *([f"--cluster={settings.cluster}"] if settings.cluster else []),
        )
        self._pids = count(_FIRST_PID)

    def __enter__(self) -> Self:
        self.node.__enter__()
        self._kubelet.start()
        self.node.start()
        self.exporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exporter.stop()
        self._kubelet.stop()
        self.node.__exit__(kind, error, trace)

    def actions(self, job: Job, course: Sequence[Phase], clock: Clock) -> Iterator[Action]:
        """All that a job does on it, in order."""
        running = _Running(self, job, clock.wall(job.start))
        yield clock.wall(job.start), lambda: running.start(course[0])
        for phase in course[1:]:
            yield clock.wall(job.start + phase.at), lambda phase=phase: running.change(phase)  # type: ignore[misc]
        yield clock.wall(job.end), running.end

    def trouble(self, fault: Fault, clock: Clock) -> Iterator[Action]:
        """A fault of one of its GPUs, and its end."""
        slot, driver = fault.gpu[1], self.node.driver
        begin: Callable[[], Any]
        end: Callable[[], Any] | None = None
        if fault.kind == "xid":
            begin = lambda: driver.xid(slot, int(fault.value))  # noqa: E731
        elif fault.kind == "lost":
            begin, end = (lambda: driver.lose(slot)), (lambda: driver.restore(slot))
        elif fault.kind == "thermal":
            begin = lambda: driver.throttle(slot, "sw_thermal", fault.value)  # noqa: E731
            end = lambda: driver.throttle(slot, "sw_thermal", 0.0)  # noqa: E731
        elif fault.kind == "leaked":
            begin = lambda: driver.force(slot, memory_used=int(fault.value))  # noqa: E731
            end = lambda: driver.force(slot, memory_used=None)  # noqa: E731
        else:
            raise ValueError(f"no fault {fault.kind}")
        yield clock.wall(fault.at), begin
        if end is not None and fault.until is not None:
            yield clock.wall(fault.until), end

    def allocate(self, job: Job, uuids: Sequence[str], start: float) -> None:
        """What the scheduler leaves on the node when a job begins there."""
        if job.scheduler == "slurm":
            fields = {"user": job.user, "account": job.account, "partition": job.partition, "start": start}
            self.exporter.prolog.start(job.number, uuids, uid=_UID, **fields)
        else:
            self._kubelet.pods.append(pod(job.pod, job.user, {"nvidia.com/gpu": list(uuids)}))

    def free(self, job: Job, uuids: Sequence[str]) -> None:
        """And when it has ended."""
        if job.scheduler == "slurm":
            self.exporter.prolog.end(job.number, uuids)
        else:
            self._kubelet.pods = [one for one in self._kubelet.pods if one.name != job.pod]

    def new_pid(self) -> int:
        return next(self._pids)


class _Running:
    """A job on this node."""

    def __init__(self, node: DoubleNode, job: Job, start: float) -> None:
        self._on = node
        self._node = node.node
        self._job = job
        self._start = start
        self._places = {index: place for place, (name, index) in enumerate(job.gpus) if name == node.name}
        self._uuids = [node.uuids[index] for index in self._places]
        self._host = job.nodes.index(node.name)
        slurm = job.scheduler == "slurm"
        self._cgroup = slurm_task(job.number) if slurm else pod_container(job.pod_uid, "c0ffee")
        self._top = str(PurePosixPath(self._cgroup).parents[2 if slurm else 0])
        self._pids: dict[tuple[int, int], int] = {}
        self._alive: set[int] = set()
        self._gpu_job: GpuJob | None = None

    def start(self, phase: Phase) -> None:
        self._on.allocate(self._job, self._uuids, self._start)
        with self._node.driver.changing() as now_us:
            if self._job.scheduler == "slurm":
                self._node.cgroups.add(self._top, cpuset=f"0-{self._job.cpu_limit - 1}")
            else:
                self._node.cgroups.add(self._top, cpu_limit=self._job.cpu_limit)
            self._node.cgroups.add(self._cgroup)
            loads = self._loads(phase)
            self._settle(phase, loads, now_us / 1e6)
            self._gpu_job = self._node.driver.run(self._job.workload, loads)

    def change(self, phase: Phase) -> None:
        assert self._gpu_job is not None
        with self._node.driver.changing() as now_us:
            loads = self._loads(phase)
            self._settle(phase, loads, now_us / 1e6)
            for index, load in loads.items():
                self._gpu_job.change_load(index, load)

    def end(self) -> None:
        assert self._gpu_job is not None
        self._gpu_job.stop()
        with self._node.driver.changing():
            for pid in self._alive:
                self._node.processes.remove(pid)
            self._node.cgroups.remove(self._top)
            for index in self._places:
                self._node.driver.traffic(index, **dict.fromkeys(_LINKS))
        self._on.free(self._job, self._uuids)

    def _loads(self, phase: Phase) -> dict[int, Load]:
        """Of the phase, with numbers of processes that are the node's own."""
        return {index: self._numbered(phase.loads[place], place) for index, place in self._places.items()}

    def _numbered(self, load: Load, place: int) -> Load:
        processes = []
        for process in load.processes:
            key = place, process.pid
            if key not in self._pids:
                self._pids[key] = self._on.new_pid()
            processes.append(replace(process, pid=self._pids[key]))
        return replace(load, processes=processes)

    def _settle(self, phase: Phase, loads: dict[int, Load], now: float) -> None:
        """Processes, cgroup and links as the phase has them."""
        wanted = {process.pid for load in loads.values() for process in load.processes}
        for pid in self._alive - wanted:
            self._node.processes.remove(pid)
        environ = {"SLURM_JOB_ID": str(self._job.number)} if self._job.scheduler == "slurm" else {}
        for pid in sorted(wanted - self._alive):
            self._node.processes.add(FakeProcess(pid, now, self._cgroup, uid=_UID, environ=environ))
        self._alive = wanted
        self._node.cgroups.use(self._cgroup, phase.hosts[self._host], sorted(wanted))
        quarter = None if phase.link_bytes is None else phase.link_bytes / 4
        for index in self._places:
            self._node.driver.traffic(index, **dict.fromkeys(_LINKS, quarter))
