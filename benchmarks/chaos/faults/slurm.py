"""Slurm's daemons, killed, paused and restarted."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from typing import Self

from tests.slurm.cluster import NODES

from .. import probes
from ..happened import Effects
from ..site import Site
from .base import Fault
from .processes import OnMachine


class ControllerKilled(Fault):
    """slurmctld is killed (kill -9), and started again with its state."""

    name = "slurmctld-killed"
    touches = frozenset({"slurm"})
    effects = Effects(halts=frozenset({"slurm"}), says=frozenset({"source:slurm"}))
    _daemon = "slurmctld"

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.slurm.stop(self._daemon, signal.SIGKILL)

    def in_force(self, site: Site) -> bool | None:
        return site.slurm.pid(self._daemon) is None

    def end(self, site: Site) -> None:
        getattr(site.slurm, f"start_{self._daemon}")()


class RestKilled(ControllerKilled):
    """slurmrestd is killed (kill -9), and started again."""

    name = "slurmrestd-killed"
    _daemon = "slurmrestd"


class _Paused:
    """The daemon `_daemon` is stopped (SIGSTOP), and goes on."""

    _daemon: str

    def begin(self, site: Site) -> None:
        site.slurm.signal(self._daemon, signal.SIGSTOP)

    def in_force(self, site: Site) -> bool | None:
        pid = site.slurm.pid(self._daemon)
        return pid is not None and probes.stopped(pid)

    def end(self, site: Site) -> None:
        site.slurm.signal(self._daemon, signal.SIGCONT)


class ControllerPaused(_Paused, ControllerKilled):
    """slurmctld is stopped (SIGSTOP), and goes on."""

    name = "slurmctld-paused"


class RestPaused(ControllerPaused):
    """slurmrestd is stopped (SIGSTOP), and goes on: it accepts connections, and says nothing."""

    name = "slurmrestd-paused"
    _daemon = "slurmrestd"


class ControllerRestarted(ControllerKilled):
    """slurmctld is restarted, as after a change of its configuration."""

    name = "slurmctld-restarted"
    lasts = (3.0, 4.0)
    effects = replace(ControllerKilled.effects, says=frozenset())

    def begin(self, site: Site) -> None:
        self._before = site.slurm.pid(self._daemon)
        site.slurm.stop(self._daemon)
        site.slurm.start_slurmctld()

    def in_force(self, site: Site) -> bool | None:
        return site.slurm.pid(self._daemon) != self._before

    def end(self, site: Site) -> None:
        """It is back already."""


class NodeDaemonKilled(OnMachine):
    """A node's slurmd is killed (kill -9), and started again: jobs go on, and those that end wait for their epilog."""

    name = "slurmd-killed"
    lasts = (12.0, 20.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        # What starts it again asks the controller.
        self.touches |= {"slurm"}
        self.effects = Effects(halts=frozenset({f"slurmd-{node}"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(NODES))

    def begin(self, site: Site) -> None:
        site.slurm.power_off(self.node)

    def in_force(self, site: Site) -> bool | None:
        return site.slurm.pid(self.node) is None

    def end(self, site: Site) -> None:
        site.slurm.power_on(self.node)


class NodeDaemonPaused(_Paused, NodeDaemonKilled):
    """A node's slurmd is stopped (SIGSTOP), and goes on: jobs go on, and those that end wait for their epilog."""

    name = "slurmd-paused"

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self._daemon = node


SLURM: tuple[type[Fault], ...] = (
    ControllerKilled,
    RestKilled,
    ControllerPaused,
    RestPaused,
    ControllerRestarted,
    NodeDaemonKilled,
    NodeDaemonPaused,
)
