"""A training loop, step by step: ranks take batches, compute, and end each step together with the slowest of them.

All times follow from one recurrence. Rank r may begin step i once step i-1 has ended for all, host work and pauses are
done, and its batch is there; the step ends for all when the slowest has computed:

    begin[r, i] = max(end[i-1] + before[i], available[r, i])
    end[i]      = max over r of begin[r, i] + compute[r, i]

A batch is available when it and all before it are loaded; its worker begins with it once the worker's own last one is
done, and its place in the queue was emptied. That happened as many steps ago as the queue has places, so a block of as
many steps depends on earlier blocks only, and is computed at once: max-plus recurrences are running maxima of sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import loader as loading
from .loader import Loader
from .track import Floats, Track, code


@dataclass(frozen=True)
class Pause:
    """Between steps, after every `every` seconds of them: `seconds` of checkpointing or evaluation. `level` is the
    share in which evaluation keeps a kernel resident. `alone`: the first rank evaluates, and all others wait for it.
    """

    every: float
    seconds: float
    activity: str = "checkpoint"
    level: float = 0.0
    alone: bool = False


@dataclass(frozen=True)
class Loop:
    """`compute` seconds of kernels a step, with lognormal `jitter`; `slow` is a factor for each rank. Kernels are
    resident for `resident` of the compute. `host` seconds of Python lie between steps. Ranks that wait for others spin
    in a kernel, or leave the GPU idle where `spin` is false.
    """

    compute: float
    jitter: float
    resident: float
    slow: tuple[float, ...]
    spin: bool
    loader: Loader
    host: float = 0.0
    host_activity: str = "loader"
    pauses: tuple[Pause, ...] = field(default=())


@dataclass(frozen=True)
class Run:
    """What came of a loop: each rank's track, when each step ended, and what loading took by rank and batch.

    `waited` are the seconds for which ranks waited in each step's collective, and `for_loader` those of them in which
    they waited because the last to come had waited for its batch, rather than because it computed for longer.
    """

    tracks: tuple[Track, ...]
    ends: Floats
    loading: loading.Times
    waited: Floats
    for_loader: Floats


def run(loop: Loop, length: float, crowding: float, draw: np.random.Generator) -> Run:
    """Plays the loop for `length` seconds."""
    # Steps jitter; where they happen to be short, a few more are played.
    at_most = int(length / (loop.compute * max(loop.slow) + loop.host) * 1.05) + 20
    at_most = -(-at_most // loop.loader.places) * loop.loader.places
    while (played := _run(loop, length, at_most, crowding, draw)) is None:
        at_most *= 2
    return played


def _run(loop: Loop, length: float, at_most: int, crowding: float, draw: np.random.Generator) -> Run | None:
    """None where that many steps are over too soon."""
    ranks = len(loop.slow)
    compute = loop.compute * np.exp(draw.standard_normal((ranks, at_most)) * loop.jitter - loop.jitter**2 / 2)
    compute *= np.array(loop.slow)[:, None]
    paused = _pauses(loop, at_most)
    before = paused.sum(axis=0) + loop.host
    took = loading.times(loop.loader, ranks, at_most, crowding, draw)
    stalls = _stalls(loop.loader, length, draw)
    begin, ends = _recur(loop.loader, compute, before, took.decode + took.read, stalls, length)
    if ends[-1] < length:
        return None
    steps = len(ends)
    took = loading.Times(took.decode[:, :steps], took.read[:, :steps])
    tracks = tuple(
        _track(loop, rank, begin[rank], compute[rank, :steps], paused[:, :steps], ends, length) for rank in range(ranks)
    )
    arrived = begin + compute[:, :steps]
    late = begin[arrived.argmax(axis=0), np.arange(steps)] - begin
    waited = ends - arrived
    return Run(tracks, ends, took, waited.sum(axis=0), np.clip(late, 0.0, waited).sum(axis=0))


def _pauses(loop: Loop, steps: int) -> Floats:
    """Seconds by kind of pause and step before which it lies. Programs count steps, not seconds."""
    found = np.zeros((len(loop.pauses), steps))
    step = loop.compute * max(loop.slow) + loop.host
    for row, pause in zip(found, loop.pauses, strict=True):
        row[:: max(1, round(pause.every / step))] = pause.seconds
        row[0] = 0.0
    return found


def _stalls(loader: Loader, length: float, draw: np.random.Generator) -> Floats:
    """When storage begins to stand still."""
    if loader.stall <= 0:
        return np.empty(0)
    gaps = draw.exponential(loader.stall_every, int(length / loader.stall_every * 2) + 8) + loader.stall
    return np.cumsum(gaps)


def _recur(
    loader: Loader, compute: Floats, before: Floats, load: Floats, stalls: Floats, length: float
) -> tuple[Floats, Floats]:
    """When each rank begins each step, and when each step ends, until `length` is over."""
    ranks, steps = compute.shape
    least = compute.max(axis=0) + before
    begin, ends = np.empty((ranks, steps)), np.empty(steps)
    block, rows = loader.places, (ranks, loader.prefetch, loader.workers)
    # What lies before the first batch was there at once.
    emptied, free = np.zeros((ranks, block)), np.zeros((ranks, loader.workers))
    last_available, last_end = np.zeros((ranks, 1)), 0.0
    done = 0
    while done < steps and last_end < length:
        now = slice(done, done + block)
        loaded = _loaded(load[:, now].reshape(rows), emptied.reshape(rows), free, stalls, loader.stall)
        free = loaded[:, -1]
        available = np.maximum(np.maximum.accumulate(loaded.reshape(ranks, block), axis=1), last_available)
        passed = np.cumsum(least[now])
        slowest = (available + compute[:, now]).max(axis=0)
        end = passed + np.maximum(np.maximum.accumulate(slowest - passed), last_end)
        earlier = np.concatenate(([last_end], end[:-1]))
        emptied = begin[:, now] = np.maximum(available, earlier + before[now])
        ends[now] = end
        last_available, last_end = available[:, -1:], float(end[-1])
        done += block
    count = min(done, int(np.searchsorted(ends[:done], length)) + 1)
    return begin[:, :count], ends[:count]


def _loaded(load: Floats, emptied: Floats, free: Floats, stalls: Floats, stall: float) -> Floats:
    """When batches are loaded, by rank, turn and worker: each worker begins with its next one when it is `free`, and
    when the place for it was `emptied`.
    """
    if not len(stalls):
        passed = np.cumsum(load, axis=1)
        waits = np.maximum.accumulate(emptied - (passed - load), axis=1)
        return passed + np.maximum(waits, free[:, None])
    found = np.empty_like(load)
    for turn in range(load.shape[1]):
        start = np.maximum(free, emptied[:, turn])
        free = found[:, turn] = _delayed(start, start + load[:, turn], stalls, stall)
    return found


def _delayed(start: Floats, loaded: Floats, stalls: Floats, stall: float) -> Floats:
    """A batch that is being loaded when storage stands still waits until that is over."""
    first = np.searchsorted(stalls, start - stall)
    hit = (first < len(stalls)) & (stalls[np.minimum(first, len(stalls) - 1)] < loaded)
    over = stalls[np.minimum(first, len(stalls) - 1)] + stall
    return np.where(hit, loaded + np.minimum(stall, over - np.minimum(start, over)), loaded)


def _track(loop: Loop, rank: int, begin: Floats, compute: Floats, paused: Floats, ends: Floats, length: float) -> Track:
    earlier = np.concatenate(([0.0], ends[:-1]))
    columns, doing, level = [], [], []
    for pause, seconds in zip(loop.pauses, paused, strict=True):
        waits = pause.alone and rank > 0
        columns.append(seconds)
        doing.append(code("collective" if waits else pause.activity))
        level.append((1.0 if loop.spin else 0.0) if waits else pause.level)
    host = np.full(len(ends), loop.host)
    waited = begin - earlier - paused.sum(axis=0) - host
    columns += [host, np.maximum(0.0, waited), compute, np.maximum(0.0, ends - begin - compute)]
    doing += [code(loop.host_activity), code("loader"), code("computing"), code("collective")]
    level += [0.0, 0.0, loop.resident, 1.0 if loop.spin else 0.0]
    seconds = np.stack(columns, axis=1).ravel()
    kept = np.flatnonzero(seconds > 1e-9)
    whole = Track(
        seconds[kept],
        np.tile(np.array(doing, np.int8), len(ends))[kept],
        np.tile(np.array(level, float), len(ends))[kept],
    )
    return whole.cut(length)[0]
