"""The rows of a recording by workload and GPU, and how much time a row stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.recordings.model import Floats, Ints, Recording


@dataclass(frozen=True, slots=True)
class Track:
    """One GPU in one workload: the places of its rows in the recording, by time, each time once.

    A row stands for `interval` seconds that end at its `t`: the median gap between the track's times, 0 where there is
    only one.
    """

    workload: str
    gpu: Gpu
    rows: Ints
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
        gaps = np.diff(recording.t[rows])
        interval = float(np.median(gaps)) if len(gaps) else 0.0
        weights[rows] = interval
        found.append(Track(_text(recording, "workload", rows[0]), _gpu(recording, rows[0]), rows, interval))
    return Tracks(tuple(found), weights, repeated=int(repeats.sum()), unowned=int((~owned).sum()))


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
