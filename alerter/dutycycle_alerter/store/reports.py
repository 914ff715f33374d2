"""Reports, summed up by the database: a quarter of a large site has millions of rows."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.reports.model import (
    Asked,
    IncidentWaste,
    Kind,
    RulesReport,
    UsageReport,
    WasteReport,
    WhereHours,
)
from dutycycle_alerter.store import fleet_ledger, ledger
from dutycycle_alerter.store.feedback import feedback
from dutycycle_alerter.store.ledger import GroupedBy, in_range
from dutycycle_alerter.store.schema import incident, usage_hour
from dutycycle_alerter.usage import GroupUsage, known_sum

_BY: dict[Kind, GroupedBy] = {Kind.USERS: "user", Kind.ACCOUNTS: "account", Kind.MODELS: "model"}


def usage(connection: sa.Connection, asked: Asked, *, factor: float) -> UsageReport:
    """Return use by user, account or model; a model without use is one of the fleet."""
    rows = ledger.grouped(
        connection,
        _BY[asked.kind],
        since=asked.since,
        until=asked.until,
        factor=factor,
        cluster=asked.cluster,
        user=asked.user,
    )
    if asked.kind is Kind.MODELS:
        rows = _with_fleet(rows, _fleet(connection, asked, factor))
    seen = bool(rows) or any(map(_seen, _fleet(connection, replace(asked, user=None), factor)))
    return UsageReport(asked, tuple(rows), ledger.begins(connection), gpus_seen=seen)


def waste(connection: sa.Connection, asked: Asked, *, factor: float) -> WasteReport:
    """Where GPU-hours went."""
    return WasteReport(
        asked,
        _hours(connection, asked, factor),
        rules=_of_incidents(connection, asked, incident.c.rule, factor),
        causes=_of_incidents(connection, asked, incident.c.causes, factor),
        ledger_from=ledger.begins(connection),
    )


def rules(connection: sa.Connection, asked: Asked, *, factor: float) -> RulesReport:
    """What became of incidents, by the rule that is or was their primary one."""
    rows = feedback(
        connection, since=asked.since, until=asked.until, factor=factor, cluster=asked.cluster, user=asked.user
    )
    return RulesReport(asked, tuple(rows), ledger.begins(connection))


def _fleet(connection: sa.Connection, asked: Asked, factor: float) -> list[FleetAmounts]:
    if asked.user is not None:
        return []
    found = fleet_ledger.fleet(connection, since=asked.since, until=asked.until, factor=factor)
    return [item for item in found if asked.cluster is None or item.cluster == asked.cluster]


def _seen(item: FleetAmounts) -> bool:
    return any((item.allocated, item.unallocated, item.drained, item.down))


def _with_fleet(rows: list[GroupUsage], fleet: list[FleetAmounts]) -> list[GroupUsage]:
    """The rows with the fleet's GPUs of their model, and rows of the models that nobody used."""
    used = {row.name: row for row in rows}
    for item in fleet:
        if item.model or item.unallocated or item.drained or item.down:
            row = used.get(item.model) or GroupUsage(item.model, 0.0, 0.0, 0.0)
            used[item.model] = replace(
                row,
                unallocated=(row.unallocated or 0.0) + item.unallocated,
                drained=(row.drained or 0.0) + item.drained,
                down=(row.down or 0.0) + item.down,
            )
    return list(used.values())


def _hours(connection: sa.Connection, asked: Asked, factor: float) -> WhereHours:
    columns = usage_hour.c
    before = sa.case((columns.idle.is_(None), ledger.WASTED), else_=0.0)
    placed = sa.case((columns.spread.is_not(None), columns.allocated), else_=0.0)
    sums = (columns.allocated, columns.observed, ledger.BUSY, ledger.IDLE, before, columns.spread, placed)
    query = sa.select(*(sa.func.sum(one) for one in sums)).where(
        *in_range(usage_hour, asked.since, asked.until, cluster=asked.cluster, user=asked.user)
    )
    known = [None if value is None else factor * value for value in connection.execute(query).one()]
    allocated, observed, busy, idle, untold, spread, together = known
    wasted = max(0.0, (observed or 0.0) - (busy or 0.0))
    untold = min(wasted, max(0.0, untold or 0.0))
    # But for rounding, they are no more than all.
    idle = None if idle is None else min(idle, wasted - untold)
    fleet = _fleet(connection, asked, factor)
    waited = known_sum(item.waited for item in fleet)
    unallocated = sum(item.unallocated for item in fleet)
    return WhereHours(
        busy=(observed or 0.0) - wasted,
        idle=idle,
        low=None if idle is None else wasted - untold - idle,
        untold=untold,
        unmeasured=max(0.0, (allocated or 0.0) - (observed or 0.0)),
        waited=waited,
        free=max(0.0, unallocated - (waited or 0.0)) if fleet else None,
        drained=sum(item.drained for item in fleet) if fleet else None,
        down=sum(item.down for item in fleet) if fleet else None,
        unknown=sum(item.unknown for item in fleet) if fleet else None,
        spread=spread,
        placed=together or 0.0,
    )


def _of_incidents(
    connection: sa.Connection, asked: Asked, by: sa.ColumnElement[str], factor: float
) -> tuple[IncidentWaste, ...]:
    columns = incident.c
    query = (
        sa.select(by, sa.func.count(), sa.func.sum(columns.wasted), sa.func.sum(columns.energy))
        .where(
            *in_range(incident, asked.since, asked.until, cluster=asked.cluster, user=asked.user, at="opened_at"),
            columns.kind == "efficiency",
        )
        .group_by(by)
    )
    found = [
        IncidentWaste(name, number, wasted * factor, energy * factor)
        for name, number, wasted, energy in connection.execute(query)
    ]
    return tuple(sorted(found, key=lambda one: (-one.wasted, one.name)))
