"""The rows of a recording by workload and GPU, and how much time a row stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.recordings.model import Floats, Ints, Recording

# Rows on each side of a row whose gaps say how long a row is there.
_AROUND = 5
# A row that comes later than this many median gaps follows a hole in the log.
_JOINED = 1.5
_PIECE = 65536


@dataclass(frozen=True, slots=True)
class Track:
    """One GPU in one workload: the places of its rows in the recording, by time, each time once.

    A row stands for the `lengths` seconds that end at its `t`: the time since the row before it, at most 1.5 times the
    median gap of the ten rows around it. The first row stands for that median, a single row for nothing. `interval` is
    the median at the last row, 0 where there is only one.
    """

    workload: str
    gpu: Gpu
    rows: Ints
    lengths: Floats
    interval: float


@dataclass(frozen=True, slots=True)
class Tracks:
    """All tracks; `weights` are seconds for each row of the recording, 0 for a row that counts nothing.

    A row counts nothing where its time is the only one of its track, where it repeats a time of its track (`repeated`
    of them), and where no workload held the GPU (`unowned`).
    """

    tracks: tuple[Track, ...]
    weights: Floats
    repeated: int
    unowned: int


def tracks(recording: Recording) -> Tracks:
    """Tell the rows apart by workload and GPU. A GPU is its UUID, or its node and name where it has none."""
    workloads = recording.texts["workload"]
    owned = np.array([bool(name) for name in workloads.names], dtype=bool)[workloads.codes]
    group = _combine(workloads.codes, _gpu_codes(recording))
    order = np.lexsort((recording.t, group))
    order = order[owned[order]]
    same_track = np.diff(group[order], prepend=-1) == 0
    repeats = same_track & (np.diff(recording.t[order], prepend=-1.0) == 0)
    order, same_track = order[~repeats], same_track[~repeats]
    weights = np.zeros(len(recording))
    found = []
    for rows in np.split(order, np.flatnonzero(~same_track)[1:]) if len(order) else []:
        lengths, interval = _lengths(recording.t[rows])
        weights[rows] = lengths
        found.append(Track(_text(recording, "workload", rows[0]), _gpu(recording, rows[0]), rows, lengths, interval))
    return Tracks(tuple(found), weights, repeated=int(repeats.sum()), unowned=int((~owned).sum()))


def _lengths(times: Floats) -> tuple[Floats, float]:
    """The seconds that each row stands for, and the median gap around the last row."""
    if len(times) < 2:
        return np.zeros(len(times)), 0.0
    gaps = np.diff(times, prepend=np.nan)
    padding = np.full(_AROUND, np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate((padding, gaps, padding)), 2 * _AROUND + 1)
    # In pieces: all windows at once take eleven times the memory of the times.
    medians = np.concatenate([_medians(windows[i : i + _PIECE]) for i in range(0, len(windows), _PIECE)])
    lengths = np.minimum(gaps, _JOINED * medians)
    lengths[0] = medians[0]
    return lengths, float(medians[-1])


def _medians(windows: Floats) -> Floats:
    """The median of each row, without what is missing."""
    ordered = np.sort(windows, axis=1)  # NaN comes last
    known = np.count_nonzero(~np.isnan(ordered), axis=1)
    rows = np.arange(len(ordered))
    medians: Floats = (ordered[rows, (known - 1) // 2] + ordered[rows, known // 2]) / 2
    return medians


def _gpu_codes(recording: Recording) -> Ints:
    uuids = recording.texts["gpu_uuid"]
    named = np.array([bool(name) for name in uuids.names], dtype=bool)[uuids.codes]
    places = _combine(recording.texts["node"].codes, recording.texts["gpu"].codes)
    codes: Ints = np.where(named, uuids.codes, places + len(uuids.names))
    return codes


def _combine(first: Ints, second: Ints) -> Ints:
    """One code for each pair of codes."""
    base = int(second.max()) + 1 if len(second) else 1
    codes: Ints = np.unique(first * base + second, return_inverse=True)[1]
    return codes


def _gpu(recording: Recording, row: np.int64) -> Gpu:
    return Gpu(
        node=_text(recording, "node", row),
        index=_text(recording, "gpu", row),
        uuid=_text(recording, "gpu_uuid", row),
        model=_text(recording, "model", row),
    )


def _text(recording: Recording, name: str, row: np.int64) -> str:
    column = recording.texts[name]
    return column.names[int(column.codes[row])]


def present(values: NDArray[np.float64]) -> bool:
    """Whether any of the values is known."""
    return not bool(np.isnan(values).all())
