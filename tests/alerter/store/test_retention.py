"""What is past its retention goes, in small transactions; what is open, or within it, stays."""

import pytest
import sqlalchemy as sa

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.model import Event, EventKind, Resolution, State
from dutycycle_alerter.settings import Retention
from dutycycle_alerter.store import fleet_ledger, incidents, retention
from dutycycle_alerter.store.database import Database, get_meta
from dutycycle_alerter.store.retention import UNTIL, forget, trusted_now
from dutycycle_alerter.store.schema import event, fleet_hour, usage_hour
from tests.alerter.store.test_incidents import NOW, add, found, incident
from tests.alerter.store.test_ledger import account, job, used

DAY = 86400.0
KEPT = Retention()


def resolved(subject: str, days_ago: float, *, opened: float = 1.0) -> object:
    at = NOW - days_ago * DAY
    return incident(
        subject, state=State.RESOLVED, resolution=Resolution.ENDED, opened_at=at - opened * DAY, resolved_at=at
    )


def count(database: Database, table: sa.Table) -> int:
    with database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_resolved_incidents_go_with_their_events_and_open_ones_never(database: Database) -> None:
    add(
        database,
        resolved("old", 400.1),
        resolved("young", 399.9, opened=200),
        incident("open for years", opened_at=NOW - 3000 * DAY, started_at=NOW - 3000 * DAY),
        incident("snoozed", opened_at=NOW - 900 * DAY, state=State.SNOOZED),
    )
    for _ in range(2):
        forget(database, KEPT, NOW)
        assert sorted(found(database)) == ["open for years", "snoozed", "young"]
        assert count(database, event) == 3


def test_more_than_a_transaction_deletes_go_in_several(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_AT_ONCE", 3)
    add(database, *(resolved(f"slurm/{i}", 500) for i in range(8)))
    transactions = []

    class Counting:
        read = database.read

        def write(self) -> object:
            transactions.append(1)
            return database.write()

    forget(Counting(), KEPT, NOW)  # type: ignore[arg-type]
    assert found(database) == ["slurm/7"]
    # Three, three, one, none; and one look at each of the others.
    assert len(transactions) == 4 + 1 + 1 + 2  # incidents, expectations, messages, ledgers


def test_numbers_of_incidents_and_events_are_given_once(database: Database) -> None:
    """Links in old mails, and the number of the last event that was planned, are never of something else."""
    first, second = add(database, resolved("first", 500), resolved("second", 500))
    with database.write() as connection:
        incidents.note(connection, [(first, Event(NOW, EventKind.TOLD, "told"))])
        last = incidents.last_event_id(connection)
    forget(database, KEPT, NOW)
    (third,) = add(database, resolved("third", 500))
    with database.read() as connection:
        assert third > second
        assert incidents.last_event_id(connection) > last
    forget(database, KEPT, NOW)
    assert found(database) == ["third"], "once there are newer ones they go too"


def test_hours_of_usage_and_fleet_go_when_they_are_old(database: Database) -> None:
    hour = 3600.0
    for days in (900, 801, 799, 0):
        account(database, NOW - days * DAY, (job(), used(60)), (job(2), used(60)))
    with database.write() as connection:
        amounts = FleetAmounts("", "H200", allocated=1)
        for days in (900, 1):
            for minutes in (2, 1):
                at = NOW - days * DAY - 60 * minutes
                fleet_ledger.add(connection, at, [amounts], longest=60, hour=hour)
    assert (count(database, usage_hour), count(database, fleet_hour)) == (8, 2)
    for _ in range(2):
        forget(database, KEPT, NOW)
        assert (count(database, usage_hour), count(database, fleet_hour)) == (4, 1)


def test_a_clock_that_is_a_year_ahead_for_a_while_deletes_next_to_nothing(database: Database) -> None:
    hour = 3600.0
    for days in (0.5, 10, 799.9, 799):
        account(database, NOW - days * DAY, (job(), used(60)))
    times = [NOW, NOW + 3600 * DAY, NOW + 3600 * DAY + hour, NOW + hour]
    done = []
    for now in times:
        done.append(trusted_now(database, now, longest=4 * hour))
        forget(database, KEPT, done[-1])
    assert done == [NOW, NOW + 4 * hour, NOW + 8 * hour, NOW + hour]
    assert count(database, usage_hour) == 3, "but for what was past its retention within hours"


def test_a_clock_that_is_behind_for_a_while_puts_nothing_off(database: Database) -> None:
    """As at a start before the time has been asked for."""
    times = [NOW, NOW - 1000 * DAY, NOW + 60]
    assert [trusted_now(database, now, longest=4 * 3600.0) for now in times] == times


def test_who_was_away_for_long_catches_up(database: Database) -> None:
    hour = 3600.0
    trusted_now(database, NOW, longest=4 * hour)
    back = NOW + 2 * DAY
    done = [trusted_now(database, back + turn * hour, longest=4 * hour) for turn in range(17)]
    assert done[:2] == [NOW + 4 * hour, NOW + 8 * hour]
    assert done[-1] == back + 16 * hour
    with database.read() as connection:
        assert get_meta(connection, UNTIL) == done[-1]


@pytest.mark.parametrize("key", ["incidents", "usage"])
def test_a_retention_that_would_delete_what_is_needed_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"retention\.{key}.*7d"):
        parse({"retention": {key: "1h"}}, origin="test")


def test_durations_are_scaled() -> None:
    scaled = parse({"retention": {"incidents": "10d"}, "time_scale": 10}, origin="test").scaled()
    assert (scaled.retention.incidents, scaled.retention.usage) == (DAY, 80 * DAY)
