"""What of a job's waits something is to blame for, by the ledger alone: no rule and no bound is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .scene import Stretch
from .track import Floats, code


def waits(stretch: Stretch) -> Floats:
    """GPU-seconds by activity without a kernel that computes. In a collective and in a hang kernels only spin."""
    waited = stretch.spent - stretch.resident
    for activity in ("collective", "hang", "nothing"):
        waited[code(activity)] = stretch.spent[code(activity)]
    return waited


def left_alone(stretch: Stretch, partition: str) -> Iterator[str]:
    """What wastes nothing: a start, somebody who thinks, a rest between parts of a work, a server that is called."""
    yield "start_up"
    if "person" not in stretch.blame:
        yield "person"
    if partition != "serving" or stretch.resident.sum() > 0:
        yield "request"


def wasted(stretches: Iterable[Stretch], partition: str) -> float:
    """GPU-seconds of a job. Who computes badly wastes nothing here: that is in no ledger of waits."""
    total = 0.0
    for stretch in stretches:
        if stretch.by_design:
            continue
        lost = waits(stretch)
        for activity in ("computing", *left_alone(stretch, partition)):
            lost[code(activity)] = 0.0
        total += float(lost.sum())
    return total
