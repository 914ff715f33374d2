"""From points to what is drawn: stretches of time with one utilization, gaps kept, no more than can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from dutycycle_alerter.printable import printable
from dutycycle_alerter.views import GpuSeries, Point

MOST = 400
"""More spans than this in a row cannot be told apart."""

_BRIDGED = 3.0
"""A point is taken to stand for at most so many median intervals."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in Unix seconds, with one utilization 0..1."""

    start: float
    end: float
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU as it is drawn; `mean` is None where nothing was measured."""

    name: str
    spans: Sequence[Span]
    mean: float | None


def row_of(series: GpuSeries) -> Row:
    """A GPU's points as spans. The mean is that of all points, weighted by the time they stand for."""
    spans = list(_spans(series.points))
    return Row(printable(series.gpu.label or series.gpu.uuid), _thin(spans), _mean(spans).value if spans else None)


def runs(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Spans that touch, together."""
    run: list[Span] = []
    for span in spans:
        if run and span.start > run[-1].end:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _spans(points: Sequence[Point]) -> Iterator[Span]:
    usual = median([b.t - a.t for a, b in pairwise(points) if b.t > a.t] or [60.0])
    before = -math.inf
    for point in points:
        if point.t <= before:
            continue
        if point.utilization is not None:
            start = before if point.t - before <= _BRIDGED * usual else point.t - usual
            yield Span(start, point.t, min(1.0, max(0.0, point.utilization)))
        before = point.t


def _thin(spans: Sequence[Span]) -> Sequence[Span]:
    """Neighbours that are too narrow to be seen apart become their mean."""
    if len(spans) <= MOST:
        return spans
    width = (spans[-1].end - spans[0].start) / MOST
    thinned: list[Span] = []
    held: list[Span] = []
    for span in spans:
        if held and (span.start > held[-1].end or span.end - held[0].start > width):
            thinned.append(_mean(held))
            held = []
        held.append(span)
    return [*thinned, _mean(held)]


def _mean(spans: Sequence[Span]) -> Span:
    length = sum(span.end - span.start for span in spans)
    return Span(spans[0].start, spans[-1].end, sum(span.value * (span.end - span.start) for span in spans) / length)
