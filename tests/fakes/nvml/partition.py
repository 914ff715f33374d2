"""MIG: what the profiles of a model are, and the instances into which a GPU is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import layout
from .counters import Profile as Profiling
from .models import MIB, Model, bar1
from .timeline import Timeline

_PROFILE = re.compile(r"([1-7])g\.(\d+)gb(\+me)?")
_MEMORY_SLICES = 8
_COMPUTE_SLICES = 7
_FIRST_ID = {7: 0, 4: 1, 3: 1, 2: 3, 1: 7}
"""The GPU instance ids that drivers give out, by slices."""

NO_TRAFFIC = [layout.NOT_AVAILABLE_U64] * len(layout.TRAFFIC)
"""Links are the GPU's, not its instances'."""


@dataclass(frozen=True)
class Profile:
    """A size of instance, as 1g.10gb. Memory in bytes."""

    name: str
    slices: int
    memory_slices: int
    multiprocessors: int
    share: float
    """Of the GPU's multiprocessors."""

    memory: int


def profile(model: Model, name: str) -> Profile:
    """A profile by its name; ValueError where the model has none such."""
    match = _PROFILE.fullmatch(name)
    multiprocessors = dict(model.mig_multiprocessors)
    if match is None or int(match[1]) not in multiprocessors:
        raise ValueError(f"{model.name} has no MIG profile {name}")
    slices = int(match[1])
    memory_slices = round(int(match[2]) * 2**30 * _MEMORY_SLICES / model.memory)
    if not 1 <= memory_slices <= _MEMORY_SLICES:
        raise ValueError(f"{model.name} has no MIG profile {name}")
    memory = (model.memory - model.reserved) // _MEMORY_SLICES // MIB * MIB * memory_slices
    whole = multiprocessors[_COMPUTE_SLICES]
    return Profile(name, slices, memory_slices, multiprocessors[slices], multiprocessors[slices] / whole, memory)


class Instance:
    """A GPU instance with the one compute instance that fills it, in a place of its GPU."""

    def __init__(
        self, cut: Profile, *, uuid: str, generation: int, gpu_instance: int, time_scale: float, start_us: int
    ) -> None:
        self.profile = cut
        self.uuid = uuid
        self.gpu_instance = gpu_instance
        self.timeline = Timeline(time_scale)
        self.profiling = Profiling(start_us)
        self._generation = generation

    def end(self, now_us: int) -> None:
        """Ends all that still runs here."""
        for run in self.timeline.runs:
            if run.end_us is None or run.end_us > now_us:
                run.end_us = now_us

    def describe(self, block: layout.Instance, model: Model) -> None:
        cut = self.profile
        block.uuid = self.uuid.encode()
        block.profile = cut.name.encode()
        block.present = 1
        block.generation = self._generation
        block.gpu_instance = self.gpu_instance
        block.compute_instance = 0
        block.multiprocessors = cut.multiprocessors
        block.gpu_slices = block.compute_slices = cut.slices
        block.copy_engines = cut.slices
        block.decoders = cut.slices // 2
        block.jpegs = block.ofas = int(cut.name.endswith("+me") or cut.slices == _COMPUTE_SLICES)
        block.memory_total = cut.memory
        block.memory_reserved = 16 * MIB * cut.memory_slices
        block.bar1_total = bar1(model) // _MEMORY_SLICES * cut.memory_slices
        self.profiling.write(block.gpm, NO_TRAFFIC)

    def advance(self, block: layout.Instance, since_us: int, now_us: int, memory_used: int) -> None:
        """Brings the counters up to now."""
        shares = [(run, busy, 1.0) for run, busy in self.timeline.busy_by_run(since_us, now_us)]
        self.profiling.advance(shares, now_us)
        self.profiling.write(block.gpm, NO_TRAFFIC)
        block.memory_used = min(memory_used, block.memory_total - block.memory_reserved)


def cuts(model: Model, names: Sequence[str | None]) -> dict[int, Profile]:
    """Profiles by place, None leaving a hole; ValueError where they do not fit on a GPU together."""
    found = {place: profile(model, name) for place, name in enumerate(names) if name is not None}
    if (
        len(names) > layout.MAX_INSTANCES
        or sum(cut.slices for cut in found.values()) > _COMPUTE_SLICES
        or sum(cut.memory_slices for cut in found.values()) > _MEMORY_SLICES
    ):
        raise ValueError(f"{list(names)} do not fit on {model.name}")
    return found


def free_id(cut: Profile, taken: set[int]) -> int:
    """The GPU instance id of a new instance."""
    number = _FIRST_ID[cut.slices]
    while number in taken:
        number += 1
    return number
