"""A GPU node: NVML, processes, cgroups and PCI devices that agree about which jobs run and what they do."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import TracebackType

from .cgroup import CgroupTree, Use, pod_container, slurm_task, user_session
from .nvml import CAPACITY, H100, SAMPLE_PERIOD, Driver, GpuProcess, Job, Libraries, Load, Model, Pattern
from .pci import CONTROLLER_3D, VGA_CONTROLLER, PciTree
from .proc import FakeProcess, ProcTree


@dataclass(frozen=True)
class Work:
    """What a job does, beside its pattern on each GPU."""

    uid: int = 1000
    command: tuple[str, ...] = ("python", "train.py")
    cpu_limit: int = 8
    """Cores that the job may use."""

    use: Use = field(default_factory=lambda: Use(cpu_cores=1.0))
    memory: int = 8 * 2**30
    """Bytes on each GPU."""

    power_factor: float = 0.8
    activity: Mapping[str, float] = field(default_factory=dict)
    """Shares of the busy time in which the GPU's units work, by layout.GPM_ACTIVITIES."""

    processes: bool = True
    """One on each GPU, or none at all: then the GPUs are allocated and nothing runs on them."""


class NodeJob:
    """A job on a node."""

    def __init__(self, node: FakeNode, gpu_job: Job, cgroup: str, top: str | None, pids: list[int]) -> None:
        self.gpu_job = gpu_job
        self.cgroup = cgroup
        self.pids = pids
        self._node = node
        self._top = top

    def change(self, pattern: Pattern, gpu: int | None = None) -> None:
        """From now on another pattern on one GPU, or on all of the job's."""
        self.gpu_job.change(pattern, gpu)

    def use(self, use: Use) -> None:
        """From now on another use of CPUs and disks."""
        with self._node.driver.changing():
            self._node.cgroups.use(self.cgroup, use)

    def stop(self) -> None:
        """Ends the job: its processes and its cgroup are gone."""
        self.gpu_job.stop()
        with self._node.driver.changing():
            for pid in self.pids:
                self._node.processes.remove(pid)
            if self._top is not None:
                self._node.cgroups.remove(self._top)


class FakeNode:
    """A node under `directory`. A context manager; `start` makes time pass."""

    def __init__(
        self,
        directory: Path,
        libraries: Libraries,
        *,
        name: str = "node1",
        gpus: int = 8,
        model: Model = H100,
        time_scale: float = 1.0,
        cpus: int = 64,
        sample_period: float = SAMPLE_PERIOD,
        capacity: int = CAPACITY,
        step: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.directory = directory
        self.driver = Driver(
            directory / "nvml",
            libraries,
            node=name,
            time_scale=time_scale,
            sample_period=sample_period,
            capacity=capacity,
            step=step,
            clock=clock,
        )
        self.processes = ProcTree(directory / "proc")
        # Its files are replaced all the time, which a disk's filesystem makes a hundred times dearer.
        memory = Path("/dev/shm")
        self._scratch = Path(
            tempfile.mkdtemp(prefix="cgroup-", dir=memory if os.access(memory, os.W_OK) else directory)
        )
        self.cgroups = CgroupTree(self._scratch / "cgroup", cpus, refresh=min(0.5, max(0.1, 2 / time_scale)))
        self.pci = PciTree(directory / "sys")
        self.driver.on_step(self.cgroups.advance)
        for _ in range(gpus):
            gpu = self.driver.add_gpu(model)
            self.pci.add(gpu.bus_id, pci_class=CONTROLLER_3D if model.data_centre else VGA_CONTROLLER)
        self._pids = itertools.count(10_000)

    def __enter__(self) -> FakeNode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.close()
        shutil.rmtree(self._scratch)

    def start(self) -> FakeNode:
        self.driver.start()
        return self

    @property
    def environment(self) -> dict[str, str]:
        return self.driver.environment

    @property
    def paths(self) -> dict[str, Path]:
        """The roots that stand for /proc, /sys/fs/cgroup and /sys."""
        return {"procfs": self.processes.root, "cgroup": self.cgroups.root, "sysfs": self.pci.root}

    def slurm_job(
        self, job_id: int, patterns: Mapping[int, Pattern], work: Work | None = None, *, pod: str = ""
    ) -> NodeJob:
        """A Slurm job: a list of CPUs for the job, one task. `pod` is the uid of the one in which slurmd runs."""
        work = work or Work()
        cgroup = f"{pod_container(pod, 'c0ffee') if pod else ''}{slurm_task(job_id)}"
        top = str(PurePosixPath(cgroup).parents[2])
        with self.driver.changing():
            self.cgroups.add(top, cpuset=f"0-{work.cpu_limit - 1}")
            return self._start(f"slurm/{job_id}", patterns, work, cgroup, top, {"SLURM_JOB_ID": str(job_id)})

    def pod(
        self, uid: str, patterns: Mapping[int, Pattern], work: Work | None = None, *, container: str = "c0ffee"
    ) -> NodeJob:
        """A pod with one container, limited by cpu.max at both."""
        work = work or Work()
        cgroup = pod_container(uid, container)
        top = str(PurePosixPath(cgroup).parent)
        with self.driver.changing():
            for path in (top, cgroup):
                self.cgroups.add(path, cpu_limit=work.cpu_limit)
            return self._start(f"k8s/{uid}", patterns, work, cgroup, top)

    def shell_job(self, patterns: Mapping[int, Pattern], work: Work | None = None, *, session: int = 1) -> NodeJob:
        """Processes that somebody started from a login, without any scheduler. Their session outlives them."""
        work = work or Work()
        with self.driver.changing():
            return self._start(f"session/{work.uid}/{session}", patterns, work, user_session(work.uid, session))

    def _start(
        self,
        name: str,
        patterns: Mapping[int, Pattern],
        work: Work,
        cgroup: str,
        top: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> NodeJob:
        pids = dict(zip(patterns, self._pids, strict=False)) if work.processes else {}
        with self.driver.changing() as now_us:
            self.cgroups.add(cgroup)
            self.cgroups.use(cgroup, work.use, list(pids.values()))
            self._fork(pids.values(), work, cgroup, now_us / 1e6, environ or {})
        loads = {
            gpu: Load(
                pattern,
                [GpuProcess(pids[gpu], work.memory)] if gpu in pids else [],
                power_factor=work.power_factor,
                activity=work.activity,
            )
            for gpu, pattern in patterns.items()
        }
        return NodeJob(self, self.driver.run(name, loads), cgroup, top, list(pids.values()))

    def _fork(self, pids: Iterable[int], work: Work, cgroup: str, start: float, environ: Mapping[str, str]) -> None:
        """One process per GPU, all in the group and session of the first."""
        leader = None
        for pid in pids:
            leader = leader or pid
            process = FakeProcess(pid, start, cgroup, work.command, uid=work.uid, environ=environ)
            self.processes.add(replace(process, comm=Path(work.command[0]).name, pgid=leader, session=leader))
