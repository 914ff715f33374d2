"""The JSON of reports: the shapes of `dutycycle report --format json` and of the API, filled here.

As in `wire`: units are in the names, null is not known, times are RFC 3339, and what is shown is on the scale of
people.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from dutycycle_alerter.reports.model import (
    IncidentWaste,
    Kind,
    Report,
    RuleOutcomes,
    RulesReport,
    UsageReport,
    WasteReport,
)
from dutycycle_alerter.reports.sheet import arranged
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import GroupUsage, hours_histogram, users_histogram, users_under
from dutycycle_alerter.wire import Moment, Shape, Text

_T = TypeVar("_T")


class RangeShape(Shape):
    """What every report says of itself."""

    replay: bool
    kind: Kind
    since: Moment
    until: Moment
    """The report is of hours that begin within this range."""
    cluster: Text | None
    """Null: of all."""
    ledger_from: Moment | None
    """The ledger's first hour, null where it is empty."""
    currency: str
    """Of the costs; these are null where no price is configured."""


class UsageShape(Shape):
    """What a user, an account or a model of GPUs used."""

    name: Text
    """Empty: not known."""
    jobs: int
    incidents: int
    allocated_gpu_hours: float
    observed_gpu_hours: float
    busy_gpu_hours: float
    wasted_gpu_hours: float | None
    """Measured and not busy; null where nothing was measured."""
    idle_gpu_hours: float | None
    """The part of the waste on GPUs that did nothing."""
    spread_gpu_hours: float | None
    """Allocated to jobs on more nodes than they need."""
    mean_utilization_percent: float | None
    energy_kwh: float | None
    cost: float | None
    """Of what was allocated."""
    wasted_cost: float | None
    co2_kg: float | None
    unallocated_gpu_hours: float | None
    """Of the fleet's GPUs of a model, as the next two."""
    drained_gpu_hours: float | None
    down_gpu_hours: float | None


class UsageAnswer(RangeShape):
    """Use by user, account or model."""

    gpus_seen: bool
    """Whether any GPU was seen in the range. Where none was, use is unknown and not zero."""
    total: int
    """How many rows there are in all."""
    offset: int
    """Rows before these."""
    rows: list[UsageShape]
    totals: UsageShape
    """Of all rows, also of those that are not listed."""
    users_under_15: int | None
    """Null where it is not by user."""
    users_histogram: list[int] | None
    """Users per 5-point bin of mean utilization, 20 bins."""
    gpu_hours_histogram: list[float] | None
    """Measured GPU-hours of the users in each of these bins."""


class WhereShape(Shape):
    """Where GPU-hours went: all but `spread` and `placed` are disjoint and add up to `whole`."""

    whole_gpu_hours: float
    busy_gpu_hours: float
    idle_gpu_hours: float | None
    low_gpu_hours: float | None
    """Not busy, on GPUs that worked."""
    untold_gpu_hours: float
    """Not busy, from before idle was told apart."""
    unmeasured_gpu_hours: float
    waited_gpu_hours: float | None
    """Free while jobs waited for as many GPUs."""
    free_gpu_hours: float | None
    """Free otherwise."""
    drained_gpu_hours: float | None
    down_gpu_hours: float | None
    unknown_gpu_hours: float | None
    spread_gpu_hours: float | None
    """Of jobs on more nodes than they need,"""
    placed_gpu_hours: float
    """of those for which that is known."""


class IncidentWasteShape(Shape):
    """What incidents of one rule or cause wasted."""

    name: Text
    incidents: int
    wasted_gpu_hours: float
    energy_kwh: float
    """All that their jobs drew meanwhile."""
    wasted_cost: float | None


class WasteAnswer(RangeShape):
    """Where GPU-hours went."""

    where: WhereShape
    rules: list[IncidentWasteShape]
    causes: list[IncidentWasteShape]


class RuleOutcomesShape(Shape):
    """What became of the incidents of one rule."""

    rule: Text
    opened: int
    told: int
    """Of how many some person was told, not a program alone."""
    acknowledged: int
    snoozed: int
    intended: int
    """And not taken back since."""
    wrong: int
    """Of those that somebody was told of, how many were intended."""
    wrong_ratio: float | None
    closed: int
    """By a person. What is counted from here to `active` adds up to `opened`."""
    closed_as_intended: int
    cleared: int
    ended: int
    """With the job."""
    excluded: int
    """By a policy."""
    lost: int
    """Out of sight."""
    active: int
    acknowledged_after_seconds: float | None
    """Median."""
    cleared_after_seconds: float | None
    """Median."""


class RulesAnswer(RangeShape):
    """How often rules were right."""

    total: int
    """How many rows there are in all."""
    offset: int
    """Rows before these."""
    rows: list[RuleOutcomesShape]


def answer(report: Report, costs: Costs, *, replay: bool, sort: str = "", limit: int | None = None) -> RangeShape:
    """The report as JSON has it. `sort` is one of `sheet.sort_keys`."""
    if isinstance(report, WasteReport):
        return waste_answer(report, costs, replay=replay)
    if isinstance(report, RulesReport):
        return rules_answer(report, costs, replay=replay, sort=sort, limit=limit)
    return usage_answer(report, costs, replay=replay, sort=sort, limit=limit)


