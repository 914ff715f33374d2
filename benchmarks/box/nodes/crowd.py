"""Nodes without processes of their own: the exporter's service, accounts and pages, fed with what NVML and attribution
would have told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

from dutycycle_exporter.collector import ExporterCollector
from dutycycle_exporter.model import Allocation, GpuReading, HostReading, Ownership, Snapshot, Workload, Xid
from dutycycle_exporter.service import Service
from tests.fakes.cgroup import Use
from tests.fakes.nvml import H100, Model
from tests.fakes.pci import PciTree

from ..clock import Clock
from ..model import Fault, Job, Phase
from .busy import Busy
from .gpu import SimulatedGpu, Stretch
from .settings import NodeSettings

_DRIVER = ("580.95.05", "13.0", "13.580.95.05")
"""Versions of the driver, of CUDA and of NVML, as the double's."""
_FIRST_PID = 10_000


@dataclass
class _Hold:
    """A job's part of the node. `busy_from` is when a process of it began on each GPU, by UUID."""

    job: Job
    workload: Workload
    start: float
    end: float
    devices: tuple[str, ...]
    busy_from: dict[str, float]
    pids: tuple[int, ...]
    host: HostCounters


class HostCounters:
    """What a job uses of one node's CPUs and disks, counted from its beginning on; phases by their Unix times."""

    def __init__(self, workload: Workload, limit: int, uses: Sequence[tuple[float, Use]], end: float) -> None:
        self._workload = workload
        self._limit = limit
        self._until = uses[0][0]
        self._uses = [(since, until, use) for (since, use), (until, _) in pairwise([*uses, (end, uses[-1][1])])]
        self._cpu = self._io = self._waited = 0.0

    def read(self, now: float) -> HostReading:
        for since, until, use in self._uses:
            length = max(0.0, min(now, until) - max(self._until, since))
            self._cpu += use.cpu_cores * length
            self._io += use.io_pressure * length
            self._waited += use.cpu_pressure * length
        self._until = now
        while len(self._uses) > 1 and self._uses[0][1] <= now:
            del self._uses[0]
        return HostReading(
            self._workload,
            cpu_seconds=self._cpu,
            cpu_limit=float(self._limit),
            io_pressure=self._io,
            cpu_pressure=self._waited,
        )


class Holders:
    """Whose the node's GPUs are: what attribution finds from prolog files, kubelet and cgroups."""

    def __init__(self) -> None:
        self.held: list[_Hold] = []

    def resolve(self, _gpus: Sequence[GpuReading], now: float) -> Ownership:
        self.held = [hold for hold in self.held if hold.end > now]
        present = [hold for hold in self.held if hold.start <= now]
        allocations = (
            Allocation(
                device,
                hold.workload,
                hold.start,
                first if (first := hold.busy_from.get(device)) is not None and first <= now else None,
            )
            for hold in present
            for device in hold.devices
        )
        return Ownership(
            allocations=tuple(sorted(allocations, key=lambda one: (one.device, one.workload.id))),
            pids={pid: hold.workload.id for hold in present for pid in hold.pids},
            hosts=tuple(hold.host.read(now) for hold in sorted(present, key=lambda hold: hold.workload.id)),
        )


