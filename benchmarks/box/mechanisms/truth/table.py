"""DESIGN's table of rules on jobs, on exact figures: where a rule holds clearly, and where it nearly does.

Between the two lies what measuring may blur: samples of whole percents, scrapes that do not end with a window, gaps
that are credited when they end. What holds clearly must be told, what holds nearly may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.box.rules import WINDOW

from .figures import Figures, Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Bounds:
    """The table's bounds, moved by a margin: inwards for what is clear, outwards for what is near."""

    idle: float
    busiest: float
    stalled_from: float
    stalled_to: float
    gaps: float
    cores: float
    pressure: float
    spread: float
    uneven_busiest: float
    low_sm_from: float
    low_sm: float
    underused: float
    spinning: float
    power: float


CLEAR = Bounds(0.003, 0.18, 0.08, 0.66, 0.25, 0.94, 0.25, 0.45, 0.34, 0.54, 0.22, 0.22, 0.975, 0.11)
NEAR = Bounds(0.008, 0.12, 0.03, 0.74, 0.15, 0.86, 0.15, 0.35, 0.26, 0.46, 0.28, 0.28, 0.93, 0.19)


@dataclass(frozen=True)
class Rule:
    """The kinds of job a rule is for, and where it holds over the windows that end at each instant."""

    name: str
    holds: Callable[[Figures, Bounds, float], Flags]
    kinds: tuple[str, ...] = ("batch",)
    several: bool = False
    """Only jobs of several GPUs."""

    @property
    def window(self) -> float:
        return WINDOW[self.name]


def _idle(figures: Figures, bounds: Bounds, window: float) -> Flags:
    return figures.window(figures.busy, window).max(axis=0) <= bounds.idle


def _partially_idle(figures: Figures, bounds: Bounds, window: float) -> Flags:
    use = figures.window(figures.busy, window)
    return (use.min(axis=0) <= bounds.idle) & (use.max(axis=0) >= bounds.busiest)


def _stalled(figures: Figures, bounds: Bounds, window: float) -> Flags:
    use = figures.window(figures.busy, window).mean(axis=0)
    gaps = figures.window(figures.gaps, window).mean(axis=0) >= bounds.gaps
    cores = figures.window(figures.cores, window).max(axis=0) >= bounds.cores
    waits = np.maximum(figures.window(figures.io, window), figures.window(figures.cpu, window)).max(axis=0)
    return (use >= bounds.stalled_from) & (use < bounds.stalled_to) & (gaps | cores | (waits >= bounds.pressure))


def _uneven(figures: Figures, bounds: Bounds, window: float) -> Flags:
    use = figures.window(figures.busy, window)
    most = use.max(axis=0)
    spread = 1 - use.min(axis=0) / np.maximum(most, 1e-9)
    return (spread >= bounds.spread) & (most >= bounds.uneven_busiest)


def _low_sm(figures: Figures, bounds: Bounds, window: float) -> Flags:
    use = figures.window(figures.busy, window)
    active = figures.window(figures.sm, window).sum(axis=0) / np.maximum(use.sum(axis=0), 1e-9)
    return (use.mean(axis=0) >= bounds.low_sm_from) & (active < bounds.low_sm)


def _underused(figures: Figures, bounds: Bounds, window: float) -> Flags:
    return figures.window(figures.busy, window).mean(axis=0) < bounds.underused


def _hung(figures: Figures, bounds: Bounds, window: float) -> Flags:
    use = figures.window(figures.busy, window)
    spins = (use >= bounds.spinning) & (figures.window(figures.energy, window) <= bounds.power)
    return (spins | (use <= bounds.idle)).all(axis=0) & spins.any(axis=0)


RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("hung", _hung),
        Rule("idle", _idle, kinds=("batch", "interactive")),
        Rule("partially_idle", _partially_idle, kinds=("batch", "interactive"), several=True),
        Rule("stalled", _stalled),
        Rule("uneven", _uneven, several=True),
        Rule("low_sm_activity", _low_sm),
        Rule("underused", _underused),
    )
}
"""A serving job is judged by `idle` over 24 hours, and no run is that long."""


def runs(flags: Flags, ends: Floats) -> list[tuple[float, float]]:
    """The first and the last instant of each run in which flags are set."""
    turns = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(float(ends[first]), float(ends[after - 1])) for first, after in zip(turns[::2], turns[1::2], strict=True)]
