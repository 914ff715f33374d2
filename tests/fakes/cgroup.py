"""A cgroup v2 tree whose counters advance with the use that is declared for its groups."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

CFS_PERIOD_US = 100_000


def slurm_task(job_id: int, *, step: str = "0", task: int = 0, scope: str = "slurmstepd.scope") -> str:
    """A task of a Slurm job; several slurmd on a node have scopes of their own, `<node>_slurmstepd.scope`."""
    return f"/system.slice/{scope}/job_{job_id}/step_{step}/user/task_{task}"


def pod_container(pod_uid: str, container: str, *, qos: str = "burstable", runtime: str = "cri-containerd") -> str:
    """A container of a pod, as the systemd driver names it; a guaranteed pod has no slice of its class."""
    prefix = "kubepods" if qos == "guaranteed" else f"kubepods-{qos}"
    parent = "/kubepods.slice" if qos == "guaranteed" else f"/kubepods.slice/{prefix}.slice"
    return f"{parent}/{prefix}-pod{pod_uid.replace('-', '_')}.slice/{runtime}-{container}.scope"


def user_session(uid: int, session: int = 1) -> str:
    """A login's session."""
    return f"/user.slice/user-{uid}.slice/session-{session}.scope"


@dataclass(frozen=True)
class Use:
    """What the processes of one group do, from now on."""

    cpu_cores: float = 0.0
    io_pressure: float = 0.0
    """Share of time in which some task waits for I/O."""

    cpu_pressure: float = 0.0
    """Share of time in which some task waits for a CPU."""

    memory: int = 0
    """Bytes."""


@dataclass
class _Group:
    cpu_us: float = 0.0
    io_wait_us: float = 0.0
    cpu_wait_us: float = 0.0
    use: Use = field(default_factory=Use)
    total: Use = field(default_factory=Use)
    """With what its descendants do."""

    written: dict[str, str] = field(default_factory=dict)


class CgroupTree:
    """Builds the tree under `root`. Every file is replaced whole.

    Counters are written every `refresh` seconds at most (files are dear); a change of use is written at once.
    """

    def __init__(self, root: Path, cpus: int = 64, refresh: float = 0.1) -> None:
        self.root = root
        self.cpus = cpus
        self._refresh_us = refresh * 1e6
        self._groups: dict[PurePosixPath, _Group] = {}
        self._now_us: int | None = None
        self._written_us = 0
        root.mkdir(parents=True)
        (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        self._make(PurePosixPath("/"))

    def add(self, path: str, *, cpu_limit: float | None = None, cpuset: str | None = None) -> None:
        """Makes a group and its ancestors. Limits, in cores (cpu.max) or as a list of CPUs, are this group's own.

        Slurm sets the list at the job, the kubelet cpu.max at the pod and at the container: call `add` for those.
        """
        group = PurePosixPath(path)
        for ancestor in [*reversed(group.parents), group]:
            if ancestor not in self._groups:
                self._make(ancestor)
        if cpu_limit is not None:
            self._write(group, "cpu.max", f"{round(cpu_limit * CFS_PERIOD_US)} {CFS_PERIOD_US}\n")
        if cpuset is not None:
            self._write(group, "cpuset.cpus.effective", f"{cpuset}\n")

    def use(self, path: str, use: Use, pids: list[int] | None = None) -> None:
        """Declares what a group does from now on, and which processes it holds."""
        group = PurePosixPath(path)
        self._groups[group].use = use
        self._sum_up()
        if pids is not None:
            self._write(group, "cgroup.procs", "".join(f"{pid}\n" for pid in pids))
        self._write_counters()

    def remove(self, path: str) -> None:
        """Removes a group and all below; what it used stays in its ancestors' counters."""
        group = PurePosixPath(path)
        self._groups = {other: kept for other, kept in self._groups.items() if not other.is_relative_to(group)}
        self._sum_up()
        gone = self._directory(group)
        aside = gone.with_name(gone.name + ".gone")
        gone.rename(aside)
        shutil.rmtree(aside)

    def advance(self, now_us: int) -> None:
        """Brings the counters up to an instant, in microseconds."""
        elapsed = 0 if self._now_us is None else max(0, now_us - self._now_us)
        self._now_us = now_us
        for group in self._groups.values():
            group.cpu_us += group.total.cpu_cores * elapsed
            group.io_wait_us += group.total.io_pressure * elapsed
            group.cpu_wait_us += group.total.cpu_pressure * elapsed
        if now_us - self._written_us >= self._refresh_us:
            self._written_us = now_us
            self._write_counters()

    def _sum_up(self) -> None:
        """Adds every group's use to its ancestors': CPU and memory add up, of pressures the worst counts."""
        for group in self._groups.values():
            group.total = group.use
        for path, group in self._groups.items():
            for ancestor in path.parents:
                above = self._groups[ancestor]
                above.total = Use(
                    cpu_cores=above.total.cpu_cores + group.use.cpu_cores,
                    io_pressure=max(above.total.io_pressure, group.use.io_pressure),
                    cpu_pressure=max(above.total.cpu_pressure, group.use.cpu_pressure),
                    memory=above.total.memory + group.use.memory,
                )

    def _directory(self, path: PurePosixPath) -> Path:
        return self.root / path.relative_to("/")

    def _make(self, path: PurePosixPath) -> None:
        self._directory(path).mkdir(exist_ok=True)
        self._groups[path] = _Group()
        self._write(path, "cgroup.procs", "")
        self._write(path, "cpuset.cpus.effective", f"0-{self.cpus - 1}\n")
        if path != PurePosixPath("/"):
            self._write(path, "cpu.max", f"max {CFS_PERIOD_US}\n")
        self._write_counters_of(path)

    def _write_counters(self) -> None:
        for path in self._groups:
            self._write_counters_of(path)

    def _write_counters_of(self, path: PurePosixPath) -> None:
        group = self._groups[path]
        usage = round(group.cpu_us)
        self._write(
            path,
            "cpu.stat",
            f"usage_usec {usage}\nuser_usec {usage * 9 // 10}\nsystem_usec {usage - usage * 9 // 10}\n"
            "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        )
        self._write(path, "io.pressure", _pressure(group.total.io_pressure, group.io_wait_us))
        self._write(path, "cpu.pressure", _pressure(group.total.cpu_pressure, group.cpu_wait_us))
        if path != PurePosixPath("/"):
            self._write(path, "memory.current", f"{group.total.memory}\n")

    def _write(self, path: PurePosixPath, name: str, content: str) -> None:
        group = self._groups[path]
        if group.written.get(name) == content:
            return
        group.written[name] = content
        target = self._directory(path) / name
        aside = target.with_name(f".{name}")
        aside.write_text(content)
        aside.replace(target)


def _pressure(ratio: float, total_us: float) -> str:
    lines = []
    for kind, share in (("some", 1.0), ("full", 0.5)):
        average = f"{100 * ratio * share:.2f}"
        lines.append(f"{kind} avg10={average} avg60={average} avg300={average} total={round(total_us * share)}\n")
    return "".join(lines)
