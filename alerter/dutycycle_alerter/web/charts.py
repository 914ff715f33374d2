"""The page's pictures: SVG that takes its colours from the style sheet and its width from the page.

`plots` draws such pictures with matplotlib into PNG files of a fixed shape, whose text shrinks with them. Here only
curves stretch, text stays at reading size on a phone, and the daemon needs no matplotlib. What a stretch of time, a gap
and a mean are is decided in `plots.spans` for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone, tzinfo
from itertools import groupby

from markupsafe import Markup

from dutycycle_alerter import figures
from dutycycle_alerter.fleet import IDLE_BELOW, Doing, doing
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.plots.spans import Row, Span, row_of, runs
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.usage import BIN_WIDTH, LOW_UTILIZATION_PERCENT
from dutycycle_alerter.views import GpuNow, GpuSeries, drawn_first

MAX_ROWS = 64
_USERS = "Users by mean utilization"
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The time that the picture shows."""

    start: float
    end: float

    def share(self, t: float) -> float:
        """Where a moment lies, 0..1, cut to the picture."""
        return min(1.0, max(0.0, (t - self.start) / (self.end - self.start)))


def gpu_rows(
    series: Sequence[GpuSeries], *, incident: Incident, concerned: frozenset[Gpu], zone: tzinfo | None
) -> Markup:
    """One row per GPU over a common time axis: utilization as an area, idle time as a line on the floor, time that was
    not measured hatched, the time for which the condition held tinted. Of very many, those concerned and then the least
    used are drawn. Empty where nothing was measured.
    """
    drawn = [(one.gpu in concerned, row_of(one)) for one in series]
    if len(drawn) > MAX_ROWS:
        drawn = sorted(drawn, key=lambda pair: drawn_first(pair[1].mean, concerned=pair[0]))[:MAX_ROWS]
    starts = [row.spans[0].start for _, row in drawn if row.spans]
    if not starts:
        return Markup("")
    frame = _Frame(min(starts), max(one.points[-1].t for one in series if one.points))
    rows = Markup("").join(_row(row, frame, incident, marked) for marked, row in drawn)
    if len(series) > MAX_ROWS:
        rest = len(series) - MAX_ROWS
        rows += Markup(
            '<p class="plot-more">and {} more GPUs; drawn are those concerned, then the least used</p>'
        ).format(rest)
    # One zone for the whole axis, also where clocks were changed within it or since.
    clock = figures.clock_at(frame.end, zone)
    size = "few" if len(drawn) <= 4 else "dense" if len(drawn) > 16 else "some"
    return Markup(
        '<div class="plot {}"><div class="plot-axis" aria-hidden="true"><span>{}</span>'
        '<svg width="100%" height="18">{}</svg><span>mean</span></div>{}</div>'
    ).format(size, clock.tzname(None), _ticks(frame, clock), rows)


def _row(row: Row, frame: _Frame, incident: Incident, concerned: bool) -> Markup:
    name, mean = printable(row.name, NAME_LIMIT), figures.percent(row.mean)
    said = Markup("{}: mean {}").format(name, mean)
    return Markup(
        '<div class="plot-row{}"><span class="plot-name"><bdi>{}</bdi></span>'
        '<svg class="track" width="100%" height="100%" role="img" aria-label="{}"><title>{}</title>{}'
        '<svg viewBox="0 0 1000 100" width="100%" height="100%" preserveAspectRatio="none">{}</svg>{}</svg>'
        '<span class="plot-mean">{}</span></div>'
    ).format(
        " concerned" if concerned else "",
        name,
        said,
        said,
        _band(frame, incident.started_at, incident.resolved_at),
        Markup("").join(_curves(row.spans, frame)),
        _line(frame, incident.opened_at),
        mean,
    )


def _band(frame: _Frame, start: float, end: float | None) -> Markup:
    """The time for which the condition held."""
    left, right = frame.share(start), 1.0 if end is None else frame.share(end)
    return Markup('<rect class="held" x="{:.2f}%" width="{:.2f}%" height="100%"/>').format(
        100 * left, 100 * max(0.0, right - left)
    )


def _line(frame: _Frame, t: float) -> Markup:
    if not frame.start <= t <= frame.end:
        return Markup("")
    x = f"{100 * frame.share(t):.2f}%"
    return Markup('<line class="noticed" x1="{}" x2="{}" y1="0" y2="100%"/>').format(x, x)


def _curves(spans: Sequence[Span], frame: _Frame) -> Iterator[Markup]:
    """Stretches of one kind each: busy as steps, idle on the floor, and what lies between and after as not measured."""
    ends = [frame.start if not spans else spans[0].start, *(span.end for span in spans)]
    for end, start in zip(ends, [*(span.start for span in spans), frame.end], strict=True):
        if start > end:
            x, right = 1000 * frame.share(end), 1000 * frame.share(start)
            yield Markup('<rect class="unknown" x="{:.1f}" width="{:.1f}" height="100"/>').format(x, right - x)
    for run in runs(spans):
        for idle, part in groupby(run, key=lambda span: span.value <= IDLE_BELOW):
            stretch = list(part)
            left = 1000 * frame.share(stretch[0].start)
            if idle:
                right = 1000 * frame.share(stretch[-1].end)
                yield Markup('<path class="idle" d="M{:.1f} 98H{:.1f}"/>').format(left, right)
            else:
                steps = "".join(f"V{100 - 100 * s.value:.1f}H{1000 * frame.share(s.end):.1f}" for s in stretch)
                yield Markup('<path class="busy" d="M{:.1f} 100{}V100Z"/>').format(left, steps)


