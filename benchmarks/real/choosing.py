"""A dozen of the recorded runs that stand for all: of each finding the shortest, some without, and some short ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.real.comparison import Seen
from benchmarks.real.runs import Run

LONG_ENOUGH = 2700.0
"""Seconds from which on any rule can have spoken for a while."""
EACH, FINE, SHORT = 2, 3, 3


def representative(runs: Sequence[Run], findings: Mapping[str, Sequence[Seen]]) -> list[Run]:
    """In the order of the recording. `findings` are by workload."""
    by_length = sorted(runs, key=lambda run: (run.length, run.workload))
    chosen: dict[str, Run] = {}
    for rule in sorted({seen.rule for found in findings.values() for seen in found}):
        telling = [run for run in by_length if any(seen.rule == rule for seen in findings.get(run.workload, ()))]
        chosen |= {run.workload: run for run in telling[:EACH]}
    fine = [run for run in by_length if run.length >= LONG_ENOUGH and not findings.get(run.workload)]
    chosen |= {run.workload: run for run in fine[:FINE]}
    others: dict[str, Run] = {}
    for run in by_length:
        if 120.0 <= run.length < LONG_ENOUGH and run.user not in {one.user for one in chosen.values()}:
            others.setdefault(run.user, run)
    chosen |= {run.workload: run for run in list(others.values())[:SHORT]}
    return sorted(chosen.values(), key=lambda run: (run.start, run.workload))
