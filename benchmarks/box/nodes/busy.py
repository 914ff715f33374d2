"""How long a pattern keeps a GPU busy, for many instants at once: what `Pattern.busy` says of each, by arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tests.fakes.nvml.patterns import Curve, Level, Pattern, Paused, Piecewise, Steps, Then

from ..mechanisms.track import Exact

Times = NDArray[np.float64]
Busy = Callable[[Times], Times]
"""Busy seconds in [0, t], of the full-length run, for rising t >= 0."""


def compiled(pattern: Pattern) -> Busy:
    """The pattern's integral. One of a kind that is not known here is asked for each instant by itself."""
    if isinstance(pattern, Exact):
        return pattern.busy
    if isinstance(pattern, Level):
        return _level(pattern.fraction)
    if isinstance(pattern, Steps):
        return _steps(pattern)
    if isinstance(pattern, Paused):
        return _paused(pattern)
    if isinstance(pattern, Piecewise):
        return integral(pattern)
    if isinstance(pattern, Then):
        return _then(pattern)
    return lambda times: np.array([pattern.busy(float(t)) for t in times])


def integral(curve: Curve) -> Busy:
    """The integral of a curve from 0."""
    until = np.asarray(curve.until, dtype=np.float64)
    values = np.asarray(curve.values, dtype=np.float64)
    starts = np.concatenate(([0.0], until))
    sums = np.concatenate(([0.0], np.cumsum(np.diff(starts) * values[:-1])))

    def found(times: Times) -> Times:
        piece = np.searchsorted(until, times, side="right")
        return np.asarray(sums[piece] + (times - starts[piece]) * values[piece])

    return found


def _level(fraction: float) -> Busy:
    return lambda times: fraction * times


def _steps(steps: Steps) -> Busy:
    on = steps.duty * steps.period

    def since(times: Times) -> Times:
        whole, rest = np.divmod(times, steps.period)
        return np.asarray(whole * on + np.minimum(rest, on))

    before = since(np.array([steps.offset]))
    return lambda times: since(times + steps.offset) - before


def _paused(paused: Paused) -> Busy:
    inner = compiled(paused.inner)

    def found(times: Times) -> Times:
        rounds, rest = np.divmod(times, paused.every + paused.length)
        return inner(rounds * paused.every + np.minimum(rest, paused.every))

    return found


def _then(then: Then) -> Busy:
    first, second = compiled(then.first), compiled(then.second)

    def found(times: Times) -> Times:
        return first(np.minimum(times, then.seconds)) + second(np.maximum(times - then.seconds, 0.0))

    return found
