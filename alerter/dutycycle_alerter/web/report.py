"""An analysis of recordings as one page that needs nothing beside itself: style and pictures are in it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from datetime import tzinfo

from markupsafe import Markup

from dutycycle_alerter import figures
from dutycycle_alerter.analysis import Analysis, precise, sentences
from dutycycle_alerter.bill import Bill, bill
from dutycycle_alerter.headline import not_evaluable
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import users_histogram, users_under
from dutycycle_alerter.web.charts import gpu_rows
from dutycycle_alerter.web.charts import users_histogram as users_chart
from dutycycle_alerter.web.templating import STATIC, Show, environment

DRAWN = 20
"""So many findings have a picture: a job's rows take some ten kilobytes a GPU."""
_SKIPPED = 50


class _Dated(Show):
    """Moments always with their date: the page is read long after it was made."""

    def when(self, timestamp: float) -> Markup:
        at = figures.local(timestamp, self.zone)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            at.isoformat(timespec="seconds"),
            f"{at:%Y-%m-%d %H:%M:%S %Z}",
            precise.minute(timestamp, self.zone) + figures.other_zone(timestamp, now=self.now, zone=self.zone),
        )


@dataclass(frozen=True, slots=True)
class _Finding:
    """One incident with its picture, empty where it has none."""

    incident: Incident
    bill: Bill
    plot: Markup


def report(analysis: Analysis, zone: tzinfo | None, *, now: float | None = None) -> str:
    """The page. Times of day are of `zone` (None: the machine's own); `now` is when it says it was made."""
    made_at = time.time() if now is None else now
    show = _Dated(now=made_at, zone=zone, time_scale=analysis.time_scale)
    causes = Counter(cause for finding in analysis.findings for cause in finding.diagnosis.causes)
    made = environment()
    made.filters.update(precise_percent=precise.percent, precise_hours=precise.hours)
    return made.get_template(
        "report.html"
    ).render(
        show=show,
        style=Markup((STATIC / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        fleet=analysis.fleet,
        days=precise.days(analysis.fleet.start, analysis.fleet.end, zone),
        scale=analysis.time_scale,
        rows=len(analysis.recording),
        users=analysis.users,
        low=users_under(analysis.users),
        histogram=users_chart(users_histogram(analysis.users)),
        judged=sentences.judged(analysis.verdicts, analysis.fleet.workloads),
        unjudged=[
            *map(not_evaluable, analysis.verdicts.not_evaluable),
            *(sentences.too_short(short, analysis.time_scale) for short in analysis.verdicts.too_short),
        ],
        findings=[_finding(analysis, i, zone) for i in range(len(analysis.findings))],
        advice=[(cause, number, ADVICE[cause]) for cause, number in causes.most_common()],
        notes=analysis.recording.notes,
        skipped=analysis.recording.skipped,
        named=[str(line) for line in analysis.recording.skipped.first[:_SKIPPED]],
        money=_money(analysis.fleet.wasted * analysis.time_scale, analysis.settings.costs),
        now=made_at,
    )


def _finding(analysis: Analysis, place: int, zone: tzinfo | None) -> _Finding:
    incident = analysis.findings[place]
    plot = Markup("")
    if place < DRAWN:
        series = analysis.series(incident.subject)
        plot = gpu_rows(series, incident=incident, concerned=frozenset(incident.gpus), zone=zone)
    costs = analysis.settings.costs
    return _Finding(incident, bill(incident, costs, now=incident.updated_at, time_scale=analysis.time_scale), plot)


def _money(wasted: float, costs: Costs) -> str:
    """What the wasted seconds cost, empty where no price is configured."""
    return "" if costs.gpu_hour is None else f"{figures.money(costs.gpu_hour * wasted / 3600)} {costs.currency}"
