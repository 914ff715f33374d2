"""Whose cgroup a process is in, from the text of /proc/PID/cgroup. Pure.

Slurm, cgroup v2: `.../slurmstepd.scope/job_<id>/step_<id>/user/task_<n>`; a build for several slurmd on one node says
`<node>_slurmstepd.scope`. Since Slurm 26.05 the directory is the job's SLUID (`sEKNKTV3WPV500`) unless cgroup.conf has
CgroupJobIdPaths=yes (https://slurm.schedmd.com/cgroup_v2.html). cgroup v1: `/slurm/uid_<uid>/job_<id>/...`, with
`slurm_<node>` for several slurmd.

Kubernetes, systemd driver: `.../kubepods[-<class>]-pod<uid with _ for ->.slice/<runtime>-<container>.scope`, below any
prefix (kind: `kubelet-kubepods-...`), or, where containerd runs the systemd driver without systemd,
`<pod slice>:cri-containerd:<container>` in one name. cgroupfs driver: `/kubepods[/<class>]/pod<uid>/<container>`. In a
cgroup namespace of the reader's own, a neighbour's path begins with `/..`.

Of several matches in a path the innermost counts: a slurmd that runs in a pod starts Slurm jobs, whose groups lie in
that pod's. Nothing under user.slice counts: systemd gives users that subtree, where they may name groups as they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_JOB = re.compile(r"job_([1-9][0-9]{0,9})", re.ASCII)
_SLUID = re.compile(r"s[0-9A-Z]{13}", re.ASCII)
_UID = re.compile(r"uid_[0-9]{1,10}", re.ASCII)
_POD_UID = r"[0-9A-Za-z]+(?:[-_][0-9A-Za-z]+){0,8}"
_POD_SLICE = re.compile(
    rf"(?:[^:]*-)?kubepods(?:-burstable|-besteffort|-guaranteed)?-pod({_POD_UID})\.slice(:.+)?", re.ASCII
)
_POD_DIRECTORY = re.compile(rf"pod({_POD_UID})", re.ASCII)
_CLASSES = ("burstable", "besteffort", "guaranteed")
_LONGEST_ID = 64

SLURM_SCOPE = "/system.slice/slurmstepd.scope"
"""Where slurmd puts jobs unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroup of a whole job or pod. `id` is a Slurm job id, a SLUID, or a pod's uid.

    `paths` are (controller, path of the group), the controller empty in cgroup v2. None where the group itself is not
    reachable by a path: seen from another cgroup namespace, or named together with its container. `pod` is the uid of
    the pod in whose group a Slurm job's lies, "" for none.
    """

    scheduler: Literal["slurm", "k8s"]
    id: str
    paths: tuple[tuple[str, str], ...] | None = None
    pod: str = ""

    @property
    def pod_uid(self) -> str:
        """The pod that it is, or lies in; "" for none."""
        return self.id if self.scheduler == "k8s" else self.pod


def is_sluid(text: str) -> bool:
    """Whether a text has the form of a Slurm SLUID."""
    return _SLUID.fullmatch(text) is not None


def parse(text: str) -> Group | None:
    """The job's or pod's group that a process is in; None for no scheduler's, or where hierarchies disagree.

    In cgroup v1 a Slurm in a pod manages some hierarchies, and in the others its jobs are in the pod's own group.
    """
    if "\0" in text:
        return None
    owners: dict[tuple[Literal["slurm", "k8s"], str, str], list[tuple[str, str | None]]] = {}
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        match = _innermost(path) if separator else None
        if match is not None:
            found = owners.setdefault(match[:3], [])
            found.extend((controller, match[3]) for controller in controllers.split(","))
    around = {pod for scheduler, _, pod in owners if scheduler == "slurm"}
    owners = {owner: found for owner, found in owners.items() if owner[0] == "slurm" or owner[1] not in around}
    if len(owners) != 1:
        return None
    [((scheduler, name, pod), found)] = owners.items()
    paths = tuple((controller, path) for controller, path in found if path is not None)
    return Group(scheduler, name, paths or None, pod)


def slurm_scope(group: Group) -> str | None:
    """The scope that a Slurm job's group is in, where other jobs' groups are too. None in cgroup v1."""
    for controller, path in group.paths or ():
        if not controller and group.scheduler == "slurm":
            return path.rpartition("/")[0]
    return None


def _innermost(path: str) -> tuple[Literal["slurm", "k8s"], str, str, str | None] | None:
    """Scheduler, id, pod and path of the group."""
    names = path.split("/")[1:]
    if "user.slice" in names:
        return None
    reachable = ".." not in names
    found: tuple[Literal["slurm", "k8s"], str, str, str | None] | None = None
    pod = ""
    for depth, name in enumerate(names):
        group_path = "/" + "/".join(names[: depth + 1]) if reachable else None
        for job in _slurm(names, depth, name):
            found = ("slurm", job, pod, group_path)
        for uid, whole in _pod(names, depth, name):
            pod = uid
            found = ("k8s", uid, "", group_path if whole else None)
    return found


def _slurm(names: list[str], depth: int, name: str) -> Iterator[str]:
    above = names[depth - 1] if depth else ""
    job = _JOB.fullmatch(name)
    if above == "slurmstepd.scope" or above.endswith("_slurmstepd.scope"):
        if job or is_sluid(name):
            yield job[1] if job else name
    elif job and depth >= 2 and _UID.fullmatch(above):
        top = names[depth - 2]
        if top == "slurm" or top.startswith("slurm_"):
            yield job[1]


def _pod(names: list[str], depth: int, name: str) -> Iterator[tuple[str, bool]]:
    if slice_ := _POD_SLICE.fullmatch(name):
        uid, whole = slice_[1].replace("_", "-"), slice_[2] is None
    elif (directory := _POD_DIRECTORY.fullmatch(name)) and _in_kubepods(names[:depth]):
        uid, whole = directory[1], True
    else:
        return
    if len(uid) <= _LONGEST_ID:
        yield uid, whole


def _in_kubepods(above: list[str]) -> bool:
    if above and all(name == ".." for name in above):
        return True
    if above and above[-1] in _CLASSES:
        above = above[:-1]
    return bool(above) and (above[-1] == "kubepods" or above[-1] == "..")
