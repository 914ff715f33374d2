"""GPUs that are busy without doing much: tiny steps, kernels held up by memory, ones that only look busy, a hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fakes.cgroup import Use

from .scene import GIB, Held, Kernels, Program, Scene, Stretch, still
from .training import Training

_STARTING = Use(1.5, 0.02, 0.0, 4 * GIB)


@dataclass(frozen=True)
class TinySteps(Program):
    """Steps of `kernels` milliseconds on the GPU and `launch` milliseconds of Python that launches them: the GPU waits
    for launches, in gaps that no sample shows.
    """

    kernels: float
    launch: float
    main: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        began = () if scene.begun else (self.begun(scene, _STARTING),)
        left = scene.length - sum(stretch.seconds for stretch in began)
        level = self.kernels / (self.kernels + self.launch)
        use = Use(min(scene.cpu_limit, self.main * scene.gpus / scene.nodes), 0.01, 0.01, 6 * GIB)
        step = (self.kernels + self.launch) / 1000
        return [*began, still(scene, left, "launch", self.held, level=level, use=use, step=step)] if left > 0 else began


@dataclass(frozen=True)
class BusyKernels(Program):
    """Kernels one after the other that use few of the GPU's units. `memory_bound` says what holds them up: the memory
    bus, or that they are too small. `link` is what a GPU's links carry, in MB/s.
    """

    resident: float
    memory_bound: float
    link: float
    main: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        began = () if scene.begun else (self.begun(scene, _STARTING),)
        left = scene.length - sum(stretch.seconds for stretch in began)
        use = Use(min(scene.cpu_limit, self.main * scene.gpus / scene.nodes), 0.01, 0.01, 6 * GIB)
        cause = "memory-bound" if self.memory_bound >= 0.5 else "small work per step"
        stretch = still(
            scene,
            left,
            "computing",
            self.held,
            level=self.resident,
            use=use,
            blame={"computing": (cause,)},
            link_bytes=self.link * 1e6,
        )
        return [*began, stretch] if left > 0 else began


@dataclass(frozen=True)
class KeepAlive:
    """A process that runs a tiny kernel again and again so that its GPUs look busy, and does no work."""

    level: float
    memory: float
    power: float
    sm: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        held = Held(Kernels(self.power, self.sm, 0.0, 0.003), self.memory)
        use = Use(0.3, memory=2 * GIB)
        blame = {"nothing": ("small work per step",)}
        return [still(scene, scene.length, "nothing", held, level=self.level, use=use, blame=blame, link_bytes=2e5)]


@dataclass(frozen=True)
class Hang(Training):
    """Training whose collective never returns after `lives` of its time: all ranks spin, at hardly more than idle
    power, and the links are silent. `gives_up` seconds later the process is ended, as NCCL's watchdog does. What its
    kernels do meanwhile depends on the collective: few blocks that poll or many, in registers or in memory.
    """

    lives: float
    gives_up: float
    hung_power: float
    hung_sm: float
    hung_dram: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        lived = scene.length * self.lives
        hung = min(self.gives_up, scene.length - lived)
        held = Held(Kernels(self.hung_power, self.hung_sm, 0.0, self.hung_dram), self.memory)
        use = Use(min(scene.cpu_limit, scene.gpus / scene.nodes), memory=8 * GIB)
        stood = still(scene, hung, "hang", held, level=1.0, use=use, link_bytes=1e4)
        left = scene.length - lived - hung
        gone = [still(scene, left, "nothing")] if left > 0 else []
        return [*super().play(scene.lasting(lived)), stood, *gone]
