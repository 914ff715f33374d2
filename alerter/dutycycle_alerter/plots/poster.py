"""A fleet on one picture: figures, users and time by utilization, who wastes most, and the worst finding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from dutycycle_alerter.analysis import Analysis, precise
from dutycycle_alerter.figures import count, hours
from dutycycle_alerter.headline import headline
from dutycycle_alerter.plots import bars
from dutycycle_alerter.plots.canvas import IDLE, INK, Canvas, Place, cut, width_of
from dutycycle_alerter.plots.timeline import Band, Timeline
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT, users_histogram, users_under

_WIDTH, _EDGE, _GUTTER = 1120, 36, 44
_HALF = (_WIDTH - 2 * _EDGE - _GUTTER) / 2
_HEAD, _FIGURES, _HISTOGRAMS, _TITLE = 84, 84, 230, 34
_USERS, _USER_PITCH = 8, 27


def draw(analysis: Analysis, timezone: tzinfo | None) -> bytes:
    """See `plots.fleet_picture`."""
    return _Poster(analysis, timezone).png()


class _Poster:
    """Parts under each other; `top` is where the next one begins, from the top edge."""

    def __init__(self, analysis: Analysis, timezone: tzinfo | None) -> None:
        self._analysis = analysis
        self._timezone = timezone
        self._shown = analysis.users[:_USERS]
        self._timeline = self._worst()
        height = _EDGE + _HEAD + _FIGURES + _TITLE + _HISTOGRAMS
        if self._shown:
            height += _TITLE + len(self._shown) * _USER_PITCH + 24
        if self._timeline is not None:
            height += _TITLE + 16 + self._timeline.height
        self._canvas = Canvas(_WIDTH, height)
        self._top = float(_EDGE)

    def png(self) -> bytes:
        self._head()
        self._figures()
        self._histograms()
        if self._shown:
            self._users()
        if self._timeline is not None:
            self._finding(self._timeline)
        return self._canvas.png(title=self._said())

    def _y(self, below: float) -> float:
        return self._canvas.height - self._top - below

    def _said(self) -> str:
        fleet = self._analysis.fleet
        said = f"{count(fleet.workloads, 'job')} on {count(fleet.gpus, 'GPU')}"
        days = precise.days(fleet.start, fleet.end, self._timezone)
        return f"{said}, {days}" if days else said

    def _head(self) -> None:
        self._canvas.text(_EDGE, self._y(10), "How well GPUs were used", size=21, fontweight="bold")
        self._canvas.text(_EDGE, self._y(42), self._said(), size=12.5, quiet=True)
        self._top += _HEAD

    def _figures(self) -> None:
        fleet, scale = self._analysis.fleet, self._analysis.time_scale
        shown = (
            (precise.percent(fleet.mean), "mean utilization, by time"),
            (precise.hours(fleet.observed * scale), "GPU-hours measured"),
            (precise.hours(fleet.wasted * scale), "GPU-hours wasted: not busy"),
            (precise.percent(fleet.at_zero_ratio), "of the time at exactly 0"),
            (str(len(self._analysis.findings)), f"findings, {self._analysis.verdicts.judged} jobs judged"),
        )
        step = (_WIDTH - 2 * _EDGE) / len(shown)
        for i, (value, what) in enumerate(shown):
            x = _EDGE + i * step
            self._canvas.text(x, self._y(10), value, size=24, fontweight="bold", color=IDLE if i == 2 else INK)
            self._canvas.text(x, self._y(38), what, size=10.5, quiet=True)
        self._top += _FIGURES

    def _histograms(self) -> None:
        users = self._analysis.users
        scale = self._analysis.time_scale
        low = f"{users_under(users)} of {len(users)} under {LOW_UTILIZATION_PERCENT:.0f} %"
        of_users: Sequence[float] = users_histogram(users)
        of_hours = [value * scale for value in self._analysis.fleet.hours]
        for i, (title, note, bins) in enumerate(
            (
                ("Users by mean utilization", low if users else "no user is known", of_users),
                ("GPU-hours by utilization", "", of_hours),
            )
        ):
            left = _EDGE + i * (_HALF + _GUTTER)
            self._title(left, title, note)
            place = Place(left, self._y(_TITLE + _HISTOGRAMS - 50), _HALF, _HISTOGRAMS - 84)
            bars.histogram(self._canvas, bins, place)
        self._top += _TITLE + _HISTOGRAMS

    def _users(self) -> None:
        self._title(
            _EDGE, "Users who waste most", "GPU-hours busy and wasted; in figures the wasted ones, and mean utilization"
        )
        height = len(self._shown) * _USER_PITCH
        place = Place(_EDGE, self._y(_TITLE - 6 + height), _WIDTH - 2 * _EDGE, height)
        bars.users(self._canvas, self._shown, place, _USER_PITCH, time_scale=self._analysis.time_scale)
        self._top += _TITLE + height + 24

    def _worst(self) -> Timeline | None:
        if not self._analysis.findings:
            return None
        finding = self._analysis.findings[0]
        band = Band(finding.started_at, finding.resolved_at or finding.updated_at, "the condition began")
        return Timeline(self._analysis.series(finding.subject), band, self._timezone)

    def _finding(self, timeline: Timeline) -> None:
        finding = self._analysis.findings[0]
        wasted = hours(finding.wasted * self._analysis.time_scale)
        owner = f" of {cut(finding.user, 24)}" if finding.user else ""
        note = f"{cut(finding.subject, 48)}{owner}; {wasted} GPU-hours wasted; {finding.diagnosis.summary}"
        self._title(_EDGE, f"Worst finding: {headline(finding)}", note)
        self._top += _TITLE
        timeline.draw(self._canvas, _EDGE - 20, self._y(timeline.height), _WIDTH - 2 * _EDGE + 20)

    def _title(self, left: float, title: str, note: str) -> None:
        self._canvas.text(left, self._y(8), title, size=13.5, fontweight="bold")
        self._canvas.text(left + width_of(title, 13.5, bold=True) + 14, self._y(8), note, size=10.5, quiet=True)
