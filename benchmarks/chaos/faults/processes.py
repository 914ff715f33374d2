"""Programs of ours that are killed and paused."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

import psycopg

from tests.slurm.cluster import NODES

from .. import probes
from ..happened import Effects
from ..processes import Program
from ..site import POD_NODE, Site
from .base import Fault

MACHINES = (*NODES, POD_NODE)
LONGER_THAN_A_LEASE = (6.0, 14.0)
REPLICAS = ("a", "b")
UNTIL_A_PASS = 5.0
"""Wall seconds for which one is waited for that may be stopped in its midst; there is one every two."""
_BETWEEN_LOOKS = 0.003
_UNTIL_IT_SAYS_SO = 3.0
_UNTIL_IT_STANDS = 1.0


class OnMachine(Fault):
    """A fault of one GPU node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.touches = frozenset({node})

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(MACHINES))


class _ExporterAway(OnMachine):
    """An exporter answers nobody, and reads nothing."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}), silences=frozenset({f"exporter-{node}"}), loses=True)

    def in_force(self, site: Site) -> bool | None:
        return site.machines[self.node].exporter.in_force()


class ExporterKilled(_ExporterAway):
    """An exporter is killed (kill -9), and started again when it is over."""

    name = "exporter-killed"

    def begin(self, site: Site) -> None:
        site.machines[self.node].exporter.kill()

    def end(self, site: Site) -> None:
        site.machines[self.node].exporter.begin()


class ExporterPaused(_ExporterAway):
    """An exporter is stopped (SIGSTOP) and goes on: it accepts connections, and says nothing."""

    name = "exporter-paused"

    def begin(self, site: Site) -> None:
        site.machines[self.node].exporter.pause()

    def end(self, site: Site) -> None:
        site.machines[self.node].exporter.resume()


class ReaderKilled(OnMachine):
    """The exporter's child, which reads NVML, is killed (kill -9): the exporter has to replace it by itself."""

    name = "nvml-child-killed"
    lasts = (5.0, 8.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}), replaces=frozenset({node}))
        self._killed: list[int] = []

    def begin(self, site: Site) -> None:
        self._killed = site.machines[self.node].exporter.children()
        for pid in self._killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def in_force(self, site: Site) -> bool | None:
        left = site.machines[self.node].exporter.children()
        return bool(self._killed) and not set(self._killed) & set(left)

    def end(self, site: Site) -> None:
        """It has come back by itself, or a promise is broken."""


