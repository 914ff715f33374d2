"""Puts the sources of ownership together: files and pods first, then cgroups of processes, then process groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dutycycle_exporter.model import Allocation, GpuReading, HostReading, Ownership, ProcessOwner, Workload

from .cgroup import Group, slurm_scope
from .device_processes import DeviceProcesses
from .hosts import CgroupFiles
from .job_mapping import JobMappingDirectory
from .local import LocalWorkloads
from .nesting import Filed, SlurmInPods
from .owners import Owners
from .processes import HostProcess, ProcessReader
from .prolog_directory import PrologDirectory, PrologFiles, read_boot_id
from .steady import Claim, SteadyAllocations, earliest
from .users import UserNames

if TYPE_CHECKING:
    from .kubernetes import PodClaim

_CLOCK_SKEW = 300.0

_Processes = Mapping[str, Sequence[HostProcess]]
_Claims = dict[tuple[str, str], Claim]


class Pods(Protocol):
    """Tells which pods hold devices, at once: `kubernetes.KubernetesPods`."""

    def allocations(
        self, gpus: Sequence[GpuReading], processes: Mapping[str, Collection[str]], inner: Collection[str] = ()
    ) -> tuple[PodClaim, ...]:
        """What pods hold. `processes` are the uids of all pods around the processes on each device, `inner` those of
        them that lie in another pod.
        """
        ...

    def workload_of(self, uid: str) -> Workload | None:
        """The workload of the pod in whose cgroup a process is; None while that is being found out."""
        ...

    def settling(self) -> bool:
        """Whether it is not yet known which pods hold devices."""
        ...

    def labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Labels of pods by workload id."""
        ...

    def take_failures(self) -> Mapping[tuple[str, str], int]:
        """What could not be used since the last call, by (source, reason)."""
        ...


