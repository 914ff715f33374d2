"""How long a job's GPUs were busy by each instant of its life."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .scene import Stretch
from .track import Exact, Floats

GRID = 30.0
"""Seconds between the instants."""


def worked(stretches: Sequence[Stretch]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Instants from the job's beginning to its end, and the GPU-seconds with a kernel resident up to each."""
    bounds = np.concatenate(([0.0], np.cumsum([stretch.seconds for stretch in stretches])))
    at = np.append(np.arange(0.0, bounds[-1], GRID), bounds[-1])
    busy = np.zeros_like(at)
    for stretch, start, end in zip(stretches, bounds, bounds[1:], strict=False):
        passed = np.clip(at, start, end) - start
        known: dict[int, Floats] = {}
        for one in stretch.tracks:
            if id(one) not in known:
                known[id(one)] = np.asarray(Exact(one).busy(passed))
            busy += known[id(one)]
    return tuple(at.tolist()), tuple(busy.tolist())
