"""From a job to its course and the truth about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.box.model import Job, Phase, Simulated, Truth
from tests.fakes.nvml import Load
from tests.fakes.nvml.timeline import GpuProcess

from . import registry
from .scene import GIB, Held, Scene, Stretch
from .track import Exact, Track, code, spent_by_name
from .truth import conditions
from .waste import wasted
from .worked import worked


def simulate(job: Job) -> Simulated:
    """The same for the same job at every time."""
    stretches = play(job)
    course, at, patterns = [], 0.0, {}
    for stretch in stretches:
        loads = tuple(
            _load(held, _pattern(one, patterns), rank)
            for rank, (held, one) in enumerate(zip(stretch.held, stretch.tracks, strict=True))
        )
        course.append(Phase(at, loads, stretch.hosts, stretch.link_bytes))
        at += stretch.seconds
    return Simulated(tuple(course), truth(job, stretches))


def play(job: Job) -> Sequence[Stretch]:
    """What the job's mechanism does from its beginning to its end."""
    places = tuple(job.nodes.index(node) for node, _ in job.gpus)
    scene = Scene(places, job.end - job.start, job.cpu_limit, np.random.default_rng(job.seed))
    return [stretch for stretch in registry.build(job.parameters).play(scene) if stretch.seconds > 0]


def truth(job: Job, stretches: Sequence[Stretch]) -> Truth:
    """What the GPUs did, and what was wrong with that."""
    spent = np.sum([stretch.spent for stretch in stretches], axis=0)
    resident = np.sum([stretch.resident for stretch in stretches], axis=0)
    # Tiny steps are one piece: what of it is resident is computing, and the rest waits for a launch.
    launched = resident[code("launch")]
    spent[code("launch")] -= launched
    spent[code("computing")] += launched
    return Truth(
        spent=spent_by_name(spent),
        busy=float(resident.sum()),
        conditions=conditions(job, stretches),
        wasted=wasted(stretches, job.partition),
        worked=worked(stretches),
    )


def _pattern(one: Track, known: dict[int, Exact]) -> Exact:
    """GPUs that do the same share it."""
    if id(one) not in known:
        known[id(one)] = Exact(one)
    return known[id(one)]


def _load(held: Held, pattern: Exact, rank: int) -> Load:
    """A process stands for one of the job's: whoever plays the course gives it a pid of its own."""
    if held.kernels is None:
        return Load(pattern)
    return Load(
        pattern,
        (GpuProcess(rank + 1, round(held.memory * GIB)),),
        power_factor=held.kernels.power,
        memory_activity=held.kernels.dram,
        memory_growth=held.growth,
        activity={"sm": held.kernels.sm, "tensor": held.kernels.tensor, "dram": held.kernels.dram},
    )
