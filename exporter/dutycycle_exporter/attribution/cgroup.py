"""Whose cgroup a process is in, from the text of /proc/PID/cgroup. Pure.

Slurm, cgroup v2: `.../slurmstepd.scope/job_<id>/step_<id>/user/task_<n>`; a build for several slurmd on one node says
`<node>_slurmstepd.scope`. Since Slurm 26.05 the directory is the job's SLUID (`sEKNKTV3WPV500`) unless cgroup.conf has
CgroupJobIdPaths=yes (https://slurm.schedmd.com/cgroup_v2.html). cgroup v1: `/slurm/uid_<uid>/job_<id>/...`, with
`slurm_<node>` for several slurmd.

Kubernetes, systemd driver: `.../kubepods[-<class>]-pod<uid with _ for ->.slice/<runtime>-<container>.scope`, below any
prefix (kind: `kubelet-kubepods-...`), or, where containerd runs the systemd driver without systemd,
`<pod slice>:cri-containerd:<container>` in one name. cgroupfs driver: `/kubepods[/<class>]/pod<uid>/<container>`. In a
cgroup namespace of the reader's own, a neighbour's path begins with `/..`.

Schedulers run inside one another: a slurmd in a pod starts jobs, whose groups lie in that pod's; so do those of the
pods of a cluster (kind, k3s) that somebody runs in a pod or in a job. All that lie around a process are told; who of
them holds the device is for others to say. Nothing below a user.slice counts: systemd gives users that subtree, where
they may name groups as they like. What lies above it counts: a container's own systemd makes a user.slice in its pod.
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

_Owner = tuple[Literal["slurm", "k8s"], str, str | None]
"""Scheduler, id, and path of the group."""

SLURM_SCOPE = "/system.slice/slurmstepd.scope"
"""Where slurmd puts jobs unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroup of a whole job or pod. `id` is a Slurm job id, a SLUID, or a pod's uid.

    `paths` are (controller, path of the group), the controller empty in cgroup v2. None where the group itself is not
    reachable by a path: seen from another cgroup namespace, or named together with its container. `around` is the next
    job's or pod's group outwards, in which it lies.
    """

    scheduler: Literal["slurm", "k8s"]
    id: str
    paths: tuple[tuple[str, str], ...] | None = None
    around: Group | None = None

    def outwards(self) -> Iterator[Group]:
        """Itself and all around it, the innermost first."""
        group: Group | None = self
        while group is not None:
            yield group
            group = group.around

    @property
    def pod_uids(self) -> tuple[str, ...]:
        """The pods that it is, or lies in, the innermost first."""
        return tuple(one.id for one in self.outwards() if one.scheduler == "k8s")

    @property
    def pod_uid(self) -> str:
        """The innermost of these; "" for none."""
        return next(iter(self.pod_uids), "")


def is_sluid(text: str) -> bool:
    """Whether a text has the form of a Slurm SLUID."""
    return _SLUID.fullmatch(text) is not None


def parse(text: str) -> Group | None:
    """The innermost job's or pod's group that a process is in; None for no scheduler's, or where hierarchies disagree.

    In cgroup v1 a Slurm in a pod manages some hierarchies, and in the others its jobs are in the pod's own group: there
    the innermost are missing, and those around them are the same.
    """
    if "\0" in text:
        return None
    found: list[tuple[list[str], list[_Owner]]] = []
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator:
            found.append((controllers.split(","), _owners(path)))
    names = max(([owner[:2] for owner in owners] for _, owners in found), key=len, default=[])
    if any(owner[:2] != name for _, owners in found for owner, name in zip(owners, names, strict=False)):
        return None
    group: Group | None = None
    for depth, (scheduler, name) in enumerate(names):
        places = [(controllers, owners[depth][2]) for controllers, owners in found if depth < len(owners)]
        paths = tuple((controller, at) for controllers, at in places if at is not None for controller in controllers)
        group = Group(scheduler, name, paths or None, group)
    return group


def slurm_scope(group: Group) -> str | None:
    """The scope that a Slurm job's group is in, where other jobs' groups are too. None in cgroup v1."""
    for controller, path in group.paths or ():
        if not controller and group.scheduler == "slurm":
            return path.rpartition("/")[0]
    return None


def _owners(path: str) -> list[_Owner]:
    """The jobs and pods on a path, the outermost first."""
    names = path.split("/")[1:]
    if "user.slice" in names:
        names = names[: names.index("user.slice")]
    reachable = ".." not in names
    found: list[_Owner] = []
    for depth, name in enumerate(names):
        group_path = "/" + "/".join(names[: depth + 1]) if reachable else None
        found += [("slurm", job, group_path) for job in _slurm(names, depth, name)]
        found += [("k8s", uid, group_path if whole else None) for uid, whole in _pod(names, depth, name)]
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
