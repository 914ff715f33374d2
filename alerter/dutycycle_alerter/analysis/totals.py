"""Sums over the rows of a recording, each weighted by the time it stands for: the fleet's and each user's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.recordings.model import Floats
from dutycycle_alerter.recordings.tracks import Tracks, present
from dutycycle_alerter.usage import BINS, UserUsage


@dataclass(frozen=True, slots=True)
class Fleet:
    """All GPUs together; `start` and `end` are None where there is no row.

    `weighted` is the GPU time that rows stand for, `observed` the part of it for which utilization is known; `busy`
    and `at_zero` (utilization of exactly 0) are parts of that. `hours` are GPU-hours in 20 bins of utilization.
    `energy` (joules) is None where no power was recorded.
    """

    start: float | None
    end: float | None
    workloads: int
    gpus: int
    weighted: float
    observed: float
    busy: float
    at_zero: float
    energy: float | None
    hours: tuple[float, ...]

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return self.observed - self.busy

    @property
    def mean(self) -> float | None:
        """Utilization weighted by time, 0..1; None where nothing was measured."""
        return self.busy / self.observed if self.observed > 0 else None

    @property
    def at_zero_ratio(self) -> float | None:
        """Share of the measured time at exactly 0; None where nothing was measured."""
        return self.at_zero / self.observed if self.observed > 0 else None


def fleet_totals(recording: Recording, found: Tracks) -> Fleet:
    """The figures of all rows that belong to a workload."""
    seconds, busy = _seconds(recording, found.weights)
    utilization = np.nan_to_num(_utilization(recording))
    # The small term keeps a row at 5 % up to rounding in the bin that starts there.
    bins = np.minimum((utilization * BINS + 1e-9).astype(np.int64), BINS - 1)
    hours = np.bincount(bins, weights=seconds, minlength=BINS) / 3600
    powered = _joules(recording, found.weights)
    return Fleet(
        start=float(recording.t.min()) if len(recording) else None,
        end=float(recording.t.max()) if len(recording) else None,
        workloads=len({track.workload for track in found.tracks}),
        gpus=len({track.gpu.uuid or (track.gpu.node, track.gpu.index) for track in found.tracks}),
        weighted=float(found.weights.sum()),
        observed=float(seconds.sum()),
        busy=float(busy.sum()),
        at_zero=float(seconds[_utilization(recording) == 0].sum()),
        energy=float(np.nansum(powered)) if present(powered) else None,
        hours=tuple(hours.tolist()),
    )


def user_totals(recording: Recording, found: Tracks, findings: Iterable[Incident]) -> tuple[UserUsage, ...]:
    """Each known user whose rows stand for any time, most wasted GPU-seconds first."""
    column = recording.texts["user"]
    size = len(column.names)
    seconds, busy = _seconds(recording, found.weights)
    joules = _joules(recording, found.weights)

    def by_user(values: Floats) -> list[float]:
        sums: list[float] = np.bincount(column.codes, weights=np.nan_to_num(values), minlength=size).tolist()
        return sums

    allocated, observed, worked, energy = map(by_user, (found.weights, seconds, busy, joules))
    powered = by_user(np.where(np.isnan(joules), 0.0, 1.0))
    jobs = Counter(column.names[column.codes[rows[0]]] for rows in _first_rows(found))
    incidents = Counter(finding.user for finding in findings)
    users = [
        UserUsage(
            user=name,
            allocated=allocated[code],
            observed=observed[code],
            busy=worked[code],
            energy=energy[code] if powered[code] else None,
            jobs=jobs[name],
            incidents=incidents[name],
        )
        for code, name in enumerate(column.names)
        if name and allocated[code] > 0
    ]
    return tuple(sorted(users, key=lambda user: (-user.wasted, user.user)))


def _first_rows(found: Tracks) -> Iterable[np.typing.NDArray[np.int64]]:
    """The rows of one GPU of each workload that has any weight."""
    members = {track.workload: track.rows for track in reversed(found.tracks) if track.interval > 0}
    return members.values()


def _utilization(recording: Recording) -> Floats:
    return recording.numbers.get("utilization_ratio", np.full(len(recording), np.nan))


def _seconds(recording: Recording, weights: Floats) -> tuple[Floats, Floats]:
    """For each row the seconds for which utilization is known, and the busy ones of them."""
    utilization = _utilization(recording)
    seconds = np.where(np.isnan(utilization), 0.0, weights)
    return seconds, np.nan_to_num(utilization) * seconds


def _joules(recording: Recording, weights: Floats) -> Floats:
    """For each row its energy, NaN where power is not known."""
    power = recording.numbers.get("power_watts", np.full(len(recording), np.nan))
    return np.where(weights > 0, power * weights, np.nan)
