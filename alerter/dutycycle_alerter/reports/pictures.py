"""A report as a picture: users by utilization, or bars of what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from dutycycle_alerter import plots
from dutycycle_alerter.figures import hours, percent
from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.plots.comparison import Bar, Bars, Tone
from dutycycle_alerter.reports.model import Kind, Report, RulesReport, UsageReport, WhereHours
from dutycycle_alerter.reports.sheet import WHERE, arranged
from dutycycle_alerter.reports.shown import TITLES, ledger_begins, named, span
from dutycycle_alerter.usage import GroupUsage, hours_histogram, users_histogram, users_under

ROWS = 25
"""Bars of a picture: more would not be read."""
_TONES = {"busy": Tone.BUSY, "idle": Tone.WASTED, "low": Tone.WASTED, "untold": Tone.WASTED, "waited": Tone.WASTED}


def picture(report: Report, zone: tzinfo | None, *, sort: str = "", limit: int | None = None, note: str = "") -> bytes:
    """The report as PNG; `note` is what has to be known first, such as that it is a replay."""
    said = ", ".join(part for part in (note, span(report, zone)) if part)
    begins = ledger_begins(report.ledger_from, report.asked.since, zone)
    said += f". {begins}" if begins else ""
    if isinstance(report, UsageReport) and report.asked.kind is Kind.USERS:
        return plots.users_picture(
            users_histogram(report.rows),
            hours_histogram(report.rows),
            people=len(report.rows),
            under=users_under(report.rows),
            note=said,
        )
    return plots.bars_picture(bars(report, said, sort=sort, limit=limit))


def bars(report: Report, note: str, *, sort: str = "", limit: int | None = None) -> Bars:
    """What is drawn of a report: the first rows, with how many are left out."""
    title = TITLES[report.asked.kind]
    most = min(limit or ROWS, ROWS)
    if isinstance(report, (UsageReport, RulesReport)):
        rest = len(report.rows) - most
        note += f"; {rest:,} more not shown" if rest > 0 else ""
    if isinstance(report, RulesReport):
        rules = tuple(
            Bar(
                rule_name(row.name),
                ((row.opened - row.intended, Tone.BUSY), (row.intended, Tone.WASTED)),
                f"{row.opened:,} opened, {row.intended:,} intended",
            )
            for row in arranged(report, sort, most)
        )
        return Bars(title, note, rules, (("incidents", Tone.BUSY), ("of them intended", Tone.WASTED)))
    if isinstance(report, UsageReport):
        rows = tuple(_use(report.asked.kind, row) for row in arranged(report, sort, most))
        legend = (
            ("busy", Tone.BUSY),
            ("wasted: measured and not busy", Tone.WASTED),
            ("GPU-hours that were not measured", Tone.OTHER),
        )
        return Bars(title, note, rows, legend)
    return Bars(title, note, tuple(_where(report.hours)))


def _use(kind: Kind, row: GroupUsage) -> Bar:
    mean = "" if row.mean_percent is None else f", {percent(row.mean_percent / 100)}"
    return Bar(
        named(kind, row.name),
        (
            (min(row.busy, row.observed), Tone.BUSY),
            (row.wasted, Tone.WASTED),
            (max(0.0, row.allocated - row.observed), Tone.OTHER),
        ),
        f"{hours(row.wasted)} h wasted{mean}" if row.observed else f"{hours(row.allocated)} h, not measured",
    )


def _where(where: WhereHours) -> Sequence[Bar]:
    found = []
    for name, title in WHERE.items():
        seconds = getattr(where, name)
        if seconds and where.whole:
            said = f"{hours(seconds)} h, {percent(seconds / where.whole)}"
            found.append(Bar(title, ((seconds, _TONES.get(name, Tone.OTHER)),), said))
    return found
