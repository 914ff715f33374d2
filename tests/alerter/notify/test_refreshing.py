"""Receivers that want to hear of active incidents again and again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.model import OPERATORS, Parcel, ParcelKind
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import DAY, HOUR, MINUTE, Inbox, Office, configured, idle, route
from tests.alerter.store.test_incidents import NOW
from tests.fakes.clock import FakeClock


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Hours go by, and what is asked of the store is the same as in test_delivering: one database is enough."""
    return sqlite_url


class Refreshing(Inbox):
    """As Alertmanager is."""

    refreshed: ClassVar[list[tuple[float, list[int]]]] = []

    def refresh(self, active: Sequence[Incident], now: float) -> None:
        self.refreshed.append((now, [item.id for item in active]))
        error = self.fails(TEST)
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "key", [{"news": ["opened"]}, {"digest": "weekly"}, {"group_wait": "1h"}, {"group_interval": 60}], ids=str
)
def test_keys_of_a_route_that_alertmanager_would_ignore_are_refused(key: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"alertmanager 'alertmanager' cannot have {next(iter(key))}:"):
        configured(route("alertmanager", **key))
    configured(route("webhook", **key))
    whole = configured(route("alertmanager")).model_dump(mode="json")["notify"]["routes"]
    configured(*whole)


TEST = Parcel("", ParcelKind.TEST, OPERATORS, (), NOW)


def test_alertmanager_is_told_again_and_again_of_what_is_active_and_not_snoozed(database: Database) -> None:
    settings = configured(route("alertmanager", rules="idle"))
    inbox = Refreshing(FakeClock(NOW))
    inbox.refreshed.clear()
    at = Office(database, settings, inboxes={"alertmanager": inbox})
    first, second, _, snoozed = at.open(idle(1), idle(2), idle(3, rule="stalled"), idle(4))
    at.reader.snooze(snoozed.id, until=at.clock() + DAY, actor="bob")
    at.go(5 * MINUTE)
    assert [numbers for _, numbers in inbox.refreshed] == [[first.id, second.id]] * 5
    inbox.down()
    at.resolve(second)
    at.go(HOUR, step=MINUTE)
    asked = len(inbox.refreshed)
    assert asked < 40, "not every minute while it does not answer"
    assert max(later - earlier for (earlier, _), (later, _) in pairwise(inbox.refreshed)) <= 2.5 * MINUTE
    inbox.up()
    at.go(HOUR, step=MINUTE)
    assert inbox.refreshed[-1][1] == [first.id]
    assert inbox.got[-1].news == [[News.RESOLVED]]


@pytest.mark.parametrize("answer", ["asks for an hour", "a message fails alone"])
def test_alerts_are_refreshed_in_time_whatever_becomes_of_messages(database: Database, answer: str) -> None:
    inbox = Refreshing(FakeClock(NOW))
    inbox.refreshed.clear()
    at = Office(database, configured(route("alertmanager")), inboxes={"alertmanager": inbox})
    at.open(idle(1))
    at.go(2 * MINUTE)
    wait = HOUR if answer == "asks for an hour" else None
    inbox.fails = lambda parcel: None if parcel is TEST else DeliveryError("no", retry_after=wait)
    at.open(idle(2), idle(3, user="bob"))
    at.go(HOUR, step=30)
    assert max(later - earlier for (earlier, _), (later, _) in pairwise(inbox.refreshed)) <= 2.5 * MINUTE
    assert len(inbox.refreshed) > 25


@pytest.mark.parametrize("error", [ConfigError("template broken"), DeliveryError("no", retry_after=DAY)])
def test_a_refresh_that_fails_is_a_failure_of_the_receiver_and_tried_again(
    database: Database, error: Exception
) -> None:
    inbox = Refreshing(FakeClock(NOW))
    inbox.refreshed.clear()
    at = Office(database, configured(route("alertmanager")), inboxes={"alertmanager": inbox})
    inbox.fails = lambda _: error
    at.go(10 * MINUTE)
    assert len(inbox.refreshed) >= 5
    assert at.couriers["alertmanager"].counts.error == str(error)
    inbox.up()
    at.go(3 * MINUTE)
    assert at.couriers["alertmanager"].counts.failing_since is None
