"""What a mechanism is given, and what it gives back: stretches of time in which only the busy course varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np

from tests.fakes.cgroup import Use

from .track import Floats, Track, steady

GIB = 2**30

Blame = Mapping[str, tuple[str, ...]]

CAUSES: Blame = MappingProxyType(
    {
        "loader": ("data loading",),
        "collective": ("communication or straggler",),
        "launch": ("small work per step",),
        "checkpoint": ("checkpoint or evaluation pauses",),
        "evaluation": ("checkpoint or evaluation pauses",),
        "person": ("idle notebook",),
        "hang": ("hang",),
        "nothing": ("no process",),
        "computing": ("small work per step",),
    }
)
"""What is to blame where GPUs wait for something, in the alerter's words; computing, where it hardly uses the GPU."""


@dataclass(frozen=True)
class Scene:
    """Where a mechanism plays: `places` has the node (0, 1, ...) of each GPU, `cpu_limit` is each node's."""

    places: tuple[int, ...]
    length: float
    cpu_limit: int
    draw: np.random.Generator
    begun: bool = False
    """The job is past its start-up: another mechanism went before."""

    @property
    def gpus(self) -> int:
        return len(self.places)

    @property
    def nodes(self) -> int:
        return max(self.places) + 1

    def ranks(self, node: int) -> int:
        return self.places.count(node)

    def lasting(self, length: float) -> Scene:
        return replace(self, length=length)


@dataclass(frozen=True)
class Kernels:
    """How hard kernels work a GPU while they are resident, all as shares: power between idle and limit,
    multiprocessors, tensor cores, memory.
    """

    power: float
    sm: float
    tensor: float
    dram: float

    def mixed(self, other: Kernels, share: float) -> Kernels:
        """With `other` for a share of the time."""
        mine = 1 - share
        return Kernels(
            self.power * mine + other.power * share,
            self.sm * mine + other.sm * share,
            self.tensor * mine + other.tensor * share,
            self.dram * mine + other.dram * share,
        )


SPINNING = Kernels(power=0.05, sm=0.09, tensor=0.0, dram=0.004)
"""A collective's kernel that polls for its peers: an idle A100 draws 63-66 W, a hung one about 70."""


@dataclass(frozen=True)
class Held:
    """What a job has on one GPU during a stretch: without kernels it has no process there."""

    kernels: Kernels | None
    memory: float = 0.0
    """GiB."""

    growth: float = 0.0
    """Seconds over which the memory grows from nothing."""


EMPTY = Held(None)


@dataclass(frozen=True)
class Stretch:
    """From its beginning for `seconds`: each GPU's track and what is held there, and what each node's CPUs do.

    `blame` says what is to blame for a wait where it is not what CAUSES says; `step` is the mean step's length.
    """

    tracks: tuple[Track, ...]
    held: tuple[Held, ...]
    hosts: tuple[Use, ...]
    link_bytes: float | None = None
    blame: Blame = field(default_factory=dict)
    step: float | None = None
    for_loader: float = 0.0
    """Of the waits in collectives, the share in which the last to come had waited for its loader."""

    by_design: bool = False
    """GPUs wait as they are meant to: that may be told, and need not be."""

    @cached_property
    def seconds(self) -> float:
        return self.tracks[0].length

    @cached_property
    def spent(self) -> Floats:
        """GPU-seconds by activity, of all its GPUs."""
        return np.sum([one.spent() for one in self.tracks], axis=0)

    @cached_property
    def resident(self) -> Floats:
        """GPU-seconds by activity with a kernel resident."""
        return np.sum([one.resident() for one in self.tracks], axis=0)

    def causes(self, activity: str) -> frozenset[str]:
        """What is to blame for the time in which GPUs did or waited for it."""
        return frozenset({**CAUSES, **self.blame}.get(activity, ()))


class Mechanism(Protocol):
    """Something that goes on in a job; its fields are its physical parameters."""

    def play(self, scene: Scene) -> Sequence[Stretch]:
        """Stretches that together last as long as the scene."""


def still(
    scene: Scene,
    seconds: float,
    activity: str,
    held: Held | Sequence[Held] = EMPTY,
    *,
    level: float = 0.0,
    use: Use | None = None,
    **more: object,
) -> Stretch:
    """All GPUs do the same thing in the same way."""
    each = tuple(held) if isinstance(held, Sequence) else (held,) * scene.gpus
    return Stretch(
        (steady(seconds, activity, level),) * scene.gpus,
        each,
        (use or Use(cpu_cores=0.02, memory=GIB),) * scene.nodes,
        **more,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class Program:
    """What a program on GPUs has whatever it does: `start_up` seconds in which its `memory` (GiB on each GPU) grows,
    and how hard its kernels work a GPU, as `Kernels` says.
    """

    start_up: float
    memory: float
    power: float
    sm: float
    tensor: float
    dram: float

    @property
    def held(self) -> Held:
        return Held(Kernels(self.power, self.sm, self.tensor, self.dram), self.memory)

    def begun(self, scene: Scene, use: Use) -> Stretch:
        """Its start-up, as far as the scene goes."""
        seconds = min(self.start_up, scene.length)
        return still(scene, seconds, "start_up", replace(self.held, growth=seconds), use=use)
