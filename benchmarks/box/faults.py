"""What happens to GPUs in a run: heat under a job, XIDs that end one, lost GPUs, memory that is left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from .mechanisms import registry
from .model import Fault, Gpu, Job
from .parameters import Faults

GIB = 2**30
SETTLED = 10.0
"""Seconds after a job's end."""


def faults(parameters: Faults, jobs: Sequence[Job], length: float, random: np.random.Generator) -> tuple[Fault, ...]:
    """In the order of their times."""
    found = [*_heat(jobs), *_xids(parameters, jobs, random), *_of_free_gpus(parameters, jobs, length, random)]
    return tuple(sorted(found, key=lambda fault: (fault.at, fault.gpu)))


def _heat(jobs: Sequence[Job]) -> list[Fault]:
    """A job whose first GPU is too hot says so in its own parameters; it is so once it computes."""
    return [
        Fault(job.gpus[0], begin, "thermal", job.parameters["thermal"], job.end)
        for job in jobs
        if "thermal" in job.parameters and (begin := job.start + job.parameters["start_up"]) < job.end
    ]


def _xids(parameters: Faults, jobs: Sequence[Job], random: np.random.Generator) -> list[Fault]:
    """One on a GPU of each of some jobs whose process dies."""
    died = [job for job in jobs if job.parameters.get(registry.MODEL) == registry.place("died")]
    chosen = random.permutation(len(died))[: parameters.xids]
    return [
        Fault(
            died[place].gpus[int(random.integers(len(died[place].gpus)))],
            died[place].start + (died[place].end - died[place].start) * died[place].parameters["lives"],
            "xid",
            parameters.xid.draw(random),
        )
        for place in sorted(chosen)
    ]


def _of_free_gpus(parameters: Faults, jobs: Sequence[Job], length: float, random: np.random.Generator) -> list[Fault]:
    """While nobody has them: from the end of one job to the beginning of the next."""
    shortest = parameters.shortest * 60
    spells = [spell for spell in _spells(jobs, length) if spell[2] - spell[1] >= shortest]
    chosen = [spells[place] for place in random.permutation(len(spells))]
    used: set[Gpu] = set()
    found: list[Fault] = []
    for gpu, start, end in chosen:
        if gpu in used or len(found) == parameters.leaks + parameters.lost:
            continue
        used.add(gpu)
        if len(found) < parameters.leaks:
            found.append(Fault(gpu, start + SETTLED, "leaked", parameters.leak.draw(random) * GIB, end - SETTLED))
        else:
            found.append(Fault(gpu, start + SETTLED, "lost", 0.0, end - SETTLED))
    return found


def _spells(jobs: Sequence[Job], length: float) -> list[tuple[Gpu, float, float]]:
    held = defaultdict(list)
    for job in jobs:
        for gpu in job.gpus:
            held[gpu].append((job.start, job.end))
    found = []
    for gpu, times in sorted(held.items()):
        times.sort()
        starts = [start for start, _ in times[1:]] + [length]
        found += [(gpu, end, start) for (_, end), start in zip(times, starts, strict=True) if start > end]
    return found