class CrowdNode:
    """One of many nodes that live in this process. `directory` is for its PCI bus, `begin` when its time began."""

    def __init__(
        self, name: str, gpus: int, directory: Path, settings: NodeSettings, begin: float, model: Model = H100
    ) -> None:
        self.name = name
        self._settings = settings
        self._gpus = [
            SimulatedGpu(
                name,
                index,
                model,
                begin=begin,
                time_scale=settings.time_scale,
                sample_period=settings.sample_period,
                full=settings.full,
            )
            for index in range(gpus)
        ]
        bus = PciTree(directory / name)
        for gpu in self._gpus:
            bus.add(gpu.bus_id)
        self._holders = Holders()
        self._service = Service(
            self._holders,
            interval=settings.read_interval / settings.time_scale,
            hold=2 * settings.interval / settings.time_scale,
            time_scale=settings.time_scale,
            sysfs=bus.root,
        )
        self._collector = ExporterCollector(
            self._service, node=name, cluster=settings.cluster, time_scale=settings.time_scale, replay=False
        )
        self._pids = count(_FIRST_PID)
        self._xids: list[Xid] = []

    def add(self, job: Job, course: Sequence[Phase], clock: Clock) -> None:
        """A job that will run on it, all that it will do known in advance."""
        mine = [(place, index) for place, (node, index) in enumerate(job.gpus) if node == self.name]
        host = job.nodes.index(self.name)
        times = [clock.wall(job.start + phase.at) for phase in course]
        end = clock.wall(job.end)
        pids: dict[tuple[int, int], int] = {}
        known: dict[int, Busy] = {}
        busy_from: dict[str, float] = {}
        for place, index in mine:
            gpu = self._gpus[index]
            stretches = []
            for phase, (since, until) in zip(course, pairwise([*times, end]), strict=True):
                load = phase.loads[place]
                numbers = tuple(self._pid(pids, place, process.pid) for process in load.processes)
                stretches.append(Stretch.of(load, since, until, pids=numbers, link_bytes=phase.link_bytes, known=known))
                if load.processes:
                    busy_from.setdefault(gpu.uuid, since)
            gpu.add(stretches)
        workload = workload_of(job)
        uses = [(since, phase.hosts[host]) for since, phase in zip(times, course, strict=True)]
        self._holders.held.append(
            _Hold(
                job,
                workload,
                clock.wall(job.start),
                end,
                tuple(self._gpus[index].uuid for _, index in mine),
                busy_from,
                tuple(pids.values()),
                HostCounters(workload, job.cpu_limit, uses, end),
            )
        )

    def _pid(self, known: dict[tuple[int, int], int], place: int, pid: int) -> int:
        """The number of a process on this node; that of a course is its job's own."""
        if (place, pid) not in known:
            known[place, pid] = next(self._pids)
        return known[place, pid]

    def afflict(self, fault: Fault, clock: Clock) -> None:
        """Something that will happen to one of its GPUs."""
        gpu = self._gpus[fault.gpu[1]]
        since = clock.wall(fault.at)
        until = float("inf") if fault.until is None else clock.wall(fault.until)
        if fault.kind == "xid":
            self._xids.append(Xid(gpu.uuid, int(fault.value), since))
        elif fault.kind == "lost":
            gpu.trouble.lost.append((since, until))
        elif fault.kind == "thermal":
            gpu.trouble.hot.append((since, until, fault.value))
        elif fault.kind == "leaked":
            gpu.trouble.leaked.append((since, until, fault.value))
        else:
            raise ValueError(f"no fault {fault.kind}")

    def read(self, now: float) -> None:
        """As the exporter reads NVML, once in a read interval."""
        readings = tuple(reading for gpu in self._gpus if (reading := gpu.read(now)) is not None)
        xids = tuple(xid for xid in self._xids if xid.t <= now)
        self._xids = [xid for xid in self._xids if xid.t > now]
        driver, cuda, nvml = _DRIVER
        self._service.on_snapshot(
            Snapshot(
                now,
                readings,
                visible=len(readings),
                driver_version=driver,
                cuda_version=cuda,
                nvml_version=nvml,
                xids=xids,
            )
        )

    def page(self) -> str:
        """What a scrape shows."""
        return self._collector.text()


def workload_of(job: Job) -> Workload:
    """As attribution names it: by its prolog's file, or as the kubelet and the API server tell of a pod."""
    if job.scheduler == "slurm":
        return Workload(
            job.workload, "slurm", job_id=str(job.number), user=job.user, account=job.account, partition=job.partition
        )
    return Workload(job.workload, job.scheduler, namespace=job.user, pod=job.pod, user=job.user)
