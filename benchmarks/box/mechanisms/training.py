"""A training job: start-up, and then a loop of steps that its loaders feed, or do not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.fakes.cgroup import Use

from . import loop as looping
from .loader import Loader, overload, somebody_waits
from .loop import Loop, Pause, Run
from .scene import CAUSES, GIB, SPINNING, Blame, Held, Kernels, Scene, Stretch, still
from .track import code


@dataclass(frozen=True)
class Training:
    """Whether it is fed follows from rates: `decode_load` and `read_load` are the seconds for which the loaders' cores
    decode, and for which they wait for storage, for each second of compute, workers working side by side. Above 1
    together they starve the GPU.
    """

    compute: float
    jitter: float
    resident: float
    spread: float
    """How far the speeds of ranks lie apart, as a lognormal's sigma."""

    spin: float
    """1: ranks that wait for others spin in a kernel. 0: they wait on the host."""

    workers: float
    prefetch: float
    decode_load: float
    read_load: float
    seen: float
    """Share of the waits for storage that I/O pressure counts: a local disk's all, those for a network few or none."""

    sigma: float
    epoch: float
    """Seconds of an epoch, were it fed."""

    cached: float
    stall: float
    stall_every: float
    host: float
    """Seconds of Python between steps, as a share of compute."""

    checkpoint: float
    checkpoint_every: float
    evaluation: float
    evaluation_every: float
    evaluation_level: float
    evaluation_alone: float
    """1: the first rank evaluates, and all others wait for it."""

    start_up: float
    start_cores: float
    start_io: float
    memory: float
    main: float
    """Cores that a rank's own process keeps busy."""

    power: float
    sm: float
    tensor: float
    dram: float

    blame: ClassVar[Blame] = {}

    def slow(self, scene: Scene) -> tuple[float, ...]:
        """Each rank's factor on the time that it computes."""
        return tuple(np.exp(scene.draw.standard_normal(scene.gpus) * self.spread))

    def play(self, scene: Scene) -> Sequence[Stretch]:
        kernels = Kernels(self.power, self.sm, self.tensor, self.dram)
        began = [] if scene.begun else _started(self, scene)
        left = scene.length - sum(stretch.seconds for stretch in began)
        if left <= 0:
            return began
        loop = self.loop(scene)
        crowding = max((loop.loader.workers + self.main) * scene.ranks(node) for node in range(scene.nodes))
        run = looping.run(loop, left, crowding / scene.cpu_limit, scene.draw)
        return [*began, *self._stretches(scene, loop, run, left, kernels)]

    def blamed(self) -> Blame:
        """Ranks that wait for one that evaluates wait for an evaluation, too."""
        if self.evaluation <= 0 or self.evaluation_alone < 0.5:
            return self.blame
        return {"collective": (*CAUSES["collective"], *CAUSES["evaluation"]), **self.blame}

    def loop(self, scene: Scene) -> Loop:
        """The loop that the parameters stand for."""
        workers = round(self.workers)
        loader = Loader(
            workers,
            round(self.prefetch),
            self.decode_load * workers * self.compute,
            self.read_load * workers * self.compute,
            self.sigma,
            max(1, round(self.epoch / self.compute)),
            self.cached,
            self.stall,
            self.stall_every,
        )
        pauses = (
            Pause(self.checkpoint_every, self.checkpoint),
            Pause(
                self.evaluation_every,
                self.evaluation,
                "evaluation",
                self.evaluation_level,
                alone=self.evaluation_alone >= 0.5,
            ),
        )
        return Loop(
            self.compute,
            self.jitter,
            self.resident,
            self.slow(scene),
            self.spin >= 0.5,
            loader,
            self.host * self.compute,
            pauses=tuple(pause for pause in pauses if pause.seconds > 0),
        )

    def _stretches(self, scene: Scene, loop: Loop, run: Run, length: float, kernels: Kernels) -> list[Stretch]:
        """The first epoch apart from those that find their data in memory."""
        bounds = [0.0, length]
        if loop.loader.cached > 0 and loop.loader.read > 0 and loop.loader.epoch < len(run.ends):
            bounds[1:1] = [float(run.ends[loop.loader.epoch - 1])]
        found, rest = [], run.tracks
        for start, end in itertools.pairwise(bounds):
            if end - start < 1e-6:
                continue
            cuts = [one.cut(end - start) for one in rest]
            tracks, rest = tuple(before for before, _ in cuts), tuple(after for _, after in cuts)
            held = tuple(Held(_worked(one, kernels), self.memory) for one in tracks)
            hosts = tuple(_use(self, scene, node, loop, run, start, end) for node in range(scene.nodes))
            steps = slice(*np.searchsorted(run.ends, (start, end)))
            count, waited = steps.stop - steps.start, float(run.waited[steps].sum())
            found.append(
                Stretch(
                    tracks,
                    held,
                    hosts,
                    blame=self.blamed(),
                    step=(end - start) / count if count else None,
                    for_loader=float(run.for_loader[steps].sum()) / waited if waited > 0 else 0.0,
                )
            )
        return found


def _started(training: Training, scene: Scene) -> list[Stretch]:
    seconds = min(training.start_up, scene.length)
    use = Use(min(training.start_cores, scene.cpu_limit), training.start_io, 0.01, 4 * GIB)
    idle = Kernels(training.power, training.sm, training.tensor, training.dram)
    return [still(scene, seconds, "start_up", Held(idle, training.memory, growth=seconds), use=use)]


def _worked(one: looping.Track, kernels: Kernels) -> Kernels:
    """Kernels that compute and collectives that spin, by the time that each was resident."""
    resident = one.resident()
    total = resident.sum()
    return kernels if total <= 0 else kernels.mixed(SPINNING, float(resident[code("collective")] / total))


def _use(training: Training, scene: Scene, node: int, loop: Loop, run: Run, start: float, end: float) -> Use:
    """What the loaders and the ranks of a node did to its CPUs and storage."""
    steps = slice(*np.searchsorted(run.ends, (start, end)))
    ranks = [rank for rank, place in enumerate(scene.places) if place == node]
    workers = loop.loader.workers * len(ranks)
    seconds = end - start
    crowding = max(1.0, (workers + training.main * len(ranks)) / scene.cpu_limit)
    decoding = float(run.loading.decode[ranks, steps].sum()) / seconds
    reading = float(run.loading.read[ranks, steps].sum()) / seconds / workers * training.seen
    cores = min(scene.cpu_limit, decoding / crowding + training.main * len(ranks))
    stalled = loop.loader.stall / (loop.loader.stall + loop.loader.stall_every) if loop.loader.stall > 0 else 0.0
    stalled *= training.seen
    return Use(
        cpu_cores=cores,
        io_pressure=min(0.99, 1 - (1 - somebody_waits(workers, reading)) * (1 - stalled)),
        cpu_pressure=min(0.99, overload(workers + len(ranks), min(1.0, decoding / workers), scene.cpu_limit)),
        memory=(8 + 2 * workers) * GIB,
    )
