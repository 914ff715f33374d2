"""Reports are summed up by the database: rows add up to totals, ranges and clusters are kept, unknown stays unknown."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.model import Cause, Event, EventKind, Resolution, State, Step
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.reports.model import Asked, Kind, UsageReport, WasteReport
from dutycycle_alerter.store import fleet_ledger, incidents, ledger, reports
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT, GroupUsage, users_histogram, users_under
from tests.alerter.store.conftest import undone
from tests.alerter.store.test_incidents import incident

HOUR = 3600.0
START = 480_000 * HOUR
ALL = Asked(Kind.USERS, 0.0, 1e12)


def job(number: int = 1, user: str = "alice", *, account: str = "lab", cluster: str = "") -> Job:
    gpus = (Gpu("gpu1", "0"),)
    return Job(f"slurm/{number}", gpus, START, user=user, account=account, scheduler="slurm", cluster=cluster)


def used(allocated: float, observed: float, busy: float, **more: float | str | None) -> Consumption:
    values: dict[str, float | str | None] = {"model": "H200", "allocated": allocated, "observed": observed} | more
    return Consumption(busy=busy, **values)  # type: ignore[arg-type]


def account(database: Database, *items: tuple[Job, Consumption], at: float = START) -> None:
    with database.write() as connection:
        ledger.add(connection, at, items)


def seen(database: Database, *items: FleetAmounts, seconds: float = HOUR) -> None:
    """The fleet was so for a while."""
    with database.write() as connection:
        fleet_ledger.add(connection, START, (), longest=1e9)
        fleet_ledger.add(connection, START + seconds, items, longest=1e9)


def usage(database: Database, kind: Kind, *, factor: float = 1.0, **asked: object) -> UsageReport:
    with database.read() as connection:
        return reports.usage(connection, replace(ALL, kind=kind, **asked), factor=factor)  # type: ignore[arg-type]


def waste(database: Database, *, factor: float = 1.0, **asked: object) -> WasteReport:
    with database.read() as connection:
        return reports.waste(connection, replace(ALL, kind=Kind.WASTE, **asked), factor=factor)  # type: ignore[arg-type]


def names(report: UsageReport) -> list[str]:
    return [row.name for row in report.rows]


def test_the_same_use_is_grouped_by_user_account_or_model(database: Database) -> None:
    account(
        database,
        (job(1, "alice"), used(100, 90, 40)),
        (job(2, "bob", account="bio"), used(100, 90, 80, model="A100")),
        (job(3, "alice", account="bio"), used(100, 0, 0)),
    )
    users = usage(database, Kind.USERS)
    assert [(row.name, row.allocated, row.observed, row.busy, row.jobs) for row in users.rows] == [
        ("alice", 200, 90, 40, 2),
        ("bob", 100, 90, 80, 1),
    ]
    assert [(row.name, row.allocated, row.busy) for row in usage(database, Kind.ACCOUNTS).rows] == [
        ("lab", 100, 40),
        ("bio", 200, 80),
    ]
    assert [(row.name, row.allocated) for row in usage(database, Kind.MODELS).rows] == [("H200", 200), ("A100", 100)]
    assert users.ledger_from == START


def test_a_report_is_of_its_range_its_cluster_and_its_user(database: Database) -> None:
    for hour in range(3):
        for number, (user, cluster) in enumerate(product(("alice", "bob"), ("north", "south"))):
            one = job(number, f"{user}-{cluster}", cluster=cluster)
            account(database, (one, used(60, 60, 6)), at=START + hour * HOUR)
    assert names(usage(database, Kind.USERS, cluster="south")) == ["alice-south", "bob-south"]
    assert names(usage(database, Kind.USERS, user="bob-north")) == ["bob-north"]
    part = usage(database, Kind.USERS, since=START + HOUR, until=START + 2 * HOUR)
    assert part.totals.allocated == 240
    assert waste(database, cluster="south", user="bob-south").hours.whole == 180
    assert usage(database, Kind.USERS, cluster="").rows == ()


def test_nothing_is_none_where_there_is_nothing(database: Database) -> None:
    assert usage(database, Kind.USERS) == UsageReport(ALL, (), None, gpus_seen=False)
    hours = waste(database).hours
    assert (hours.whole, hours.idle, hours.waited, hours.free, hours.spread) == (0, None, None, None, None)


def test_use_is_zero_where_gpus_were_seen_and_unknown_where_none_was(database: Database) -> None:
    seen(database, FleetAmounts("north", "H200", unallocated=8), FleetAmounts("south", "H200", unknown=8))
    found = {name: usage(database, Kind.USERS, cluster=name).gpus_seen for name in ("north", "south", "west")}
    assert found == {"north": True, "south": False, "west": False}
    assert usage(database, Kind.USERS, cluster="north", user="alice").gpus_seen


def test_what_was_not_measured_is_in_no_mean(database: Database) -> None:
    account(database, (job(), used(100, 0, 0)))
    (row,) = usage(database, Kind.USERS).rows
    assert (row.mean_percent, row.wasted, row.energy, row.idle, row.spread) == (None, 0, None, None, None)


def test_who_was_busy_for_longer_than_observed_takes_no_waste_from_others(database: Database) -> None:
    """GPUs that are shared are measured as one: every grouping, and where hours went, say the same sums."""
    account(
        database,
        (job(1, "alice"), used(100, 100, 130, idle=0.0)),
        (job(2, "bob"), used(100, 100, 0, idle=100.0)),
        (job(3, "bob"), used(100, 100, 50, idle=70.0)),
    )
    for kind in (Kind.USERS, Kind.ACCOUNTS, Kind.MODELS):
        total = usage(database, kind).totals
        assert (total.busy, total.wasted, total.idle) == (150, 150, 150)
    assert sum(row.wasted for row in usage(database, Kind.USERS).rows) == 150
    hours = waste(database).hours
    assert (hours.busy, hours.idle, hours.low) == (150, 150, 0)


def test_models_are_told_beside_the_fleets_and_also_where_nobody_used_them(database: Database) -> None:
    account(database, (job(), used(100, 90, 40)))
    seen(
        database,
        FleetAmounts("north", "H200", allocated=1, unallocated=2, drained=1),
        FleetAmounts("south", "H200", unallocated=1),
        FleetAmounts("south", "A100", down=1),
        FleetAmounts("south", "", pending=5, waited=1),
    )
    rows = {row.name: row for row in usage(database, Kind.MODELS).rows}
    assert rows.keys() == {"H200", "A100"}
    assert (rows["H200"].allocated, rows["H200"].unallocated, rows["H200"].drained) == (100, 3 * HOUR, HOUR)
    assert (rows["A100"].allocated, rows["A100"].down, rows["A100"].mean_percent) == (0, HOUR, None)
    (south,) = usage(database, Kind.MODELS, cluster="south", user=None).rows[:1]
    assert south.allocated == 0
    assert usage(database, Kind.MODELS, user="alice").rows[0].unallocated is None


def test_where_hours_went(database: Database) -> None:
    account(
        database,
        (job(1), used(100, 90, 40, idle=30.0, spread=100.0)),
        (job(2), used(50, 50, 50, idle=0.0, spread=0.0)),
        (job(3), used(10, 10, 4)),  # of before
    )
    seen(
        database,
        FleetAmounts("", "H200", allocated=1, unallocated=3, drained=1, down=2, unknown=1),
        FleetAmounts("", "", pending=2, waited=2),
        seconds=10,
    )
    hours = waste(database).hours
    assert (hours.busy, hours.idle, hours.low, hours.untold, hours.unmeasured) == (94, 30, 20, 6, 10)
    assert (hours.waited, hours.free, hours.drained, hours.down, hours.unknown) == (20, 10, 10, 20, 10)
    assert (hours.spread, hours.placed, hours.whole) == (100, 150, 160 + 70)
    assert waste(database, factor=60).hours.idle == 1800
    of_one = waste(database, user="alice").hours
    assert (of_one.idle, of_one.waited, of_one.free, of_one.unknown) == (30, None, None, None)


def test_what_incidents_wasted_is_told_by_rule_and_by_cause(database: Database) -> None:
    plain = incident("slurm/1", wasted=100.0, energy=7.0, opened_at=START)
    hesitating = replace(plain.diagnosis, causes=(Cause.DATA_LOADING, Cause.SMALL_WORK))
    steps = [
        plain,
        replace(plain, subject="slurm/2", rule="stalled", diagnosis=hesitating, wasted=300.0),
        replace(plain, subject="slurm/3"),
        replace(plain, subject="slurm/4", opened_at=START - 1),
        replace(plain, subject="gpu/1", kind="leaked_memory"),
    ]
    with database.write() as connection:
        incidents.save_all(connection, [(None, Step(one)) for one in steps])
    found = waste(database, since=START, factor=2)
    assert [(one.name, one.incidents, one.wasted, one.energy) for one in found.rules] == [
        ("stalled", 1, 600, 14),
        ("idle", 2, 400, 28),
    ]
    assert [(one.name, one.wasted) for one in found.causes] == [
        ("data loading or small work per step", 600),
        ("no process", 400),
    ]


def test_how_often_a_rule_was_right_is_counted_by_incident(database: Database) -> None:
    """However often an incident was acknowledged, it is one."""

    def events(*kinds: EventKind) -> tuple[Event, ...]:
        return tuple(Event(START, kind, "", data={"addresses": ["bob@example.org"]}) for kind in kinds)

    one = incident(opened_at=START)
    over = {"state": State.RESOLVED, "resolved_at": START + 1}
    steps = [
        Step(replace(one, subject="slurm/1"), events(EventKind.TOLD, EventKind.TOLD, EventKind.ACKNOWLEDGED)),
        Step(
            replace(one, subject="slurm/2", resolution=Resolution.INTENDED, **over),  # type: ignore[arg-type]
            events(EventKind.TOLD, EventKind.INTENDED, EventKind.INTENDED),
        ),
        Step(replace(one, subject="slurm/3", resolution=Resolution.OPERATOR, **over)),  # type: ignore[arg-type]
        Step(replace(one, subject="slurm/4", resolution=Resolution.CLEARED, **over)),  # type: ignore[arg-type]
        Step(replace(one, subject="slurm/5", rule="hung")),
        Step(replace(one, subject="slurm/6", opened_at=START - 1)),
    ]
    with database.write() as connection:
        incidents.save_all(connection, [(None, step) for step in steps])
    with database.read() as connection:
        found = reports.rules(connection, replace(ALL, kind=Kind.RULES, since=START), factor=2.0)
    idle, hung = found.rows
    assert (idle.name, idle.opened, idle.told, idle.acknowledged, idle.intended) == ("idle", 4, 2, 1, 1)
    assert (idle.closed, idle.closed_as_intended, idle.cleared, idle.active) == (1, 1, 1, 1)
    assert idle.wrong_share == 0.5
    assert (hung.name, hung.opened, hung.active, hung.wrong_share) == ("hung", 1, 1, None)
    assert (idle.to_acknowledge, idle.to_clear, hung.to_clear) == (0, 2, None)


amounts = st.tuples(st.floats(0, 1e4), st.floats(0, 1), st.floats(0, 1.2), st.one_of(st.none(), st.floats(0, 1)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), amounts), max_size=8))
def test_rows_add_up_to_totals_and_every_measured_user_is_in_one_bin(
    database: Database, items: list[tuple[str, str, tuple[float, float, float, float | None]]]
) -> None:
    with undone(database) as connection:
        parts = []
        for number, (user, model, (allocated, coverage, level, idle)) in enumerate(items):
            observed = allocated * coverage
            seconds = None if idle is None else idle * max(0.0, observed * (1 - level))
            part = used(allocated, observed, observed * level, idle=seconds, model=model)
            parts.append((job(number, user), part))
        ledger.add(connection, START, parts)
        everything = sum(part.allocated for _, part in parts)
        for kind in (Kind.USERS, Kind.ACCOUNTS, Kind.MODELS):
            found = reports.usage(connection, replace(ALL, kind=kind), factor=1.0)
            assert found.totals.allocated == pytest.approx(everything)
            assert found.totals.observed == pytest.approx(sum(part.observed for _, part in parts))
            assert found.totals.wasted == pytest.approx(sum(part.wasted for _, part in parts), abs=1e-6)
            if kind is Kind.USERS:
                measured = [row for row in found.rows if row.mean_percent is not None]
                assert sum(users_histogram(found.rows)) == len(measured)
                assert users_under(found.rows) == sum(_below(row) for row in measured)
        hours = reports.waste(connection, ALL, factor=1.0).hours
        assert hours.whole == pytest.approx(everything, abs=1e-6)
        assert all(value is None or value >= 0 for value in (hours.busy, hours.idle, hours.low, hours.unmeasured))


def _below(row: GroupUsage) -> bool:
    return row.mean_percent is not None and row.mean_percent < LOW_UTILIZATION_PERCENT
