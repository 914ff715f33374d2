"""What a workload's cgroup on this node has used of the CPUs, may use, and waited for.

cgroup v2: cpu.stat, cpu.max, cpuset.cpus.effective, *.pressure. v1, where each controller has a tree of its own and
there is no pressure: cpuacct.usage, cpu.cfs_quota_us over cpu.cfs_period_us, cpuset.effective_cpus.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from dutycycle_exporter.model import HostReading, Workload

from .cgroup import SLURM_SCOPE, Group

_PRESSURE = re.compile(r"^some .*\btotal=([0-9]+)$", re.MULTILINE | re.ASCII)
_USAGE = re.compile(r"^usage_usec ([0-9]+)$", re.MULTILINE | re.ASCII)
_V1_MOUNTS = {"cpu": ("cpu", "cpu,cpuacct"), "cpuacct": ("cpuacct", "cpu,cpuacct"), "cpuset": ("cpuset",)}


class CgroupFiles:
    """The cgroup filesystem under `root`: v2, v1, or v1 with v2 beside it in `unified`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._v2: Path | None = None

    def read(self, workload: Workload, group: Group) -> HostReading | None:
        """The reading of a job's or pod's group; None where the group tells nothing, as after its end."""
        paths = dict(group.paths or ())
        v2 = v1 = None
        if "" in paths and _is_directory(self._unified() / paths[""][1:]):
            v2 = self._read_v2(workload, self._unified(), paths[""])
        if any(self._v1(controller, paths[controller]) for controller in _V1_MOUNTS if controller in paths):
            v1 = self._read_v1(workload, paths)
        if v1 is None or v2 is None:
            return v2 or v1
        # systemd mirrors a pod's groups into a v2 beside v1, but the controllers that limit it are in v1.
        return replace(
            v2,
            cpu_seconds=v1.cpu_seconds if v2.cpu_seconds is None else v2.cpu_seconds,
            cpu_limit=v1.cpu_limit if v2.cpu_limit is None else v2.cpu_limit,
        )

    def find_slurm(self, names: Iterable[str], uid: int | None, scopes: Iterable[str]) -> Group | None:
        """The group of a Slurm job of which no process is known: `names` are what its directory may be called.

        It is looked for in `scopes`, where Slurm puts jobs unless it is told otherwise, and where a Slurm does that is
        built for several slurmd on one host, as distributions' are. Without `uid` not in cgroup v1.
        """
        for name in names:
            for scope in (*scopes, SLURM_SCOPE, *self._scopes_by_node()):
                if _is_directory(self._unified() / scope[1:] / name):
                    return Group("slurm", name.removeprefix("job_"), (("", f"{scope}/{name}"),))
            for top in () if uid is None else self._tops_v1():
                path = f"/{top}/uid_{uid}/{name}"
                found = tuple((controller, path) for controller in _V1_MOUNTS if self._v1(controller, path) is not None)
                if found:
                    return Group("slurm", name.removeprefix("job_"), found)
        return None

    def scopes_in_pod(self, uid: str) -> tuple[str, ...]:
        """Where a slurmd in one of the pod's containers puts the groups of its jobs."""
        pod = self.find_pod(uid)
        above = "" if pod is None else dict(pod.paths or ()).get("", "")
        found = (f"{above}/{name}{SLURM_SCOPE}" for name in _entries(self._unified() / above[1:])) if above else ()
        return tuple(scope for scope in found if _is_directory(self._unified() / scope[1:]))

    def find_pod(self, uid: str) -> Group | None:
        """The group of a pod of which no process is known, where either driver of a kubelet puts it."""
        for quality in ("", "burstable", "besteffort") if uid else ():
            slices = f"kubepods.slice/kubepods-{quality}.slice" if quality else "kubepods.slice"
            prefix = f"kubepods-{quality}" if quality else "kubepods"
            for path in (
                f"/{slices}/{prefix}-pod{uid.replace('-', '_')}.slice",
                str(PurePosixPath("/kubepods", quality, f"pod{uid}")),
            ):
                found = [(controller, path) for controller in _V1_MOUNTS if self._v1(controller, path) is not None]
                if _is_directory(self._unified() / path[1:]):
                    found.append(("", path))
                if found:
                    return Group("k8s", uid, tuple(found))
        return None

    def has_pod(self, uid: str) -> bool | None:
        """Whether a pod's group is where a kubelet usually puts it; None where no kubelet's groups are to be seen."""
        if self.find_pod(uid) is not None:
            return True
        mounts = (self._unified(), *(self._root / mount for mounts in _V1_MOUNTS.values() for mount in mounts))
        seen = any(_is_directory(mount / top) for mount in mounts for top in ("kubepods.slice", "kubepods"))
        return False if seen else None

    def pod_lives(self, uid: str) -> bool:
        """Whether a process is in a pod's group, where a kubelet usually puts it: its sandbox, at least."""
        pod = self.find_pod(uid)
        for controller, path in (pod.paths if pod is not None else None) or ():
            directory = self._v1(controller, path) if controller else self._unified() / path[1:]
            if directory is not None and _populated(directory):
                return True
        return False

    def _scopes_by_node(self) -> Iterator[str]:
        above = PurePosixPath(SLURM_SCOPE).parent
        for name in _entries(self._unified() / above.relative_to("/")):
            if name.endswith("_slurmstepd.scope"):
                yield f"{above}/{name}"

    def _tops_v1(self) -> list[str]:
        """Slurm's directories at the top of its hierarchies: `slurm`, or `slurm_<node>`."""
        mounts = dict.fromkeys(mount for mounts in _V1_MOUNTS.values() for mount in mounts)
        names = {name for mount in mounts for name in _entries(self._root / mount)}
        return sorted(name for name in names if name == "slurm" or name.startswith("slurm_"))

    def _unified(self) -> Path:
        """The root of v2, which stays where it is once it was seen."""
        if self._v2 is None:
            places = (self._root / "unified", self._root)
            self._v2 = next((place for place in places if (place / "cgroup.controllers").is_file()), None)
        return self._v2 or self._root

    def _v1(self, controller: str, path: str) -> Path | None:
        for mount in _V1_MOUNTS[controller]:
            directory = self._root / mount / path[1:]
            if _is_directory(directory):
                return directory
        return None

    def _read_v2(self, workload: Workload, root: Path, path: str) -> HostReading:
        directory = root / path[1:]
        quotas = (_quota_v2(_text(above / "cpu.max")) for above in _upwards(root, path))
        return HostReading(
            workload,
            cpu_seconds=_scaled(_first(_USAGE, _text(directory / "cpu.stat")), 1e-6),
            cpu_limit=_limit(quotas, (_cpus(_text(above / "cpuset.cpus.effective")) for above in _upwards(root, path))),
            io_pressure=_scaled(_first(_PRESSURE, _text(directory / "io.pressure")), 1e-6),
            cpu_pressure=_scaled(_first(_PRESSURE, _text(directory / "cpu.pressure")), 1e-6),
            memory_pressure=_scaled(_first(_PRESSURE, _text(directory / "memory.pressure")), 1e-6),
        )

    def _read_v1(self, workload: Workload, paths: dict[str, str]) -> HostReading:
        usage = self._v1("cpuacct", paths["cpuacct"]) if "cpuacct" in paths else None
        return HostReading(
            workload,
            cpu_seconds=_scaled(_number(_text(usage / "cpuacct.usage")), 1e-9) if usage else None,
            cpu_limit=_limit(
                (
                    _quota_v1(_text(above / "cpu.cfs_quota_us"), _text(above / "cpu.cfs_period_us"))
                    for above in self._upwards_v1("cpu", paths)
                ),
                (
                    _cpus(_text(above / "cpuset.effective_cpus") or _text(above / "cpuset.cpus"))
                    for above in self._upwards_v1("cpuset", paths)
                ),
            ),
        )

    def _upwards_v1(self, controller: str, paths: dict[str, str]) -> Iterator[Path]:
        path = paths.get(controller)
        if path is not None and (directory := self._v1(controller, path)) is not None:
            yield from _upwards(directory.parents[len(PurePosixPath(path).parts) - 2], path)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """A group and those above it, up to the root."""
    group = PurePosixPath(path)
    for above in (group, *group.parents):
        yield root / above.relative_to("/")


