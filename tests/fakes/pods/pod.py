"""One pod: its network, its volumes, and its containers, which are started again when they end or fail their probes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .container import BindMount, Running
from .network import Namespace, Network
from .probes import Prober
from .spec import Container, PodPlan
from .volumes import Sources, Volume, Volumes

_BACK_OFF = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Seconds before a container is started again, as the kubelet waits."""
_POLL = 0.05


@dataclass(frozen=True)
class Runtime:
    """What an engine adds to a container: the image's root, mounts and variables of its own (a runtime class)."""

    image: Path
    mounts: Sequence[BindMount]
    environment: Mapping[str, str]


@dataclass
class Life:
    """One container over its restarts."""

    restarts: int = 0
    ready: bool = False
    reasons: list[str] = field(default_factory=list)
    """Why it was started again, each time."""
    running: Running | None = None


class Pod:
    """From `start` to `stop`. `changed` is called when its readiness or a restart count is another. `trace` names the
    files that the containers' file calls are written to.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        node: str,
        network: Network,
        joined: tuple[Namespace, str],
        plan: PodPlan,
        sources: Sources,
        runtime: Callable[[Container], Runtime],
        directory: Path,
        *,
        trace: Path | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.metadata, self.node, self.plan = metadata, node, plan
        self.name = str(metadata["name"])
        self._network, (self._namespace, self.address) = network, joined
        self._runtime, self._directory, self._trace, self._changed = runtime, directory, trace, changed
        self._volumes = Volumes(directory / "volumes", sources, plan.fs_group)
        self.lives = {container.name: Life() for container in plan.containers}
        self._stopping, self._grace = threading.Event(), plan.grace
        self._threads: list[threading.Thread] = []
        self._made: dict[str, Volume] = {}

    def start(self, extra: Sequence[BindMount]) -> None:
        """`extra` are mounts that every container has of the kubelet."""
        for name, volume in self.plan.volumes.items():
            self._made[name] = self._volumes.make(name, volume, self._nested(name))
        for container in self.plan.containers:
            thread = threading.Thread(target=self._live, args=(container, list(extra)), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, grace: float | None = None) -> None:
        """Its containers get this long after SIGTERM; as long as the pod says by default. 0: SIGKILL at once."""
        self._grace = self.plan.grace if grace is None else grace
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._namespace.close()

    @property
    def ready(self) -> bool:
        return all(life.ready for life in self.lives.values())

    @property
    def restarts(self) -> int:
        return sum(life.restarts for life in self.lives.values())

    @property
    def log(self) -> str:
        """What its containers wrote."""
        paths = [self._directory / f"{name}.log" for name in self.lives]
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    def port(self, name: str | int) -> int:
        """By the name that a container gives it."""
        ports = {key: value for container in self.plan.containers for key, value in container.ports.items()}
        return ports[name] if isinstance(name, str) else name

    def _nested(self, volume: str) -> set[str]:
        """Directories that the kubelet makes in a volume for others that are mounted within it."""
        found = set()
        for container in self.plan.containers:
            for outer in [one for one in container.mounts if one.volume == volume]:
                inside = f"{outer.path.rstrip('/')}/"
                found |= {one.path.removeprefix(inside) for one in container.mounts if one.path.startswith(inside)}
        return found

    def _live(self, container: Container, extra: list[BindMount]) -> None:
        life = self.lives[container.name]
        while not self._stopping.wait(_BACK_OFF[min(life.restarts, len(_BACK_OFF)) - 1] if life.restarts else 0):
            failed = threading.Event()
            reasons: list[str] = []

            def failing(
                why: str, failed: threading.Event = failed, reasons: list[str] = reasons, life: Life = life
            ) -> None:
                reasons.append(why)
                failed.set()

            def ready(state: bool, life: Life = life) -> None:
                life.ready = state
                self._changed()

            life.running = running = self._started(container, extra)
            prober = Prober(self._network, self.address, dict(container.probes), failing, ready)
            try:
                while running.alive and not failed.is_set() and not self._stopping.is_set():
                    failed.wait(_POLL)
            finally:
                prober.stop()
                life.ready = False
                running.stop(self._grace)
            if not self._stopping.is_set():
                life.restarts += 1
                life.reasons.append(reasons[0] if reasons else "it ended")
                self._changed()

    def _started(self, container: Container, extra: list[BindMount]) -> Running:
        runtime = self._runtime(container)
        mounts = [
            BindMount(volume.path, one.path, one.read_only or volume.read_only)
            for one in container.mounts
            if (volume := self._made[one.volume])
        ]
        values = {**container.__dict__, "environment": {**runtime.environment, **container.environment}}
        return Running(
            Container(**values),
            runtime.image,
            self._namespace,
            [*runtime.mounts, *extra, *mounts],
            self._directory,
            hostname=self.name,
            host_pid=self.plan.host_pid,
            trace=self._trace,
        )
