"""Figures of a score with what is not known of them: runs differ, and so do the cases within one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from benchmarks.box.scoring.ratios import Estimate, Share, widest
from benchmarks.box.scoring.record import Score

Figure = Callable[[Score], Share]

_RECORDS = tuple(name for name in Score.__struct_fields__ if name != "runs")


def sure(figure: Figure, score: Score) -> Estimate:
    """A share over all runs with the widest interval that its cases and its runs leave."""
    return widest(figure(score), [figure(run) for run in _by_seed(score)])


def _by_seed(score: Score) -> list[Score]:
    """A score for each run that has anything in it."""
    found: defaultdict[int, dict[str, list[object]]] = defaultdict(lambda: {name: [] for name in _RECORDS})
    for name in _RECORDS:
        for one in getattr(score, name):
            found[one.case.seed][name].append(one)
    return [Score(**{name: tuple(some) for name, some in records.items()}) for _, records in sorted(found.items())]
