"""The weekly report: one a week, whatever becomes of its configuration, of clocks and of old messages."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.retention import forget
from dutycycle_alerter.store.schema import meta
from tests.alerter.notify.outbox import DAY, HOUR, Office, configured, receiver
from tests.fakes.clock import FakeClock

OSLO = ZoneInfo("Europe/Oslo")
SATURDAY = datetime(2025, 10, 18, 12, tzinfo=OSLO).timestamp()


def settings(**weekly: str) -> Settings:
    entry = {"receiver": "email", "day": "mon", "at": "08:00"} | weekly
    return configured(receivers=[receiver("email")], weekly=[entry], timezone="Europe/Oslo")


def office(database: Database) -> Office:
    return Office(database, settings(), clock=FakeClock(SATURDAY))


def restarted(at: Office, after: Settings) -> Office:
    """With another configuration."""
    return Office(at.database, after, clock=at.clock, inboxes=at.inboxes)


def days(at: Office) -> list[str]:
    """Of the ends of the reports that came."""
    ends = [got.parcel.report[1] for got in at.got("email") if got.parcel.report is not None]
    return [datetime.fromtimestamp(end, OSLO).strftime("%d %H:%M") for end in ends]


def test_another_time_in_the_same_week_brings_no_second_one(database: Database) -> None:
    at = office(database)
    at.go(3 * DAY, step=6 * HOUR)
    assert days(at) == ["20 08:00"]
    for changed in (settings(at="09:30"), settings(day="tue")):
        at = restarted(at, changed)
        at.go(DAY, step=6 * HOUR)
        assert days(at) == ["20 08:00"]
    at.go(6 * DAY, step=6 * HOUR)
    assert days(at) == ["20 08:00", "28 08:00"]


def test_a_message_that_is_forgotten_within_the_week_is_not_sent_again(database: Database) -> None:
    """Where clocks are set back a week is an hour longer than the seven days that messages are kept at least."""
    at = office(database)
    at.go(2 * DAY, step=6 * HOUR)
    at.clock.now = datetime(2025, 10, 27, 7, 30, tzinfo=OSLO).timestamp()
    kept = at.settings.retention.model_copy(update={"messages": 7 * DAY})
    forget(database, kept, at.clock())
    at.turn()
    assert days(at) == ["20 08:00"]
    at.go(HOUR)
    assert days(at) == ["20 08:00", "27 08:00"]


@pytest.mark.parametrize("new", [True, False])
def test_a_clock_that_was_ahead_keeps_none_back(database: Database, *, new: bool) -> None:
    at = office(database)
    if not new:
        at.turn()
    at.clock.advance(300 * DAY)
    at.turn()
    at.go(8 * DAY, step=DAY)
    ahead = len(days(at))
    assert ahead == (1 if new else 2)
    at.clock.now = SATURDAY
    at.turn()
    at.go(3 * DAY, step=6 * HOUR)
    assert days(at)[ahead:] == ["20 08:00"]


def test_who_gets_it_again_after_a_while_begins_anew(database: Database) -> None:
    at = office(database)
    at.turn()
    restarted(at, configured())
    with database.read() as connection:
        kept = connection.execute(sa.select(meta.c.key).where(meta.c.key.like("%email%"))).scalars().all()
    assert kept == []
    at.clock.advance(10 * DAY)
    restarted(at, settings()).turn()
    assert days(at) == [], "what was due meanwhile"


def test_two_for_one_receiver_are_refused() -> None:
    entry = {"receiver": "email"}
    with pytest.raises(ValidationError, match="two weekly reports go to 'email'"):
        configured(receivers=[receiver("email")], weekly=[entry, entry | {"day": "tue"}])


@pytest.mark.parametrize("at", ["08:00", "08:30"])
def test_reports_leave_no_hour_out_and_have_none_twice(database: Database, at: str) -> None:
    """Also where clocks are set back within a week, as on 26 October, or the last hour of the ledger is half full."""
    place = Office(database, settings(at=at), clock=FakeClock(SATURDAY - 7 * DAY))
    place.go(24 * DAY, step=6 * HOUR)
    ranges = [got.parcel.report for got in place.got("email") if got.parcel.report is not None]
    assert len(ranges) == 4
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert all(end % HOUR == 0 for each in ranges for end in each)
    assert {round((until - since) / HOUR) for since, until in ranges} == {168, 169}
