"""What people read of a report besides its rows: its title, its range, and what to know about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo

from dutycycle_alerter import figures
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.reports.model import Kind, Report, RulesReport, UsageReport
from dutycycle_alerter.reports.sheet import Column, Sheet, Unit, Value
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT, median_percent, users_histogram, users_under

TITLES = {
    Kind.USERS: "How well users used their GPUs",
    Kind.ACCOUNTS: "How well accounts used their GPUs",
    Kind.MODELS: "How well GPUs of each model were used",
    Kind.WASTE: "Where GPU-hours went",
    Kind.RULES: "How often rules were right",
}


_NAMELESS = {Kind.USERS: "unknown user", Kind.ACCOUNTS: "no account", Kind.MODELS: "unknown model"}


def named(kind: Kind, name: str) -> str:
    """A user, an account or a model for people."""
    return name or _NAMELESS[kind]


def span(report: Report, zone: tzinfo | None) -> str:
    """The range, and the cluster where one was asked for."""
    asked = report.asked
    said = f"{_minute(asked.since, zone)}{figures.other_zone(asked.since, now=asked.until, zone=zone)}"
    said += f" to {_named_minute(asked.until, zone)}"
    return (
        said if asked.cluster is None else f"{said}, cluster {printable(asked.cluster, NAME_LIMIT) or 'without a name'}"
    )


def ledger_begins(ledger_from: float | None, since: float, zone: tzinfo | None) -> str:
    """That the ledger begins only after a range does; empty where it covers it, or is empty itself."""
    if ledger_from is None or ledger_from <= since:
        return ""
    return f"The ledger begins at {_named_minute(ledger_from, zone)}: nothing earlier is known."


def _minute(timestamp: float, zone: tzinfo | None) -> str:
    return f"{figures.local(timestamp, zone):%Y-%m-%d %H:%M}"


def _named_minute(timestamp: float, zone: tzinfo | None) -> str:
    """With the zone as it was then: clocks may have been changed since."""
    return f"{_minute(timestamp, zone)} {figures.zone_name(timestamp, zone)}"


def empty(report: Report, zone: tzinfo | None) -> str:
    """What to say where there is nothing to show; empty where there is something."""
    if isinstance(report, RulesReport):
        return "" if report.rows else "No incident was opened in this time."
    if report.rows if isinstance(report, UsageReport) else report.hours.whole or report.rules:
        return ""
    if report.ledger_from is None:
        return "The ledger is empty: the passes of `dutycycle up` or `dutycycle serve` fill it, hour by hour."
    seen = report.gpus_seen if isinstance(report, UsageReport) else False
    said = "Nobody held a GPU in this time." if seen else "Unknown. No GPU was seen in this time."
    return f"{said} The ledger begins at {_named_minute(report.ledger_from, zone)}."


def notes(report: Report, zone: tzinfo | None) -> tuple[str, ...]:
    """What to know about the figures, first that they are not of the whole range; with times of `zone`."""
    begins = ledger_begins(report.ledger_from, report.asked.since, zone)
    return (*([begins] if begins else []), *_meanings(report))


def _meanings(report: Report) -> tuple[str, ...]:
    if isinstance(report, RulesReport):
        return (
            "Incidents that opened in this time. Wrong: the share of reported ones that somebody marked as intended.",
        )
    if not isinstance(report, UsageReport):
        said = ["The first table adds up to all known GPU-hours; the others break down parts of it."]
        if report.hours.waited is not None:
            said.append("Waiting jobs name no model: the free GPUs may have been of another kind.")
        if report.rules:
            said.append("Incidents that opened in this time count with everything that they wasted.")
        return tuple(said)
    said = ["Wasted is what was measured and not busy; idle is the part of it on GPUs that did nothing."]
    if report.asked.kind is Kind.USERS:
        measured = sum(users_histogram(report.rows))
        low = users_under(report.rows)
        share = figures.percent(low / measured) if measured else figures.UNKNOWN
        said.insert(0, f"{low} of {measured} measured users under {LOW_UTILIZATION_PERCENT:.0f} % ({share} of them).")
        median = median_percent(report.rows)
        if median is not None:
            said.insert(1, f"The median of their mean utilizations is {figures.percent(median / 100)}.")
    return tuple(said)


_SAID: dict[Unit, Callable[[float], str]] = {
    Unit.COUNT: lambda value: f"{value:,}",
    Unit.GPU_HOURS: figures.hours,
    Unit.SHARE: figures.percent,
    Unit.ENERGY: figures.energy,
    Unit.MONEY: figures.money,
    Unit.SPAN: format_duration,
    Unit.CO2: figures.mass,
}


def figure(value: Value, column: Column) -> str:
    """A value as people read it, as long as it may be."""
    if isinstance(value, str):
        return value or column.unknown
    if value is None:
        return "" if column.unit is Unit.TEXT else figures.UNKNOWN
    return _SAID[column.unit](value)


def more(sheet: Sheet) -> str:
    """How many rows are not listed."""
    return f"{sheet.rest:,} more {'row is' if sheet.rest == 1 else 'rows are'} not listed." if sheet.rest else ""


_Row = tuple[Value, ...]


def brief(sheet: Sheet, *, wide: bool) -> tuple[tuple[Column, ...], Sequence[_Row], _Row | None]:
    """The columns, rows and totals that there is room for, on a page (`wide`) or in a terminal."""
    places = [i for i, column in enumerate(sheet.columns) if not column.aside and (wide or not column.wide)]

    def of(row: _Row) -> _Row:
        return tuple(row[i] for i in places)

    columns = tuple(sheet.columns[i] for i in places)
    return columns, [of(row) for row in sheet.rows], None if sheet.totals is None else of(sheet.totals)
