"""Slurm inside Kubernetes: which of a device's pods give way to a Slurm job that runs in one of them. Pure.

The other way round, where a job runs the node's kubelet, the job gives way to the pods that have its devices.

The kubelet gives devices to a pod in which slurmd runs, and Slurm gives them to its jobs. While a job holds such a
device it alone does, and the pod, which cannot use it meanwhile, does not. Which pod a job runs in is told by its
prolog, which runs there too (`pod_uid` in its file), or by the cgroups of its processes, which lie in the pod's. Of a
job of which neither tells, it is a pod whose labels say that slurmd runs in it, or one in which another job was found.

That a pod and a Slurm job hold the same device is in itself no proof: of two schedulers that give away the same GPU by
mistake neither is inside the other, and a job that merely stands in Slurm's books for a pod has no process at all. Then
both hold it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dutycycle_exporter.model import Allocation, Workload

from .processes import HostProcess
from .slurm import PrologJob

if TYPE_CHECKING:
    from .kubernetes import PodClaim

Filed = tuple[str, PrologJob, Workload]
"""A device, a job that holds it by its prolog's file, and the job's workload."""

_Pair = tuple[str, str]
"""A device and the id of a workload."""


class SlurmInPods:
    """Remembers in which pods Slurm was found, as long as they hold devices. `has_cgroup` is as for KubernetesPods."""

    def __init__(self, has_cgroup: Callable[[str], bool | None] = lambda _: None) -> None:
        self._has_cgroup = has_cgroup
        self._proven: frozenset[str] = frozenset()
        self._pods: Mapping[str, list[PodClaim]] = {}
        self._homes: Mapping[str, set[str]] = {}
        self._filed: Mapping[str, list[tuple[Workload, int | None]]] = {}
        self._kubelets: frozenset[str] = frozenset()
        """The workloads of jobs in which a kubelet runs."""

    def told(self, jobs: Iterable[PrologJob]) -> set[str]:
        """The uids of pods that files name, but of those that are over. A file is as good as a process there."""
        uids = {job.pod_uid for job in jobs if job.pod_uid}
        return {uid for uid in uids if self._has_cgroup(uid) is not False}

    def learn(
        self,
        pods: Iterable[PodClaim],
        filed: Iterable[Filed],
        owned: Iterable[tuple[HostProcess, Workload]],
        around_pods: Collection[str] = (),
    ) -> Sequence[Filed]:
        """Takes what this resolution has found: what pods hold, jobs with files, Slurm's processes with their
        workloads, and the workloads of jobs in which such pods lie. Returns the files that are believed: all but those
        that a pod which is over has left behind.
        """
        by_device: defaultdict[str, list[PodClaim]] = defaultdict(list)
        for pod in pods:
            by_device[pod.device].append(pod)
        self._pods = by_device
        believed = [(device, job, workload) for device, job, workload in filed if not self._left(device, job)]
        homes: defaultdict[str, set[str]] = defaultdict(set)
        jobs: defaultdict[str, list[tuple[Workload, int | None]]] = defaultdict(list)
        for device, job, workload in believed:
            jobs[device].append((workload, job.uid))
            if job.pod_uid:
                homes[workload.id].add(job.pod_uid)
        for process, workload in owned:
            if process.group is not None and process.group.pod_uid:
                homes[workload.id].add(process.group.pod_uid)
        found = self._proven.union(*homes.values())
        self._proven = found & {pod.uid for held in by_device.values() for pod in held if pod.uid}
        self._homes, self._filed = homes, jobs
        self._kubelets = self._kubelets.union(around_pods) & {workload.id for _, _, workload in believed}
        return believed

    def claims(self, device: str, process: HostProcess) -> bool:
        """Whether a process proves that its job holds the device, though the kubelet gives it to a pod: to the one that
        the process is in, and no file names a job there.
        """
        group = process.group
        return (
            group is not None
            and group.scheduler == "slurm"
            and device not in self._filed
            and any(pod.uid == group.pod_uid for pod in self._pods.get(device, ()) if pod.uid)
        )

    def owner(self, device: str, process: HostProcess, owner: Workload | None) -> Workload | None:
        """Whose a process on the device is, that is `owner`'s by its cgroup. None where any of several may be it.

        A Slurm without cgroups leaves the processes of its jobs in the pod's own.
        """
        if process.group is None or process.group.scheduler != "k8s":
            return owner
        jobs = [
            (workload, uid)
            for workload, uid in self._filed.get(device, ())
            if any(pod.uid == process.group.id for pod in self._giving_way(device, workload))
        ]
        if not jobs:
            return owner
        # In a pod with a user namespace the numbers of users are others: of one job all are, whatever their user.
        mine = [workload for workload, uid in jobs if len(jobs) == 1 or uid == process.uid]
        return mine[0] if len(mine) == 1 else None

    def displace(self, allocations: Iterable[Allocation]) -> tuple[tuple[Allocation, ...], frozenset[_Pair]]:
        """The allocations but those of pods and jobs that give way, and which these are."""
        given = tuple(allocations)
        around = {(one.device, one.workload.id) for one in given if one.workload.id in self._kubelets}
        displaced = frozenset(pair for pair in around if self._pods.get(pair[0])).union(
            (one.device, pod.workload.id)
            for one in given
            if one.workload.scheduler == "slurm" and one.workload.id not in self._kubelets
            for pod in self._giving_way(one.device, one.workload)
        )
        return tuple(one for one in given if (one.device, one.workload.id) not in displaced), displaced

    def _left(self, device: str, job: PrologJob) -> bool:
        """Whether a job's pod is over: another has the device, and of the two this one has no cgroup any more."""
        holders = {pod.uid for pod in self._pods.get(device, ())}
        return bool(
            job.pod_uid
            and holders
            and job.pod_uid not in holders
            and all(self._has_cgroup(uid) for uid in holders)
            and self._has_cgroup(job.pod_uid) is False
        )

    def _giving_way(self, device: str, job: Workload) -> list[PodClaim]:
        pods = self._pods.get(device, [])
        homes = self._homes.get(job.id)
        if homes:
            return [pod for pod in pods if pod.uid in homes]
        return [pod for pod in pods if pod.slurm or pod.uid in self._proven]
