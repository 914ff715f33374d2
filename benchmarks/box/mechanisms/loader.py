"""Workers that load batches into a bounded queue, as a data loader has them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .track import Floats


@dataclass(frozen=True)
class Loader:
    """`workers` a rank take batches in turn, each into its own `prefetch` places; batches are handed out in order.

    A batch takes `decode` seconds of a core and `read` seconds of waiting for storage, each lognormal with `sigma`. Of
    what was read in the first epoch of `epoch` batches, `cached` comes from the page cache afterwards. Storage stands
    still for `stall` seconds each `stall_every` seconds on average, for all ranks at once.
    """

    workers: int
    prefetch: int
    decode: float
    read: float
    sigma: float
    epoch: int = 2**62
    cached: float = 0.0
    stall: float = 0.0
    stall_every: float = math.inf

    @property
    def places(self) -> int:
        return self.workers * self.prefetch


@dataclass(frozen=True)
class Times:
    """Seconds by rank and batch."""

    decode: Floats
    read: Floats


def times(loader: Loader, ranks: int, steps: int, crowding: float, draw: np.random.Generator) -> Times:
    """What each batch takes. `crowding`: how many workers there are for each core, where that is over one."""
    shape = (ranks, steps)
    # Mean 1 whatever sigma is.
    bell = draw.standard_normal((2, *shape)) * loader.sigma - loader.sigma**2 / 2
    decode, read = np.exp(bell)
    decode *= loader.decode * max(1.0, crowding)
    read *= loader.read
    if loader.epoch < steps:
        read[:, loader.epoch :] *= 1 - loader.cached
    return Times(decode, read)


def overload(tasks: int, runs: float, cores: float) -> float:
    """How much of the time more of `tasks` want to run than there are cores, each running for a share of the time."""
    mean, spread = tasks * runs, math.sqrt(max(1e-9, tasks * runs * (1 - runs)))
    return 0.5 * (1 - math.erf((cores + 0.5 - mean) / (spread * math.sqrt(2))))


def somebody_waits(workers: int, waits: float) -> float:
    """How much of the time at least one of `workers` waits, each for a share of the time (PSI's `some`)."""
    return 1 - (1 - min(1.0, waits)) ** workers
