"""Training in which some ranks are slower than others: one GPU, one node, stages of a pipeline cut unevenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .scene import Blame, Scene
from .training import Training


@dataclass(frozen=True)
class SlowRank(Training):
    """One rank takes `slowness` times as long: it has more data, a slower disk, a worse place."""

    slowness: float

    def slow(self, scene: Scene) -> tuple[float, ...]:
        factors = list(super().slow(scene))
        factors[int(scene.draw.integers(scene.gpus))] *= self.slowness
        return tuple(factors)


@dataclass(frozen=True)
class HotRank(SlowRank):
    """One GPU is too hot, and its clocks are held down by the hardware for `thermal` of the time (see the scenario's
    faults), in which it takes `slowness` times as long: the first one, so that the fault is where the straggler is.
    """

    thermal: float

    blame: ClassVar[Blame] = {"collective": ("throttling",)}

    def slow(self, scene: Scene) -> tuple[float, ...]:
        first, *others = Training.slow(self, scene)
        return (first * (1 + self.thermal * (self.slowness - 1)), *others)


@dataclass(frozen=True)
class SlowNode(Training):
    """All ranks of one of several nodes take `slowness` times as long; of one GPU where there is one node only."""

    slowness: float

    def slow(self, scene: Scene) -> tuple[float, ...]:
        slow = int(scene.draw.integers(scene.nodes))
        factors = super().slow(scene)
        return tuple(
            factor * self.slowness if node == slow else factor
            for factor, node in zip(factors, scene.places, strict=True)
        )


@dataclass(frozen=True)
class Pipeline(Training):
    """Stages of a pipeline: the last one has the most work, the first `imbalance` times less; the others wait."""

    imbalance: float

    def slow(self, scene: Scene) -> tuple[float, ...]:
        cut = np.linspace(1 / self.imbalance, 1.0, scene.gpus)
        return tuple(cut * np.array(super().slow(scene)))
