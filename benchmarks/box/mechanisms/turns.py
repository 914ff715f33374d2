"""Two mechanisms in one job, one after the other: one that recovers, one that breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .scene import Mechanism, Scene, Stretch


@dataclass(frozen=True)
class InTurn:
    """`first` until `turn` of the job's time has passed, then `second`."""

    first: Mechanism
    second: Mechanism
    turn: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        until = scene.length * self.turn
        began = self.first.play(scene.lasting(until))
        begun = any(held.kernels is not None for stretch in began for held in stretch.held)
        rest = replace(scene, length=scene.length - until, begun=begun)
        return [*began, *self.second.play(rest)]
