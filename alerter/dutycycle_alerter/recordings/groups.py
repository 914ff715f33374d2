"""Whether timestamps are of several GPUs: in groups, as one query writes them, or of several loggers, each with its own
rhythm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# nvidia-smi writes milliseconds: two rows with the same time are this far apart, or less.
_TICK = 0.001

# The rows of one query follow each other within this, and two queries are at least three times further apart.
_WITHIN = 0.5
_APART = 3.0
_ALIKE = 0.8

# Or the distances come again in the same order, the one between two queries clearly longer than those of each row; then
# a slow driver may take this long for a row, if it is seen so often.
_SLOW = 0.8
_LONGER = 1.5
_ROUNDS = 5
_MOST_GPUS = 16
_LOOKED_AT = 4096
"""Rows from which rounds are told: all of a long file say the same."""


# Each of k loggers keeps its interval, but their rows mix at random: the gap from a row to the next varies, and that to
# the k-th row after it hardly does. With one logger both vary alike, or most gaps are equal.
_LOGGERS = 128
_STEADY = 0.25
_UNEVEN = 0.05
_SAME = 0.05
_MOSTLY = 0.7
_WINDOW = 2048
_WINDOWS = 8


def in_groups(times: Sequence[float]) -> bool:
    """Whether rows, in the order in which they were written, come in groups of the same size.

    One GPU gives one row per query, at even distances or with pauses; several give the same small number of rows almost
    at once, again and again. A time that is repeated here and there is a line that was written twice.
    """
    gaps = [max(later - earlier, _TICK) if later >= earlier else later - earlier for earlier, later in pairwise(times)]
    if len(gaps) > 1 and set(gaps) == {_TICK}:
        return True
    return _almost_at_once(gaps) or _in_rounds(gaps[:_LOOKED_AT])


def interleaved(times: NDArray[np.float64]) -> bool:
    """Whether rows, in any order, are of several loggers that each query at even distances."""
    ordered = np.sort(times)
    starts = np.linspace(0, max(0, len(ordered) - _WINDOW), _WINDOWS if len(ordered) > _WINDOW else 1, dtype=int)
    return any(_several_rhythms(ordered[start : start + _WINDOW]) for start in starts)


def _several_rhythms(times: NDArray[np.float64]) -> bool:
    gaps = np.diff(times)
    if len(gaps) < 2 * _ROUNDS:
        return False
    usual = np.sort(gaps)[len(gaps) // 2]
    if np.mean(np.abs(gaps - usual) <= _SAME * usual) > _MOSTLY:
        return False
    # Rounded times differ by this much in any case.
    rounded = 1.0 if not np.any(times % 1) else _TICK
    for loggers in range(2, min(_LOGGERS, len(gaps) // _ROUNDS) + 1):
        rounds = times[loggers:] - times[:-loggers]
        interval = np.median(rounds)
        within = gaps[gaps <= interval]  # what is longer is a pause of all
        if not len(within):
            continue
        uneven = np.mean(np.abs(within - within.mean()))
        off = np.sort(np.abs(rounds - interval))
        steady = off[: max(1, int(0.9 * len(off)))].mean() <= _STEADY * uneven  # without those around a pause
        if steady and uneven >= max(rounded, _UNEVEN * within.mean()):
            return True
    return False


def _almost_at_once(gaps: Sequence[float]) -> bool:
    bound = _bound(gaps)
    if bound is None:
        return False
    sizes = _sizes(gaps, bound)
    # The first group and the last may be cut.
    whole = sizes[1:-1] if len(sizes) > 3 else sizes[: max(2, len(sizes) - 1)]
    size, alike = Counter(whole).most_common(1)[0]
    # A few pauses of one GPU may lie equally far apart; but a group that was cut is no larger than the whole ones.
    fits = alike >= _ROUNDS or max(sizes) <= size
    return 1 < size <= _MOST_GPUS and fits and alike >= _ALIKE * len(whole)


def _in_rounds(gaps: Sequence[float]) -> bool:
    """Whether every k-th gap is clearly longer than those around it, for some k."""
    return any(_every(size, gaps) for size in range(2, _MOST_GPUS + 1))


def _every(size: int, gaps: Sequence[float]) -> bool:
    longer = []
    for i, gap in enumerate(gaps):
        around = max(*gaps[max(0, i - size + 1) : i], *gaps[i + 1 : i + size], 0.0, 0.0)
        if 0 < around <= _SLOW and gap >= _LONGER * around:
            longer.append(i)
    rounds = sum(after - before == size for before, after in pairwise(longer))
    return rounds >= _ROUNDS and rounds * size >= _ALIKE * (len(gaps) - 2 * size)


def _bound(gaps: Sequence[float]) -> float | None:
    """What separates gaps within a group from gaps between groups: the widest jump in their sizes. None: no such."""
    ordered = sorted({gap for gap in gaps if gap > 0})
    jumps = [(high / low, low) for low, high in pairwise(ordered) if low <= _WITHIN and high / low >= _APART]
    return max(jumps)[1] if jumps else None


def _sizes(gaps: Sequence[float], bound: float) -> list[int]:
    """Number of rows in each group."""
    sizes = [1]
    for gap in gaps:
        if 0 <= gap <= bound:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes
