"""Exact figures of a job over windows: integrals of its course at a grid of instants, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import Exact, Floats, Track
from tests.fakes.nvml import SAMPLE_PERIOD

GRID = 30.0
"""Seconds between the instants."""

IDLE_SAMPLE = 0.05
"""An idle gap is a run of a driver's samples of at most 5 %."""

LONGEST_STALL = 30.0


@dataclass(frozen=True)
class Figures:
    """Integrals from the job's beginning to each instant `at`: by GPU and instant, or by node and instant."""

    at: Floats
    busy: Floats
    gaps: Floats
    """Seconds in idle gaps of up to 30 s, as samples show them."""

    energy: Floats
    """Of the way from idle power to the limit, times seconds."""

    sm: Floats
    cores: Floats
    """As a share of the limit, times seconds."""

    io: Floats
    cpu: Floats

    def window(self, integral: Floats, length: float) -> Floats:
        """Means over the windows that end at each instant from `length` on."""
        steps = round(length / GRID)
        return (integral[:, steps:] - integral[:, : integral.shape[1] - steps]) / length

    def ends(self, length: float) -> Floats:
        """When these windows end."""
        return self.at[round(length / GRID) :]


def figures(stretches: Sequence[Stretch], cpu_limit: float, sample: float = SAMPLE_PERIOD) -> Figures:
    """Of a job that consists of these stretches; `cpu_limit` is in cores on each node, `sample` the sample period of
    its GPUs' driver.
    """
    bounds = np.concatenate(([0.0], np.cumsum([stretch.seconds for stretch in stretches])))
    at = np.arange(0.0, bounds[-1] + 1e-6, GRID)
    gpus, nodes = len(stretches[0].tracks), len(stretches[0].hosts)
    sums = {name: np.zeros((gpus, len(at))) for name in ("busy", "energy", "sm")}
    hosts = {name: np.zeros((nodes, len(at))) for name in ("cores", "io", "cpu")}
    for stretch, start, end in zip(stretches, bounds, bounds[1:], strict=False):
        passed = np.clip(at, start, end) - start
        known: dict[int, Floats] = {}
        for gpu, (one, held) in enumerate(zip(stretch.tracks, stretch.held, strict=True)):
            if id(one) not in known:
                known[id(one)] = np.asarray(Exact(one).busy(passed))
            busy = known[id(one)]
            sums["busy"][gpu] += busy
            if held.kernels is not None:
                sums["energy"][gpu] += busy * held.kernels.power
                sums["sm"][gpu] += busy * held.kernels.sm
        for node, use in enumerate(stretch.hosts):
            hosts["cores"][node] += passed * use.cpu_cores / cpu_limit
            hosts["io"][node] += passed * use.io_pressure
            hosts["cpu"][node] += passed * use.cpu_pressure
    return Figures(at, gaps=_gaps(stretches, at, sample), **sums, **hosts)


def _gaps(stretches: Sequence[Stretch], at: Floats, sample: float) -> Floats:
    known: dict[tuple[int, ...], Floats] = {}
    rows = []
    for gpu in range(len(stretches[0].tracks)):
        parts = tuple(id(stretch.tracks[gpu]) for stretch in stretches)
        if parts not in known:
            known[parts] = _gaps_of([stretch.tracks[gpu] for stretch in stretches], at, sample)
        rows.append(known[parts])
    return np.array(rows)


def _gaps_of(tracks: Sequence[Track], at: Floats, sample: float) -> Floats:
    """Seconds in short idle gaps of one GPU up to each instant."""
    whole = Track(
        np.concatenate([one.seconds for one in tracks]),
        np.concatenate([one.doing for one in tracks]),
        np.concatenate([one.level for one in tracks]),
    )
    edges = np.arange(0.0, whole.length, sample)
    idle = np.diff(np.asarray(Exact(whole).busy(edges))) <= IDLE_SAMPLE * sample
    turns = np.flatnonzero(np.diff(np.concatenate(([0], idle.astype(np.int8), [0]))))
    begins, ends = turns[::2], turns[1::2]
    short = (ends - begins) * sample < LONGEST_STALL
    marks = np.zeros(len(idle) + 1)
    np.add.at(marks, begins[short], 1.0)
    np.add.at(marks, ends[short], -1.0)
    seconds = np.concatenate(([0.0], np.cumsum(np.cumsum(marks)[:-1]) * sample))
    return np.interp(at, edges[: len(seconds)], seconds[: len(edges)])