def _ticks(frame: _Frame, clock: timezone) -> Markup:
    """Four to seven times of day, at round ones."""
    length = frame.end - frame.start
    step = next((step for step in _STEPS if length / step <= 5), _STEPS[-1])
    pattern = "%H:%M:%S" if step < 60 else "%H:%M" if length < 36 * 3600 else "%d %b"
    # Round in local time: an offset of half an hour must not move midnight to half past.
    shift = clock.utcoffset(None).total_seconds()
    tick = math.ceil((frame.start + shift) / step) * step - shift
    texts = []
    while tick <= frame.end:
        share = frame.share(tick)
        anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
        texts.append(
            Markup('<text x="{:.2f}%" y="13" text-anchor="{}">{}</text>').format(
                100 * share, anchor, figures.local(tick, clock).strftime(pattern)
            )
        )
        tick += step
    return Markup("").join(texts)


def gpu_cells(gpus: Sequence[GpuNow]) -> Markup:
    """One cell per GPU: the busier, the stronger; allocated and idle in its own colour; unknown as an outline."""
    pitch = 19
    return Markup('<svg class="cells" width="{}" height="17" aria-hidden="true">{}</svg>').format(
        len(gpus) * pitch, Markup("").join(_cell(gpu, i * pitch) for i, gpu in enumerate(gpus))
    )


def _cell(gpu: GpuNow, x: float) -> Markup:
    what, strength, said = doing(gpu), Markup(""), figures.percent(gpu.utilization)
    if what is Doing.BUSY:
        strength = Markup(' fill-opacity="{:.2f}"').format(0.2 + 0.8 * min(1.0, gpu.utilization or 0.0))
    elif what is not Doing.FREE:
        said = "allocated and idle" if what is Doing.IDLE else figures.UNKNOWN
    return Markup(
        '<rect class="{}" x="{}" y="0.5" width="16" height="16" rx="3"{}><title>{}: {}</title></rect>'
    ).format(what, x + 0.5, strength, printable(gpu.gpu.index, NAME_LIMIT), said)


def users_histogram(bins: Sequence[int]) -> Markup:
    """Users by mean utilization, one bar per bin; those below the bound for low utilization stand out."""
    return _histogram(_USERS, bins, lambda users: figures.count(round(users), "user"), lambda users: f"{users:.0f}")


def hours_histogram(bins: Sequence[float]) -> Markup:
    """The same of the users' measured GPU-seconds."""
    return _histogram(
        "GPU-hours by their user's mean utilization",
        bins,
        lambda seconds: f"{figures.hours(seconds)} GPU-hours",
        _short_hours,
    )


def _short_hours(seconds: float) -> str:
    """Hours in the width of a bar on a phone, four characters."""
    hours = seconds / 3600
    if hours < 0.05:
        return "<0.1"
    for unit in ("", "k"):
        if hours < 999.5:
            return f"{hours:.1f}{unit}" if hours < 9.95 and (unit or hours % 1) else f"{hours:.0f}{unit}"
        hours /= 1000
    return f"{hours:.1f}M" if hours < 9.95 else f"{hours:.0f}M"


def _histogram(
    title: str, bins: Sequence[float], said: Callable[[float], str], brief: Callable[[float], str]
) -> Markup:
    """`said` is a bar's value in a sentence, `brief` over the bar."""
    highest = max(bins, default=0)
    if not highest:
        return Markup("")
    top, floor = 20, 180
    width = 100 / len(bins)
    parts = []
    for number, value in enumerate(bins):
        if not value:
            continue
        height = max(2.0, (floor - top) * value / highest)
        low, high = number * BIN_WIDTH, (number + 1) * BIN_WIDTH
        kind = "low" if high <= LOW_UTILIZATION_PERCENT else "rest"
        parts.append(
            Markup(
                '<g><title>{} to {} %: {}</title><rect class="bar {}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" '
                'height="{:.1f}" rx="2"/><text class="value" x="{:.2f}%" y="{:.1f}" text-anchor="middle">{}</text></g>'
            ).format(
                low,
                high,
                said(value),
                kind,
                width * (number + 0.08),
                floor - height,
                width * 0.84,
                height,
                width * (number + 0.5),
                floor - height - 5,
                brief(value),
            )
        )
    for mark in (0, 25, 50, 75, 100):
        anchor = {0: "start", 100: "end"}.get(mark, "middle")
        parts.append(Markup('<text x="{}%" y="{}" text-anchor="{}">{} %</text>').format(mark, floor + 16, anchor, mark))
    spoken = "; ".join(
        f"{n * BIN_WIDTH} to {(n + 1) * BIN_WIDTH} %: {said(value)}" for n, value in enumerate(bins) if value
    )
    return Markup(
        '<svg class="histogram{}" width="100%" height="{}" role="img" aria-label="{}. {}">'
        '<line class="floor" x1="0" x2="100%" y1="{}" y2="{}"/>{}</svg>'
    ).format("" if title == _USERS else " hours", floor + 22, title, spoken, floor, floor, Markup("").join(parts))
