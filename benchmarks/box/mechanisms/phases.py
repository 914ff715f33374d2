"""Jobs that are odd and well: they alternate between CPU and GPU, rest for a while, or consist of several phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.fakes.cgroup import Use

from .scene import GIB, Program, Scene, Stretch, still
from .track import Track, code
from .training import Training


@dataclass(frozen=True)
class Reinforcement(Program):
    """Simulation on CPUs for `simulate` seconds, then an update on the GPU for `update` seconds, and so on."""

    simulate: float
    update: float
    sigma: float
    cores: float
    """As a share of the job's."""

    def play(self, scene: Scene) -> Sequence[Stretch]:
        began = self.begun(scene, Use(1.0, 0.02, 0.0, GIB))
        left = scene.length - began.seconds
        if left <= 0:
            return [began]
        count = int(left / (self.simulate + self.update) * 1.5) + 20
        factors = np.exp(scene.draw.standard_normal((count, 2)) * self.sigma)
        pieces = (factors * np.array([self.simulate, self.update])).ravel()
        short = left - pieces.sum()
        pieces = np.append(pieces, max(short, 1e-6))
        doing = np.append(np.tile(np.array([code("loader"), code("computing")], np.int8), count), code("loader"))
        level = np.append(np.tile(np.array([0.0, 1.0]), count), 0.0)
        one = Track(pieces, doing.astype(np.int8), level).cut(left)[0]
        share = self.simulate / (self.simulate + self.update)
        use = Use(scene.cpu_limit * (self.cores * share + 0.05), 0.01, 0.02, 12 * GIB)
        step = self.simulate + self.update
        held = (self.held,) * scene.gpus
        return [began, Stretch((one,) * scene.gpus, held, (use,) * scene.nodes, step=step, by_design=True)]


@dataclass(frozen=True)
class Rounds(Training):
    """Training in rounds of `work` seconds; between them its GPUs rest for `rest` seconds, until the next part of the
    work is there.
    """

    work: float
    rest: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        found = list(super().play(scene.lasting(min(scene.length, self.start_up + self.work))))
        while (left := scene.length - sum(one.seconds for one in found)) > 1e-6:
            use = Use(0.3, memory=8 * GIB)
            found.append(still(scene, min(left, self.rest), "request", found[-1].held, use=use))
            left -= self.rest
            if left > 1e-6:
                round_ = Scene(scene.places, min(left, self.work), scene.cpu_limit, scene.draw, begun=True)
                found += super().play(round_)
        return found


@dataclass(frozen=True)
class Prepared(Training):
    """Training behind a phase of `prepare` seconds on CPUs alone, in which no process holds a GPU yet, as where data is
    downloaded or unpacked first.
    """

    prepare: float
    prepare_cores: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        seconds = min(self.prepare, scene.length)
        use = Use(min(self.prepare_cores, scene.cpu_limit), 0.15, 0.02, 8 * GIB)
        first = still(scene, seconds, "start_up", use=use)
        if scene.length - seconds <= 1e-6:
            return [first]
        return [first, *super().play(scene.lasting(scene.length - seconds))]