class Attribution:
    """Tells whose the GPUs of this node are, from one snapshot to the next. For one thread.

    With `local`, processes of no scheduler belong to workloads of their own, one for each process group. With `people`,
    the user and the command of every process on a GPU are told. `job_mapping_dir` is where a site's own prolog
    writes as for dcgm-exporter. `users` gives the name of a uid. `procfs` and `cgroup` are the host's: process numbers
    are those that NVML reports. `pods` tells which pods hold devices; without it a pod is known by its processes alone.
    Without `hosts` nothing is read of what workloads use of the host.
    """

    def __init__(
        self,
        *,
        slurm_prolog_dir: Path,
        job_mapping_dir: Path | None = None,
        procfs: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        local: bool = False,
        people: bool = False,
        hosts: bool = True,
        users: Callable[[int], str] | None = None,
        pods: Pods | None = None,
    ) -> None:
        self._users = users or UserNames()
        self._boot_id = read_boot_id(procfs)
        self._reader = ProcessReader(procfs)
        self._processes = DeviceProcesses(self._reader)
        self._cgroups = CgroupFiles(cgroup)
        self._owners = Owners(self._users)
        self._pods = pods
        self._nested = SlurmInPods(self._cgroups.has_pod)
        self._allocations = SteadyAllocations()
        self._prolog = PrologDirectory(slurm_prolog_dir, self._boot_id)
        self._mapping: JobMappingDirectory | None = None
        self._local: LocalWorkloads | None = None
        self._groups: dict[str, Group] = {}
        self.apply(
            slurm_prolog_dir=slurm_prolog_dir,
            job_mapping_dir=job_mapping_dir,
            local=local,
            people=people,
            hosts=hosts,
        )

    def apply(
        self, *, slurm_prolog_dir: Path, job_mapping_dir: Path | None, local: bool, people: bool, hosts: bool
    ) -> None:
        """Go on by these settings. What is known of jobs and processes, and what they are called, stays."""
        if self._prolog.path != slurm_prolog_dir:
            self._prolog = PrologDirectory(slurm_prolog_dir, self._boot_id)
        if job_mapping_dir is None:
            self._mapping = None
        elif self._mapping is None or self._mapping.path != job_mapping_dir:
            self._mapping = JobMappingDirectory(job_mapping_dir)
        if not local:
            self._local = None
        elif self._local is None:
            self._local = LocalWorkloads(self._reader, self._users)
        self._people, self._with_hosts = people, hosts

    def resolve(self, gpus: Sequence[GpuReading], now: float) -> Ownership:
        """Whose every GPU is at `now` (Unix seconds), the time at which NVML answered. Never raises for bad input.

        Processes allocate a GPU only where neither a file nor the kubelet says whose it is, but that those of a Slurm
        job may allocate one of the pod that they are in. Failures are counted as (slurm | process | kubelet | ...,
        reason).
        """
        failures: Counter[tuple[str, str]] = Counter()
        self._reader.begin(now)
        files = self._files(gpus)
        failures.update({("slurm", reason): count for reason, count in files.failures.items()})
        processes, unusable = self._processes.read(gpus)
        failures.update(("process", reason) for reason in unusable.values())
        self._owners.learn(files.jobs, processes)
        pods = self._held_by_pods(gpus, files, processes, failures)
        processes = self._credited(processes, files, pods)
        claims: _Claims = {}
        filed = self._nest(pods, files, processes, failures)
        for gpu, job, workload in filed:
            claims[gpu, workload.id] = Claim(gpu, workload, by_file=True, start=_past(job.start, now))
        for pod in pods:
            claims[pod.device, pod.workload.id] = Claim(
                pod.device, pod.workload, by_file=True, start=_past(pod.start, now), containers=pod.containers
            )
        pids: dict[int, str] = {}
        nameless: set[int] = set()
        allocated = {gpu for gpu, _ in claims}
        anonymous = {
            gpu for (gpu, name), claim in claims.items() if claim.workload.scheduler == "k8s" and name.endswith("/")
        }
        for gpu, process, owner in self._owned(processes, allocated):
            # Of pods whose uid is not known, any may be the one in whose cgroup the process is.
            if owner is None or (_in_pod(process) and (gpu, owner.id) not in claims and gpu in anonymous):
                nameless.add(process.pid)
                continue
            pids[process.pid] = owner.id
            # What a process does on a GPU that is somebody else's takes nothing of it away from who was given it.
            if gpu not in allocated or (gpu, owner.id) in claims or self._nested.claims(gpu, process):
                _claim_by_process(claims, gpu, owner, process)
            group = process.group
            if self._with_hosts and group is not None and group.scheduler == owner.scheduler and group.paths:
                # From a container's cgroup namespace its path is not seen: then it is looked for in the usual places.
                self._groups[owner.id] = group
        allocations, displaced = self._nested.displace(self._allocations.settle(claims.values()))
        return Ownership(
            allocations=allocations,
            pids=pids,
            unresolved=frozenset(unusable) | nameless,
            hosts=self._hosts(allocations, filed) if self._with_hosts else (),
            failures=failures,
            people=self._owners_of(processes) if self._people else {},
            labels={} if self._pods is None else self._pods.labels(),
            displaced=displaced,
            settling=self._pods is not None and self._pods.settling(),
        )

    def _held_by_pods(
        self,
        gpus: Sequence[GpuReading],
        files: PrologFiles,
        processes: _Processes,
        failures: Counter[tuple[str, str]],
    ) -> tuple[PodClaim, ...]:
        if self._pods is None:
            return ()
        uids: dict[str, set[str]] = {gpu: set() for gpu in processes}
        outermost: set[str] = set()
        for gpu, found in processes.items():
            for around in (process.group.pod_uids for process in found if process.group is not None):
                uids[gpu].update(around)
                outermost.update(around[-1:])
        inner = set().union(*uids.values()) - outermost
        for gpu, jobs in files.jobs.items():
            told = self._nested.told(jobs)
            uids[gpu] = uids.get(gpu, set()) | told
            inner -= told
        held = self._pods.allocations(gpus, uids, inner)
        failures.update(self._pods.take_failures())
        return held

    def _credited(self, processes: _Processes, files: PrologFiles, pods: Iterable[PodClaim]) -> _Processes:
        """Each device's processes, each in the group of the job or pod that has the credit of its work.

        That is the innermost that holds a device which the process is on, also where a cluster or a Slurm of the
        holder's own has started it: nobody knows these, and who has the device would seem to be idle. A job of a Slurm
        that runs in a pod holds what the pod does. Where none holds any, it is the innermost of all.
        """
        pods_on, jobs_on = defaultdict[int, set[str]](set), defaultdict[int, set[int]](set)
        for gpu, found in processes.items():
            uids = {pod.uid for pod in pods if pod.device == gpu and pod.uid}
            for process in found:
                pods_on[process.pid] |= uids
                jobs_on[process.pid].update(job.job_id for job in files.jobs.get(gpu, ()))

        def credited(process: HostProcess) -> HostProcess:
            for one in process.group.outwards() if process.group is not None else ():
                filed = self._owners.filed(one)
                if one.pod_uid in pods_on[process.pid] or (filed and filed.job_id in jobs_on[process.pid]):
                    return replace(process, group=one)
            return process

        return {gpu: [credited(process) for process in found] for gpu, found in processes.items()}

    def _nest(
        self,
        pods: Sequence[PodClaim],
        files: PrologFiles,
        processes: _Processes,
        failures: Counter[tuple[str, str]],
    ) -> Sequence[Filed]:
        """Finds out which jobs run in which pods, and returns the files that are believed."""
        filed = [(gpu, job, self._owners.job(job)) for gpu, jobs in files.jobs.items() for job in jobs]
        believed = self._nested.learn(
            pods,
            filed,
            (
                (process, self._owners.process(process, process.group))
                for found in processes.values()
                for process in found
                if process.group is not None and process.group.scheduler == "slurm"
            ),
            self._around_pods(pods, processes),
        )
        if len(believed) < len(filed):
            failures["slurm", "earlier_pod"] += len(filed) - len(believed)
        return believed

    def _around_pods(self, pods: Iterable[PodClaim], processes: _Processes) -> set[str]:
        """The workloads of jobs with files in which pods lie that hold devices: the node's kubelet runs in them."""
        holders = {pod.uid for pod in pods if pod.uid}
        return {
            self._owners.job(job).id
            for found in processes.values()
            for process in found
            if process.group is not None and process.group.pod_uid in holders
            for one in process.group.outwards()
            if one.pod_uid not in holders and (job := self._owners.filed(one)) is not None
        }

    def _files(self, gpus: Sequence[GpuReading]) -> PrologFiles:
        """What the scheduler's files say. Of a GPU with a prolog's file, a mapping's says nothing more."""
        files = self._prolog.read()
        if self._mapping is None:
            return files
        mapping = self._mapping.read(gpus)
        failures = Counter(files.failures)
        failures.update(mapping.failures)
        return PrologFiles({**mapping.jobs, **files.jobs}, failures)

    def _owners_of(self, processes: _Processes) -> Mapping[int, ProcessOwner]:
        return {
            process.pid: ProcessOwner(self._users(process.uid), process.command)
            for found in processes.values()
            for process in found
        }

    def _owned(
        self, processes: _Processes, allocated: Collection[str]
    ) -> list[tuple[str, HostProcess, Workload | None]]:
        """Each GPU's processes that have an owner, the oldest first; None for one whose pod has no name yet.

        A process of no scheduler on a GPU that is allocated to somebody has none, nor has one that only draws: a
        desktop is no job.
        """
        local: Mapping[int, Workload] = {}
        if self._local is not None:
            local = self._local.name(
                process
                for gpu, found in processes.items()
                if gpu not in allocated
                for process in found
                if process.group is None and not process.draws
            )
        owned: list[tuple[str, HostProcess, Workload | None]] = []
        for gpu, found in processes.items():
            for process in sorted(found, key=lambda process: (process.ticks, process.pid)):
                if process.group is not None:
                    owner = self._owner(process, process.group)
                    owned.append((gpu, process, self._nested.owner(gpu, process, owner)))
                elif gpu not in allocated and process.pid in local and not process.draws:
                    owned.append((gpu, process, local[process.pid]))
        return owned

    def _owner(self, process: HostProcess, group: Group) -> Workload | None:
        if group.scheduler == "k8s" and self._pods is not None:
            return self._pods.workload_of(group.id)
        return self._owners.process(process, group)

    def _hosts(self, allocations: Iterable[Allocation], filed: Iterable[Filed]) -> tuple[HostReading, ...]:
        workloads = {allocation.workload.id: allocation.workload for allocation in allocations}
        self._groups = {workload: group for workload, group in self._groups.items() if workload in workloads}
        scopes = {scope for group in self._groups.values() if (scope := slurm_scope(group))}
        for workload_id, job in {workload.id: job for _, job, workload in filed}.items():
            if workload_id not in self._groups:
                names = (f"job_{job.job_id}", *([job.sluid] if job.sluid else []))
                inside = self._cgroups.scopes_in_pod(job.pod_uid)
                group = self._cgroups.find_slurm(names, job.uid, (*inside, *scopes))
                if group is not None:
                    self._groups[workload_id] = group
        for name, workload in workloads.items():
            if workload.scheduler == "k8s" and name not in self._groups:
                group = self._cgroups.find_pod(name.rpartition("/")[2])
                if group is not None:
                    self._groups[name] = group
        readings = (self._cgroups.read(workloads[name], group) for name, group in sorted(self._groups.items()))
        return tuple(reading for reading in readings if reading is not None)


def _in_pod(process: HostProcess) -> bool:
    return process.group is not None and process.group.scheduler == "k8s"


def _claim_by_process(claims: _Claims, gpu: str, workload: Workload, process: HostProcess) -> None:
    """A process proves an allocation, or belongs to one. Without a file its start is the best that is known of it."""
    claim = claims.get((gpu, workload.id)) or Claim(gpu, workload, by_file=False)
    if _in_pod(process) and workload.scheduler == "slurm" and (process.start or 0.0) < (claim.start or 0.0):
        # One of the pod's own, perhaps: it was there before the job.
        return
    claims[gpu, workload.id] = replace(
        claim,
        start=claim.start if claim.by_file else earliest(claim.start, process.start),
        first_process=earliest(claim.first_process, process.start),
    )


def _past(start: float | None, now: float) -> float | None:
    """A start that the clock of the scheduler's host may well have written; a later one is not known."""
    return None if start is None or start > now + _CLOCK_SKEW else start