def _limit(quotas: Iterable[float | None], sets: Iterable[float | None]) -> float | None:
    """The least quota on the path, or the CPU set where that is less: the nearest, which is within those above."""
    known = [quota for quota in quotas if quota is not None]
    cpus = next((count for count in sets if count is not None), None)
    return min((*known, *(() if cpus is None else (cpus,))), default=None)


def _quota_v2(text: str | None) -> float | None:
    """Cores of a cpu.max; None for no limit."""
    quota, _, period = (text or "").strip().partition(" ")
    return _quota_v1(quota, period)


def _quota_v1(quota: str | None, period: str | None) -> float | None:
    numerator, denominator = _number(quota), _number(period)
    return numerator / denominator if numerator and denominator else None


def _cpus(text: str | None) -> float | None:
    """How many CPUs a list like `0-3,8` names; None for an empty or unreadable one."""
    count = 0
    for part in (text or "").strip().split(","):
        first, _, last = part.partition("-")
        low, high = _number(first), _number(last or first)
        if low is None or high is None or high < low:
            return None
        count += high - low + 1
    return float(count)


def _number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


def _first(pattern: re.Pattern[str], text: str | None) -> int | None:
    found = pattern.search(text or "")
    return _number(found[1]) if found else None


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _populated(group: Path) -> bool:
    """Whether a process is in a group or below it. Only cgroup v2 says so in one place."""
    events = _text(group / "cgroup.events")
    if events is not None:
        return "populated 1" in events.splitlines()
    return any(_text(Path(above) / "cgroup.procs") for above, _, _ in os.walk(group))


def _entries(path: Path) -> list[str]:
    """What is in a directory; nothing where it is none."""
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str | None:
    """A small file; None where it is not there, has gone, or is not supported (pressure on a kernel without it)."""
    try:
        with path.open("rb") as file:
            return file.read(1 << 16).decode("ascii", "replace")
    except OSError:
        return None