class ReaderPaused(OnMachine):
    """The exporter's child, which reads NVML, is stopped (SIGSTOP): the exporter has to replace it by itself."""

    name = "nvml-child-paused"
    lasts = (12.0, 18.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}), replaces=frozenset({node}))
        self._stopped: list[int] = []
        self._took = False

    def begin(self, site: Site) -> None:
        self._stopped = site.machines[self.node].exporter.children()
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        # The kernel stops a process when it runs next, which may be a moment after it was told to.
        deadline = time.monotonic() + _UNTIL_IT_STANDS
        self._took = False
        while not self._took and time.monotonic() < deadline:
            self._took = any(probes.stopped(pid) for pid in self._stopped)
            time.sleep(_BETWEEN_LOOKS)

    def in_force(self, site: Site) -> bool | None:  # noqa: ARG002 - by then it was replaced
        return self._took

    def end(self, site: Site) -> None:
        # One that was replaced is gone; one that was not goes on, and its promise is broken.
        for pid in set(self._stopped) & set(site.machines[self.node].exporter.children()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class _OnAlerter(Fault):
    """A fault of whichever alerter leads or follows when it begins."""

    touches = frozenset({"alerters"})

    def __init__(self) -> None:
        self.replica = ""

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - who it is shows when it begins
        return cls()

    def _find(self, site: Site) -> str:
        leader = site.leader()
        name = "a" if leader is None else leader.name
        self.replica = name if self.hands_over else next(other for other in REPLICAS if other != name)
        self.effects = Effects(
            halts=self.effects.halts | {self.replica}, silences=frozenset({f"alerter-{self.replica}"})
        )
        return self.replica

    def in_force(self, site: Site) -> bool | None:
        return site.replicas[self.replica].program.in_force()

    @property
    def what(self) -> str:
        return f"alerter {self.replica}"


class LeaderKilled(_OnAlerter):
    """The alerter that evaluates is killed (kill -9); the other has to take over."""

    name = "leader-killed"
    hands_over = True
    effects = Effects(halts=frozenset({"evaluation"}))

    def begin(self, site: Site) -> None:
        site.replicas[self._find(site)].program.kill()

    def end(self, site: Site) -> None:
        site.replicas[self.replica].program.begin()


class FollowerKilled(LeaderKilled):
    """The alerter that does not evaluate is killed (kill -9)."""

    name = "follower-killed"
    hands_over = False
    effects = Effects()


class LeaderPaused(_OnAlerter):
    """The alerter that evaluates is stopped (SIGSTOP) before a pass commits, for longer than its lease, and goes on: it
    must not commit.
    """

    name = "leader-paused"
    hands_over = True
    effects = Effects(halts=frozenset({"evaluation"}))
    lasts = LONGER_THAN_A_LEASE

    def outlasts(self, time_scale: float) -> float:
        return super().outlasts(time_scale) + (UNTIL_A_PASS if self.hands_over else 0.0)

    def begin(self, site: Site) -> None:
        program = site.replicas[self._find(site)].program
        try:
            with site.database.passes(self.replica) as in_a_pass:
                caught = stopped_while(program, in_a_pass)
        except psycopg.Error:  # a database that is away has no pass
            caught = False
        if caught:
            self.effects = replace(self.effects, interrupts=frozenset({self.replica}))
        elif not program.paused:  # as it may be where nobody could be asked any more
            program.pause()

    def end(self, site: Site) -> None:
        program = site.replicas[self.replica].program
        before = len(program.log())
        program.resume()
        deadline = time.monotonic() + (_UNTIL_IT_SAYS_SO if self.effects.interrupts else 0.0)
        while time.monotonic() < deadline:
            if "pass failed: " in program.log()[before:]:
                self.effects = replace(self.effects, refused=frozenset({self.replica}))
                break
            time.sleep(0.1)


class FollowerPaused(LeaderPaused):
    """The alerter that does not evaluate is stopped (SIGSTOP), and goes on."""

    name = "follower-paused"
    hands_over = False
    effects = Effects()

    def begin(self, site: Site) -> None:
        site.replicas[self._find(site)].program.pause()

    def end(self, site: Site) -> None:
        site.replicas[self.replica].program.resume()


def stopped_while(program: Program, working: Callable[[], bool], patience: float = UNTIL_A_PASS) -> bool:
    """Whether it could be stopped while `working` said so, and said so still when it stood; where not, it goes on."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if not working():
            time.sleep(_BETWEEN_LOOKS)
            continue
        program.pause()
        if working():
            return True
        program.resume()  # it was done in between
    return False


class BothAlertersKilled(Fault):
    """Both alerters are killed (kill -9): for a while nobody evaluates."""

    name = "alerters-killed"
    touches = frozenset({"alerters"})
    effects = Effects(
        halts=frozenset({"evaluation", *REPLICAS}), silences=frozenset(f"alerter-{replica}" for replica in REPLICAS)
    )

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        for replica in site.replicas.values():
            replica.program.kill()

    def in_force(self, site: Site) -> bool | None:
        return all(replica.program.in_force() for replica in site.replicas.values())

    def end(self, site: Site) -> None:
        for replica in site.replicas.values():
            replica.program.begin()


class BothAlertersPaused(BothAlertersKilled):
    """Both alerters are stopped (SIGSTOP) for longer than a lease, and go on: who has none by then commits nothing."""

    name = "alerters-paused"
    lasts = LONGER_THAN_A_LEASE

    def begin(self, site: Site) -> None:
        for replica in site.replicas.values():
            replica.program.pause()

    def end(self, site: Site) -> None:
        for replica in site.replicas.values():
            replica.program.resume()


PROCESSES = (
    ExporterKilled,
    ExporterPaused,
    ReaderKilled,
    ReaderPaused,
    LeaderKilled,
    FollowerKilled,
    LeaderPaused,
    FollowerPaused,
    BothAlertersKilled,
    BothAlertersPaused,
)
