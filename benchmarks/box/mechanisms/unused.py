"""GPUs on which little or nothing ever runs: nobody started anything, it died, it computes on CPUs, too many were asked
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fakes.cgroup import Use

from .scene import EMPTY, GIB, Held, Kernels, Scene, Stretch, still
from .track import steady
from .training import Training

_AT_REST = Kernels(0.3, 0.5, 0.1, 0.2)


@dataclass(frozen=True)
class NoProcess:
    """An allocation in which nothing is ever started."""

    def play(self, scene: Scene) -> Sequence[Stretch]:
        return [still(scene, scene.length, "nothing")]


@dataclass(frozen=True)
class CpuOnly:
    """Code that computes with `cores` CPU cores. `context`: it holds the GPU all the same, with `memory` GiB."""

    cores: float
    context: float
    memory: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        holds = self.context >= 0.5
        held = Held(_AT_REST, self.memory) if holds else EMPTY
        use = Use(min(self.cores, scene.cpu_limit), 0.02, 0.01, 6 * GIB)
        # Without a context on the GPU both are true: there is no process on it, and the code is CPU-only.
        causes = ("CPU-only code",) if holds else ("CPU-only code", "no process")
        return [still(scene, scene.length, "nothing", held, use=use, blame={"nothing": causes})]


@dataclass(frozen=True)
class Died(Training):
    """Training whose process ends after `lives` of its time, by an error that nobody sees; the job hangs around."""

    lives: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        lived = scene.length * self.lives
        return [*super().play(scene.lasting(lived)), still(scene, scene.length - lived, "nothing")]


@dataclass(frozen=True)
class Deadlock(Training):
    """Training that stands still for good after `lives` of its time: everybody waits on the host for somebody, and the
    processes hold their memory. Each keeps `spins` cores busy: hardly any where it sleeps, a whole one where it polls.
    """

    lives: float
    spins: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        lived = scene.length * self.lives
        held = Held(_AT_REST, self.memory)
        use = Use(min(scene.cpu_limit, self.spins * scene.gpus / scene.nodes), memory=8 * GIB)
        return [*super().play(scene.lasting(lived)), still(scene, scene.length - lived, "hang", held, use=use)]


@dataclass(frozen=True)
class OverRequest(Training):
    """Training on `used` of the GPUs (a share, one at least and not all); on the others nothing runs."""

    used: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        count = min(scene.gpus - 1, max(1, round(self.used * scene.gpus)))
        trained = super().play(replace(scene, places=scene.places[:count]))
        spare = scene.gpus - count
        rest = Use(0.02, memory=GIB)
        return [
            replace(
                stretch,
                tracks=stretch.tracks + (steady(stretch.seconds, "nothing", 0.0),) * spare,
                held=stretch.held + (EMPTY,) * spare,
                hosts=stretch.hosts + (rest,) * (scene.nodes - len(stretch.hosts)),
                blame={**stretch.blame, "nothing": ("over-request",)},
            )
            for stretch in trained
        ]
