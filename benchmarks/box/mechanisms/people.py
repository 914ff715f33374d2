"""Notebooks and shells: somebody runs a cell, looks at what came of it, thinks, and goes to lunch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.fakes.cgroup import Use

from .scene import EMPTY, GIB, Held, Kernels, Program, Scene, Stretch, still
from .track import Track, code


@dataclass(frozen=True)
class Notebook:
    """Cells of `cell` seconds on average (exponential), in which kernels are resident for `level`, and after each a
    think time of at least `think` seconds with a Pareto tail of `tail`. After `leaves` of the time the person goes, and
    the kernel stays, with `left_cores` busy for what it still does: a progress bar, a thread that polls. `context`: the
    notebook holds the GPU while nobody computes; a shell does not.
    """

    cell: float
    level: float
    think: float
    tail: float
    leaves: float
    context: float
    memory: float
    cores: float
    left_cores: float
    power: float
    sm: float
    tensor: float
    dram: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        there = min(scene.length, scene.length * self.leaves)
        work = Kernels(self.power, self.sm, self.tensor, self.dram)
        held = Held(work, self.memory)
        found = []
        if there > 0:
            bursts = self._bursts(scene, there)
            use = Use(min(self.cores, scene.cpu_limit), 0.01, 0.0, 4 * GIB)
            # One person uses one GPU at a time: the others are for later.
            found.append(Stretch((bursts,) * scene.gpus, (held,) * scene.gpus, (use,) * scene.nodes))
        if scene.length - there > 1e-6:
            stays = held if self.context >= 0.5 else EMPTY
            gone = ("idle notebook",) if self.context >= 0.5 else ("no process",)
            blame = {"person": gone}
            use = Use(min(self.left_cores, scene.cpu_limit), memory=3 * GIB)
            found.append(still(scene, scene.length - there, "person", stays, use=use, blame=blame))
        return found

    def _bursts(self, scene: Scene, length: float) -> Track:
        shortest = min(self.think, 30.0)
        count = int(length / shortest) + 2
        thinks = self.think * (1 + scene.draw.pareto(self.tail, count))
        cells = scene.draw.exponential(self.cell, count)
        seconds = np.stack([thinks, cells], axis=1).ravel()
        doing = np.tile(np.array([code("person"), code("computing")], np.int8), count)
        return Track(seconds, doing, np.tile(np.array([0.0, self.level]), count)).cut(length)[0]


@dataclass(frozen=True)
class Server(Program):
    """A model that answers requests: they come at random, `rate` a second on average, more by day than by night
    (`rhythm`, over `day` seconds), and take `answer` seconds each. Those that wait are answered one after the other.
    """

    rate: float
    rhythm: float
    day: float
    answer: float
    cores: float

    def play(self, scene: Scene) -> Sequence[Stretch]:
        began = self.begun(scene, Use(1.0, 0.05, 0.0, GIB))
        left = scene.length - began.seconds
        if left <= 0:
            return [began]
        requests = self._requests(scene, left)
        use = Use(min(self.cores, scene.cpu_limit), 0.0, 0.0, 6 * GIB)
        return [began, Stretch((requests,) * scene.gpus, (self.held,) * scene.gpus, (use,) * scene.nodes)]

    def _requests(self, scene: Scene, length: float) -> Track:
        draw = scene.draw
        highest = self.rate * (1 + self.rhythm)
        at = np.sort(draw.uniform(0, length, draw.poisson(highest * length)))
        phase = draw.uniform(0, 2 * np.pi)
        wanted = self.rate * (1 + self.rhythm * np.sin(2 * np.pi * at / self.day + phase))
        at = at[draw.uniform(0, highest, len(at)) < wanted]
        if not len(at):
            return Track(np.array([length]), np.array([code("request")], np.int8), np.zeros(1))
        took = draw.exponential(self.answer, len(at))
        # Lindley's recurrence: an answer ends its own time after it came, or after the one before it.
        passed = np.cumsum(took)
        ends = passed + np.maximum.accumulate(at - passed + took)
        begins = ends - took
        waits = np.maximum(0.0, begins - np.concatenate(([0.0], ends[:-1])))
        seconds = np.append(np.stack([waits, took], axis=1).ravel(), max(1e-9, length - float(ends[-1])))
        doing = np.append(np.tile(np.array([code("request"), code("computing")], np.int8), len(at)), code("request"))
        level = np.append(np.tile(np.array([0.0, 1.0]), len(at)), 0.0)
        kept = seconds > 0
        return Track(seconds[kept], doing[kept].astype(np.int8), level[kept]).cut(length)[0]
