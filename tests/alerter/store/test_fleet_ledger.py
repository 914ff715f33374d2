"""Hours of the fleet: each second is counted once, in its hour, and time that nobody saw is not."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.store import fleet_ledger
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.schema import fleet_hour
from tests.alerter.store.conftest import undone

HOUR = 3600.0
T0 = 486_000 * HOUR
NOW = FleetAmounts("north", "H200", allocated=6, unallocated=1.5, drained=0.5, pending=4, held=1)


def add(database: Database, now: float, *items: FleetAmounts, longest: float = 1e9, hour: float = HOUR) -> None:
    with database.write() as connection:
        fleet_ledger.add(connection, now, items, longest=longest, hour=hour)


def total(
    database: Database, since: float = 0.0, until: float = 1e12, factor: float = 1.0
) -> dict[tuple[str, str], FleetAmounts]:
    with database.read() as connection:
        found = fleet_ledger.fleet(connection, since=since, until=until, factor=factor)
    return {(item.cluster, item.model): item for item in found}


def test_the_first_call_counts_nothing(database: Database) -> None:
    add(database, T0, NOW)
    assert total(database) == {}


def test_numbers_of_gpus_times_the_time_since_the_last_call(database: Database) -> None:
    add(database, T0, NOW)
    add(database, T0 + 60, NOW)
    add(database, T0 + 100, FleetAmounts("north", "H200", unknown=8))
    assert total(database)["north", "H200"] == FleetAmounts(
        "north", "H200", allocated=360, unallocated=90, drained=30, unknown=320, pending=240, held=60
    )


def test_the_same_instant_again_counts_nothing(database: Database) -> None:
    for at in (T0, T0 + 60, T0 + 60, T0 + 60):
        add(database, at, NOW)
    assert total(database)["north", "H200"].allocated == 360


def test_a_clock_that_was_set_back_counts_nothing_twice(database: Database) -> None:
    for at in (T0, T0 + 60, T0 - 500, T0 - 440):
        add(database, at, NOW)
    assert total(database)["north", "H200"].allocated == 720


def test_an_alerter_that_was_away_does_not_invent(database: Database) -> None:
    add(database, T0, NOW)
    add(database, T0 + 8 * HOUR, NOW, longest=180)
    assert total(database)["north", "H200"].allocated == 6 * 180
    assert total(database, since=T0 + 7 * HOUR)["north", "H200"].allocated == 6 * 180


def test_time_is_divided_among_the_hours_that_it_lies_in(database: Database) -> None:
    add(database, T0 + HOUR - 20, NOW)
    add(database, T0 + 2 * HOUR + 40, NOW)
    assert [
        total(database, since=T0 + n * HOUR, until=T0 + (n + 1) * HOUR)["north", "H200"].allocated / 6 for n in range(3)
    ] == pytest.approx([20, 3600, 40])


def test_models_and_clusters_are_kept_apart(database: Database) -> None:
    items = (NOW, FleetAmounts("north", "A100", allocated=1), FleetAmounts("", "H200", down=2))
    add(database, T0, *items)
    add(database, T0 + 10, *items)
    found = total(database)
    assert set(found) == {("north", "H200"), ("north", "A100"), ("", "H200")}
    assert found["", "H200"].down == 20


def test_that_nobody_waited_is_known_only_where_a_scheduler_tells_of_its_queue(database: Database) -> None:
    for at, waited in ((T0, 0.0), (T0 + 10, 0.0), (T0 + 20, 3.0), (T0 + 30, None)):
        add(database, at, FleetAmounts("north", "", pending=waited or 0.0, waited=waited), NOW)
        expected = {T0 + 10: 0, T0 + 20: 30, T0 + 30: 30}
        assert at == T0 or total(database)["north", ""].waited == expected[at]
    assert total(database)["north", "H200"].waited is None


def test_what_is_nowhere_leaves_no_rows(database: Database) -> None:
    add(database, T0, FleetAmounts("", "H200"))
    add(database, T0 + 10, FleetAmounts("", "H200"))
    with database.read() as connection:
        assert connection.execute(fleet_hour.select()).all() == []


def test_amounts_are_told_on_the_shown_scale(database: Database) -> None:
    add(database, T0, NOW, hour=HOUR / 60)
    add(database, T0 + 10, NOW, hour=HOUR / 60)
    assert total(database, factor=60)["north", "H200"].allocated == 3600


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(st.lists(st.floats(0.1, 10_000), min_size=1, max_size=8))
def test_however_passes_fall_all_time_is_counted_once(database: Database, pauses: list[float]) -> None:
    with undone(database) as connection:
        now = T0
        fleet_ledger.add(connection, now, [NOW], longest=1e9)
        for pause in pauses:
            now += pause
            fleet_ledger.add(connection, now, [NOW], longest=1e9)
        (found,) = fleet_ledger.fleet(connection, since=0, until=1e12)
        assert found.allocated == pytest.approx(6 * (now - T0))
