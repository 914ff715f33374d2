"""A report of the ledger as one page that needs nothing beside itself: style and pictures are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from markupsafe import Markup

from dutycycle_alerter.reports.model import Kind, Report, UsageReport
from dutycycle_alerter.reports.sheet import Column, Sheet, Unit, sheets
from dutycycle_alerter.reports.shown import TITLES, brief, empty, figure, more, notes, span
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import (
    LOW_UTILIZATION_PERCENT,
    hours_histogram,
    median_percent,
    users_histogram,
    users_under,
)
from dutycycle_alerter.web import charts
from dutycycle_alerter.web.templating import STATIC, Show, environment


@dataclass(frozen=True, slots=True)
class _Cell:
    """What is said, and the value where it may be drawn."""

    said: str
    ratio: float | None = None
    low: bool = False


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the template has it; each column with how it is set: `text`, `num`, `hours` or `bar`."""

    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[_Cell]]
    totals: Sequence[str] | None
    more: str


def ledger_page(
    report: Report,
    costs: Costs,
    zone: tzinfo | None,
    *,
    now: float,
    replay: bool = False,
    sort: str = "",
    limit: int | None = None,
) -> str:
    """The page. Times are of `zone` (None: the machine's own); `now` is when it says it was made."""
    people = report.rows if isinstance(report, UsageReport) and report.asked.kind is Kind.USERS else ()
    bins = users_histogram(people)
    page = environment().get_template("ledger.html")
    return page.render(
        show=Show(now, zone, 1.0),
        now=now,
        style=Markup((STATIC / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        title=TITLES[report.asked.kind],
        span=span(report, zone),
        replay=replay,
        empty=empty(report, zone),
        totals=report.totals if isinstance(report, UsageReport) else None,
        histogram=charts.users_histogram(bins),
        weighted=charts.hours_histogram(hours_histogram(people)),
        low=users_under(people),
        median=median_percent(people),
        measured=sum(bins),
        tables=[_table(sheet) for sheet in sheets(report, costs, sort=sort, limit=limit)],
        notes=notes(report, zone),
    )


def _table(sheet: Sheet) -> _Table:
    drawn = "share" if all(column.key != "utilization" for column in sheet.columns) else "utilization"
    columns, rows, totals = brief(sheet, wide=True)
    cells = [
        [
            _Cell(
                figure(value, column),
                value if isinstance(value, float) else None,
                low=column.key == "utilization" and isinstance(value, float) and 100 * value < LOW_UTILIZATION_PERCENT,
            )
            for value, column in zip(row, columns, strict=True)
        ]
        for row in rows
    ]
    summed = None if totals is None else [figure(value, column) for value, column in zip(totals, columns, strict=True)]
    named = [(column.title, _style(column, drawn)) for column in columns]
    return _Table(sheet.title, named, cells, summed, more(sheet))


def _style(column: Column, drawn: str) -> str:
    if column.key == drawn:
        return "bar"
    if column.unit is Unit.GPU_HOURS and column.title != "GPU-hours":
        return "hours"
    return "text" if column.unit is Unit.TEXT else "num"
