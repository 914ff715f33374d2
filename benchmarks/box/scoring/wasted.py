"""What incidents say that was wasted while they were open, beside what was."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.box.model import Job, SeenIncident, Truth
from benchmarks.box.scoring.figures import Total
from benchmarks.box.scoring.record import Incident
from benchmarks.box.scoring.story import Story


def truly_wasted(incident: SeenIncident, told: Story, job: Job, truth: Truth) -> float | None:
    """GPU-seconds in which no kernel was resident, from the beginning of the window that opened it on, as long as it
    was open. None where the truth or the incident's beginning was not kept.
    """
    if truth.worked is None or incident.started is None:
        return None
    open_ = [[span.start, span.end] for span in told.spans]
    open_[0][0] = incident.started
    times = np.clip(np.array(open_), job.start, job.end) - job.start
    busy = np.interp(times, *truth.worked)
    return float(len(job.gpus) * np.diff(times).sum() - np.diff(busy).sum())


def of_incidents(incidents: Iterable[Incident]) -> Total:
    """Of those whose waste is known: sums, and each one's error as a share of what it truly wasted."""
    known = [
        (one.truly_wasted, one.wasted) for one in incidents if one.wasted is not None and one.truly_wasted is not None
    ]
    errors = tuple((seen - true) / true for true, seen in known if true > 0)
    return Total("wasted in incidents", sum(true for true, _ in known), sum(seen for _, seen in known), errors)
