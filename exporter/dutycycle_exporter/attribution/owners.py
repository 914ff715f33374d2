"""Which workload a scheduler's process belongs to, and what that workload is called. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dutycycle_exporter.model import Workload

from .cgroup import Group, is_sluid
from .processes import HostProcess
from .slurm import PrologJob


class Owners:
    """Finds the workloads of jobs and of processes, from one resolution to the next.

    A job keeps the names of its file as long as a process of it is seen, also when the file has gone. Whose a job is
    that has only a number is known from its first process on: not from those of a pod in it, which have other users.
    """

    def __init__(self, users: Callable[[int], str]) -> None:
        self._users = users
        self._jobs: dict[str, PrologJob] = {}
        self._unfiled: dict[str, int] = {}
        self._uids: dict[str, int] = {}

    def learn(self, jobs: Mapping[str, tuple[PrologJob, ...]], processes: Mapping[str, Iterable[HostProcess]]) -> None:
        """Takes this resolution's prolog files and processes, both by GPU, and forgets jobs that are in neither.

        A job whose cgroup is named by its SLUID is the one whose file says so; else the only one of the process's user
        among those that hold the GPU and do not say.
        """
        everywhere = [process for found in processes.values() for process in found]
        seen = {group.id for process in everywhere for group in _jobs_around(process)}
        self._jobs = {name: job for name, job in self._jobs.items() if name in seen}
        self._unfiled = {name: uid for name, uid in self._unfiled.items() if name in seen}
        for job in (job for found in jobs.values() for job in found):
            self._jobs[str(job.job_id)] = job
            if job.sluid:
                self._jobs[job.sluid] = job
        for gpu, found in processes.items():
            for process in found:
                for group in _jobs_around(process):
                    self._match_sluid(process, group, jobs.get(gpu, ()))
        self._learn_uids(everywhere)

    def filed(self, group: Group) -> PrologJob | None:
        """The job of a Slurm job's group, if a file tells of it."""
        return self._jobs.get(group.id) if group.scheduler == "slurm" else None

    def job(self, job: PrologJob) -> Workload:
        """The workload of a job with a prolog file."""
        return Workload(
            id=f"slurm/{job.name}",
            scheduler="slurm",
            job_id=job.name,
            user=job.user or self._user(job),
            account=job.account,
            partition=job.partition,
        )

    def process(self, process: HostProcess, group: Group) -> Workload:
        """The workload of a process in a scheduler's group. It is the same user's as long as it is seen."""
        if group.scheduler == "k8s":
            # Namespace and name are the Kubernetes API's to tell; the uid alone identifies the pod.
            return Workload(f"k8s///{group.id}", "k8s")
        job = self.filed(group)
        if job is not None:
            return self.job(job)
        user = self._users(self._unfiled.setdefault(group.id, process.uid))
        return Workload(f"slurm/{group.id}", "slurm", job_id=group.id, user=user)

    def _match_sluid(self, process: HostProcess, group: Group, jobs: tuple[PrologJob, ...]) -> None:
        if not is_sluid(group.id) or group.id in self._jobs:
            return
        candidates = [job for job in jobs if job.uid in (None, process.uid) and not job.sluid]
        if len(candidates) == 1:
            self._jobs[group.id] = candidates[0]

    def _learn_uids(self, processes: Iterable[HostProcess]) -> None:
        numbered = {job.name for job in self._jobs.values() if job.uid is None}
        self._uids = {name: uid for name, uid in self._uids.items() if name in numbered}
        for process in processes:
            group = process.group
            job = self.filed(group) if group is not None else None
            if job is not None and job.uid is None:
                self._uids.setdefault(job.name, process.uid)

    def _user(self, job: PrologJob) -> str:
        uid = self._uids.get(job.name) if job.uid is None else job.uid
        return "" if uid is None else self._users(uid)


def _jobs_around(process: HostProcess) -> Iterable[Group]:
    return () if process.group is None else (one for one in process.group.outwards() if one.scheduler == "slurm")
