"""A report as columns and rows, alike for the terminal, CSV and the page: what is in which, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.reports.model import (
    IncidentWaste,
    Kind,
    Report,
    RulesReport,
    UsageReport,
    WasteReport,
    WhereHours,
)
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import GroupUsage

Value = str | float | None
"""None is not known."""


class Unit(StrEnum):
    """What a column's values are: seconds for GPU-hours, a ratio 0..1 for shares, joules, grams of CO2, seconds."""

    TEXT = "text"
    COUNT = "count"
    GPU_HOURS = "gpu_hours"
    SHARE = "percent"
    ENERGY = "kwh"
    MONEY = "money"
    CO2 = "kg"
    SPAN = "seconds"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names it in CSV and for sorting, `title` for people, `unknown` what an empty name is called. Only CSV has
    room for what is `aside`, and a page, too, for what is `wide`.
    """

    key: str
    title: str
    unit: Unit
    aside: bool = False
    wide: bool = False
    unknown: str = ""

    @property
    def header(self) -> str:
        """Its name in CSV, with the unit: `wasted_gpu_hours`."""
        plain = self.unit in (Unit.TEXT, Unit.COUNT, Unit.MONEY) or self.key == self.unit
        return self.key if plain else f"{self.key}_{self.unit}"


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table. The first column is who or what a row is about. `rest` is how many rows more there are."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    totals: tuple[Value, ...] | None = None
    rest: int = 0


@dataclass(frozen=True, slots=True)
class _Field:
    """A column, and where a row has its value."""

    column: Column
    of: Callable[[Any], Value]


def sheets(report: Report, costs: Costs, *, sort: str = "", limit: int | None = None) -> tuple[Sheet, ...]:
    """The report's tables. `sort` is one of `sort_keys`. Columns of money and CO2 are there where these are configured.
    Totals are of all rows, also of those that are not listed.
    """
    if isinstance(report, WasteReport):
        return _waste(report, costs)
    listed = arranged(report, sort, limit)
    rest = len(report.rows) - len(listed)
    if isinstance(report, RulesReport):
        return (_sheet("rules", "", _RULES, listed, rest=rest),)
    fields = _used(report)
    fields += _money(costs, "cost", "Cost", attrgetter("allocated"), aside=True)
    fields += _money(costs, "wasted_cost", "Waste", _wasted) + _carbon(costs)
    totals = [report.totals] if len(report.rows) > 1 else []
    return (_sheet(report.asked.kind, "", fields, listed, totals=totals, rest=rest),)


def arranged(report: UsageReport | RulesReport, sort: str = "", limit: int | None = None) -> list[Any]:
    """The first `limit` rows of a report: as they are, or by a column the largest first, what is unknown last, and
    names from A.
    """
    rows: list[Any] = list(report.rows)
    if sort:
        fields = _RULES if isinstance(report, RulesReport) else _used(report)
        of = next(field.of for field in fields if field.column.key == sort)
        rows.sort(key=lambda row: _order(of(row)))
    return rows[:limit]


def sort_keys(kind: Kind) -> tuple[str, ...]:
    """What a report can be sorted by; nothing where its order is fixed."""
    if kind is Kind.WASTE:
        return ()
    fields = _RULES if kind is Kind.RULES else [*_NAMES[kind], *_MEASURED, *_ENDS[kind]]
    return tuple(field.column.key for field in fields)


def _order(value: Value) -> tuple[bool, float, str]:
    return (value is None, 0.0, value) if isinstance(value, str) else (value is None, -(value or 0.0), "")


def _field(key: str, title: str, unit: Unit, of: Callable[[Any], Value] | None = None, **more: Any) -> _Field:
    return _Field(Column(key, title, unit, **more), of or attrgetter(key))


def _sheet(
    key: str, title: str, fields: Sequence[_Field], rows: Iterable[Any], *, totals: Sequence[Any] = (), rest: int = 0
) -> Sheet:
    said = [tuple(field.of(row) for field in fields) for row in (*rows, *totals)]
    columns = tuple(field.column for field in fields)
    if totals:
        *said, last = said
        return Sheet(key, title, columns, tuple(said), (None, *last[1:]), rest)
    return Sheet(key, title, columns, tuple(said), None, rest)


def _ratio(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0 else part / whole


def _wasted(row: GroupUsage) -> float | None:
    return row.wasted if row.observed else None


_NAMES = {
    Kind.USERS: [_field("user", "User", Unit.TEXT, attrgetter("name"), unknown="unknown user")],
    Kind.ACCOUNTS: [_field("account", "Account", Unit.TEXT, attrgetter("name"), unknown="no account")],
    Kind.MODELS: [_field("model", "Model", Unit.TEXT, attrgetter("name"), unknown="unknown model")],
}
_MEASURED = [
    _field("utilization", "Utilization", Unit.SHARE, lambda row: _ratio(row.busy, row.observed)),
    _field("wasted", "Wasted", Unit.GPU_HOURS, _wasted),
    _field("idle", "Idle", Unit.GPU_HOURS),
    _field("allocated", "Allocated", Unit.GPU_HOURS),
    _field("observed", "Measured", Unit.GPU_HOURS, aside=True),
    _field("busy", "Busy", Unit.GPU_HOURS, lambda row: row.busy if row.observed else None, aside=True),
    _field("spread", "On more nodes than needed", Unit.GPU_HOURS, aside=True),
    _field("energy", "Energy", Unit.ENERGY),
]
_LESS = ("idle", "energy")
_PEOPLE = [_field("jobs", "Jobs", Unit.COUNT, wide=True), _field("incidents", "Incidents", Unit.COUNT, wide=True)]
_FLEET = [
    _field("unallocated", "Free", Unit.GPU_HOURS),
    _field("drained", "Drained", Unit.GPU_HOURS),
    _field("down", "Down", Unit.GPU_HOURS),
]
_ENDS = {Kind.USERS: _PEOPLE, Kind.ACCOUNTS: _PEOPLE, Kind.MODELS: _FLEET}
_RULES = [
    _field("rule", "Rule", Unit.TEXT, lambda row: rule_name(row.name)),
    _field("opened", "Opened", Unit.COUNT),
    _field("told", "Reported", Unit.COUNT),
    _field("acknowledged", "Acknowledged", Unit.COUNT),
    _field("to_acknowledge", "after", Unit.SPAN, wide=True),
    _field("snoozed", "Snoozed", Unit.COUNT, wide=True),
    _field("intended", "Intended", Unit.COUNT),
    _field("wrong", "Wrong", Unit.SHARE, attrgetter("wrong_share")),
    _field("closed", "By hand", Unit.COUNT),
    _field("closed_as_intended", "As intended", Unit.COUNT, aside=True),
    _field("cleared", "Cleared", Unit.COUNT),
    _field("to_clear", "after", Unit.SPAN, wide=True),
    _field("ended", "Ended", Unit.COUNT, wide=True),
    _field("excluded", "Excluded", Unit.COUNT, aside=True),
    _field("lost", "Lost", Unit.COUNT, aside=True),
    _field("active", "Active", Unit.COUNT),
]


def _used(report: UsageReport) -> list[_Field]:
    kind, whole = report.asked.kind, report.totals.allocated
    share = _field("share", "Share", Unit.SHARE, lambda row: _ratio(row.allocated, whole), aside=kind is Kind.MODELS)
    measured = _MEASURED
    if kind is Kind.MODELS:  # their names are long
        measured = [replace(one, column=replace(one.column, wide=one.column.key in _LESS)) for one in measured]
    return [*_NAMES[kind], *measured, share, *_ENDS[kind]]


def _money(
    costs: Costs, key: str, title: str, of: Callable[[Any], float | None], *, aside: bool = False
) -> list[_Field]:
    """What GPU-seconds cost, where a price is configured."""
    price = costs.gpu_hour
    if price is None:
        return []

    def money(row: Any) -> Value:
        seconds = of(row)
        return None if seconds is None else price * seconds / 3600

    return [_field(key, f"{title}, {costs.currency}", Unit.MONEY, money, aside=aside)]


def _carbon(costs: Costs) -> list[_Field]:
    """The CO2 of what was drawn, where the electricity's is configured."""
    grams = costs.co2_grams_per_kwh
    if grams is None:
        return []
    return [
        _field(
            "co2", "CO₂", Unit.CO2, lambda row: None if row.energy is None else grams * row.energy / 3.6e6, wide=True
        )
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the fleet's GPU-seconds; None is not known."""

    name: str
    seconds: float | None


WHERE = {
    "busy": "Busy",
    "idle": "Allocated and idle",
    "low": "Allocated and not busy, on GPUs that worked",
    "untold": "Allocated and not busy; whether idle is not known",
    "unmeasured": "Allocated, not measured",
    "waited": "Free while jobs waited for GPUs",
    "free": "Free otherwise",
    "drained": "Drained",
    "down": "Down",
    "unknown": "Unknown",
}
"""What people call the parts of `WhereHours`."""


def parts(hours: WhereHours) -> list[tuple[str, float | None]]:
    """The disjoint parts by their names for people; those that need no mention left out."""
    found = [(title, getattr(hours, name)) for name, title in WHERE.items() if name != "untold" or hours.untold]
    return found if hours.whole else []


def _waste(report: WasteReport, costs: Costs) -> tuple[Sheet, ...]:
    hours = report.hours
    seconds = attrgetter("seconds")

    def named(title: str, whole: float) -> list[_Field]:
        return [
            _field("name", title, Unit.TEXT, unknown="unknown"),
            _field("gpu_hours", "GPU-hours", Unit.GPU_HOURS, seconds),
            _field("share", "Share", Unit.SHARE, lambda row: _ratio(row.seconds, whole)),
            *_money(costs, "cost", "Cost", seconds),
        ]

    where = [_Part(name, amount) for name, amount in parts(hours)]
    made = [_sheet("where", "Where GPU-hours went", named("GPUs were", hours.whole), where)]
    if hours.placed:
        spread = [_Part("On more nodes than needed", hours.spread)]
        made.append(_sheet("spread", "Spread of jobs", named("Jobs were", hours.placed), spread))
    wasted = attrgetter("wasted")
    for key, title, column, rows in (
        (
            "rule",
            "Waste of incidents, by rule",
            "Rule",
            [replace(row, name=rule_name(row.name)) for row in report.rules],
        ),
        ("cause", "Waste of incidents, by cause", "Cause", report.causes),
    ):
        whole = sum(row.wasted for row in rows)
        fields = [
            _field("name", column, Unit.TEXT, unknown="unknown"),
            _field("gpu_hours", "GPU-hours", Unit.GPU_HOURS, wasted),
            _field("share", "Share", Unit.SHARE, partial(_share, whole=whole)),
            *_money(costs, "cost", "Cost", wasted),
            _field("incidents", "Incidents", Unit.COUNT),
            _field("energy", "Drawn meanwhile", Unit.ENERGY),
            *_carbon(costs),
        ]
        if rows:
            made.append(_sheet(key, title, fields, rows))
    return tuple(made)


def _share(row: IncidentWaste, whole: float) -> float | None:
    return _ratio(row.wasted, whole)