def usage_answer(
    report: UsageReport, costs: Costs, *, replay: bool, sort: str = "", limit: int | None = None, offset: int = 0
) -> UsageAnswer:
    """Use by user, account or model: `limit` rows after the first `offset`."""
    people = report.rows if report.asked.kind is Kind.USERS else None
    return UsageAnswer(
        **_head(report, costs, replay=replay),
        gpus_seen=report.gpus_seen,
        total=len(report.rows),
        offset=offset,
        rows=[_usage(row, costs) for row in _cut(arranged(report, sort), offset, limit)],
        totals=_usage(report.totals, costs),
        users_under_15=None if people is None else users_under(people),
        users_histogram=None if people is None else users_histogram(people),
        gpu_hours_histogram=None if people is None else [round(one / 3600, 6) for one in hours_histogram(people)],
    )


def waste_answer(report: WasteReport, costs: Costs, *, replay: bool) -> WasteAnswer:
    """Where GPU-hours went."""
    return WasteAnswer(
        **_head(report, costs, replay=replay),
        where=_where(report),
        rules=_incidents(report.rules, costs),
        causes=_incidents(report.causes, costs),
    )


def rules_answer(
    report: RulesReport, costs: Costs, *, replay: bool, sort: str = "", limit: int | None = None, offset: int = 0
) -> RulesAnswer:
    """How often rules were right: `limit` rows after the first `offset`."""
    rows = _cut(arranged(report, sort), offset, limit)
    head = _head(report, costs, replay=replay)
    return RulesAnswer(**head, total=len(report.rows), offset=offset, rows=[_rule(row) for row in rows])


def _head(report: Report, costs: Costs, *, replay: bool) -> dict[str, Any]:
    asked = report.asked
    return {
        "replay": replay,
        "kind": asked.kind,
        "since": _at(asked.since),
        "until": _at(asked.until),
        "cluster": asked.cluster,
        "ledger_from": None if report.ledger_from is None else _at(report.ledger_from),
        "currency": costs.currency,
    }


def _cut(rows: Sequence[_T], offset: int, limit: int | None) -> Sequence[_T]:
    return rows[offset : None if limit is None else offset + limit]


def _usage(row: GroupUsage, costs: Costs) -> UsageShape:
    carbon = costs.co2_grams_per_kwh
    wasted = row.wasted if row.observed else None
    return UsageShape(
        name=row.name,
        jobs=row.jobs,
        incidents=row.incidents,
        allocated_gpu_hours=round(row.allocated / 3600, 6),
        observed_gpu_hours=round(row.observed / 3600, 6),
        busy_gpu_hours=round(row.busy / 3600, 6),
        wasted_gpu_hours=_hours(wasted),
        idle_gpu_hours=_hours(row.idle),
        spread_gpu_hours=_hours(row.spread),
        mean_utilization_percent=None if row.mean_percent is None else round(row.mean_percent, 3),
        energy_kwh=None if row.energy is None else round(row.energy / 3.6e6, 6),
        cost=_cost(row.allocated, costs),
        wasted_cost=None if wasted is None else _cost(wasted, costs),
        co2_kg=None if carbon is None or row.energy is None else round(carbon * row.energy / 3.6e9, 6),
        unallocated_gpu_hours=_hours(row.unallocated),
        drained_gpu_hours=_hours(row.drained),
        down_gpu_hours=_hours(row.down),
    )


def _where(report: WasteReport) -> WhereShape:
    names = [name.removesuffix("_gpu_hours") for name in WhereShape.model_fields]
    return WhereShape.model_validate({f"{name}_gpu_hours": _hours(getattr(report.hours, name)) for name in names})


def _incidents(rows: Sequence[IncidentWaste], costs: Costs) -> list[IncidentWasteShape]:
    return [
        IncidentWasteShape(
            name=row.name,
            incidents=row.incidents,
            wasted_gpu_hours=round(row.wasted / 3600, 6),
            energy_kwh=round(row.energy / 3.6e6, 6),
            wasted_cost=_cost(row.wasted, costs),
        )
        for row in rows
    ]


def _rule(row: RuleOutcomes) -> RuleOutcomesShape:
    return RuleOutcomesShape(
        rule=row.name,
        opened=row.opened,
        told=row.told,
        acknowledged=row.acknowledged,
        snoozed=row.snoozed,
        intended=row.intended,
        wrong=row.wrong,
        wrong_ratio=row.wrong_share,
        closed=row.closed,
        closed_as_intended=row.closed_as_intended,
        cleared=row.cleared,
        ended=row.ended,
        excluded=row.excluded,
        lost=row.lost,
        active=row.active,
        acknowledged_after_seconds=row.to_acknowledge,
        cleared_after_seconds=row.to_clear,
    )


def _at(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds / 3600, 6)


def _cost(seconds: float, costs: Costs) -> float | None:
    return None if costs.gpu_hour is None else round(costs.gpu_hour * seconds / 3600, 4)
