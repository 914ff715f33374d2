"""Clocks that are stepped forward and back."""

from __future__ import annotations

import random
import time
from typing import ClassVar, Self

from .. import probes
from ..happened import Effects
from ..site import Site
from .base import Fault
from .processes import REPLICAS, OnMachine

_STEP = 300.0
"""Wall seconds; hours of accelerated time."""


def stepped(url: str, step: float) -> bool | None:
    """Whether the clock of the server of this URL is off by `step` seconds; None where it does not answer."""
    shown = probes.clock(url)
    return None if shown is None else abs(shown - time.time() - step) < _STEP / 10


class NodeClockForward(OnMachine):
    """A GPU node's clock jumps five minutes ahead, and is put right when it is over."""

    name = "node-clock-forward"
    step: ClassVar[float] = _STEP

    def __init__(self, node: str) -> None:
        super().__init__(node)
        # Counters go on by a clock that nobody sets. But when processes began is told by the wrong one: rules may wait.
        self.effects = Effects(blinds=frozenset({node}))

    def begin(self, site: Site) -> None:
        site.machines[self.node].step_clock(self.step)

    def in_force(self, site: Site) -> bool | None:
        return stepped(f"{site.machines[self.node].url}/-/healthy", self.step)

    def end(self, site: Site) -> None:
        site.machines[self.node].step_clock(-self.step)


class NodeClockBack(NodeClockForward):
    """A GPU node's clock jumps five minutes back, and is put right when it is over."""

    name = "node-clock-back"
    step = -_STEP


class AlerterClockForward(Fault):
    """An alerter's clock jumps five minutes ahead, and is put right when it is over."""

    name = "alerter-clock-forward"
    step: ClassVar[float] = _STEP

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self.effects = Effects(skews=self.step)
        self.touches = frozenset({f"clock-{replica}"})

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(REPLICAS))

    def begin(self, site: Site) -> None:
        site.replicas[self._replica].clock.step(self.step)

    def in_force(self, site: Site) -> bool | None:
        return stepped(site.replicas[self._replica].addresses.url("/-/healthy"), self.step)

    def end(self, site: Site) -> None:
        site.replicas[self._replica].clock.step(-self.step)


class AlerterClockBack(AlerterClockForward):
    """An alerter's clock jumps five minutes back, and is put right when it is over."""

    name = "alerter-clock-back"
    step = -_STEP


CLOCKS = (NodeClockForward, NodeClockBack, AlerterClockForward, AlerterClockBack)
