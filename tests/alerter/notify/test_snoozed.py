"""What becomes critical while an incident is snoozed: its user, who knew of it, hears so when the snooze is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, OpenRule, Severity, State
from dutycycle_alerter.notify.model import Recipient, To
from dutycycle_alerter.notify.planning import plan
from dutycycle_alerter.notify.routing import Routing
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.settings.policies import Attention
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import HOUR, MINUTE, Office, idle, notify, office, route
from tests.alerter.store.test_incidents import NOW

ALICE = Recipient(To.OWNER, "alice")
CRITICAL = idle(severity=Severity.CRITICAL).rules
BOTH = (*idle(rule="hung", severity=Severity.CRITICAL).rules, *CRITICAL)


def told_of_a_warning(at: Office) -> Incident:
    (item,) = at.open(idle(1, wasted=25 * HOUR))
    at.go(2 * MINUTE)
    return item


def worse(at: Office, item: Incident, rules: tuple[OpenRule, ...] = CRITICAL) -> None:
    at.change(item, EventKind.SEVERITY_CHANGED, "warning became critical", severity=Severity.CRITICAL, rules=rules)


def wake(at: Office, item: Incident, **changes: object) -> None:
    at.change(item, EventKind.SNOOZE_EXPIRED, **({"state": State.OPEN, "snoozed_until": None} | changes))
    at.go(20 * MINUTE, step=MINUTE)


def to_alice(at: Office, receiver: str = "email") -> list[list[list[News]]]:
    return [message.news for message in at.got(receiver) if message.parcel.to == ALICE]


@pytest.mark.parametrize("actor", ["alice", "carol"])
def test_whoever_snoozed_it_the_user_hears_at_the_end_that_it_became_critical(database: Database, actor: str) -> None:
    at = office(database, route("email"), route("email", "owner"), route("slack", "owner"))
    item = told_of_a_warning(at)
    at.reader.snooze(item.id, until=at.clock() + 8 * HOUR, actor=actor)
    at.clock.advance(2 * HOUR)
    then = at.clock()
    worse(at, item)
    at.go(20 * MINUTE, step=MINUTE)
    assert to_alice(at) == [[[News.OPENED]]]
    wake(at, item)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]
    (telling,) = at.got("email")[-1].parcel.items[0].tellings
    assert (telling.at, telling.text) == (then, "warning became critical")
    assert to_alice(at, "slack")[-1] == [[News.UPDATED, News.ESCALATED]]
    # Once: another snooze of what she knows ends as others do.
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor=actor)
    wake(at, item)
    assert len(to_alice(at)) == 2


def test_a_snooze_upon_a_snooze_loses_nothing(database: Database) -> None:
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="alice")
    worse(at, item)
    at.reader.snooze(item.id, until=at.clock() + 2 * HOUR, actor="carol")
    at.go(2 * MINUTE)
    wake(at, item)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]


@pytest.mark.parametrize(("actor", "hears"), [("carol", True), ("alice", False)])
def test_an_acknowledgement_ends_a_snooze_and_the_user_hears_unless_it_is_hers(
    database: Database, actor: str, *, hears: bool
) -> None:
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    at.reader.snooze(item.id, until=at.clock() + 8 * HOUR, actor="carol")
    at.go(MINUTE)
    worse(at, item)
    at.go(20 * MINUTE, step=MINUTE)
    at.reader.acknowledge(item.id, actor=actor)
    at.go(20 * MINUTE, step=MINUTE)
    assert to_alice(at) == [[[News.OPENED]], *([[[News.ESCALATED]]] if hears else [])]
    # Once: another acknowledgement brings nothing more.
    if hears:
        at.reader.acknowledge(item.id, actor="dave")
        at.go(20 * MINUTE, step=MINUTE)
        assert len(to_alice(at)) == 2


def test_what_was_told_in_time_is_not_told_again(database: Database) -> None:
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    worse(at, item)
    at.go(20 * MINUTE, step=MINUTE)
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="alice")
    wake(at, item)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]


def test_what_becomes_critical_as_it_wakes_is_told_once(database: Database) -> None:
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="alice")
    at.go(MINUTE)
    at.change(item, EventKind.SNOOZE_EXPIRED, state=State.OPEN, snoozed_until=None)
    worse(at, item)
    at.go(20 * MINUTE, step=MINUTE)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]


def test_two_changes_of_one_moment_that_are_planned_together_are_told_once(database: Database) -> None:
    """An alerter that did not come to it: what it plans late has the state of now."""
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="alice")
    at.go(MINUTE)
    announce, at.announcer.announce = at.announcer.announce, lambda *_: None  # type: ignore[method-assign]
    at.clock.advance(HOUR)
    worse(at, item)
    at.clock.advance(HOUR)
    at.change(item, EventKind.SNOOZE_EXPIRED, state=State.OPEN, snoozed_until=None)
    at.announcer.announce = announce  # type: ignore[method-assign]
    at.go(20 * MINUTE, step=MINUTE)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]


def test_whose_mail_was_refused_hears_of_it_when_it_wakes(database: Database) -> None:
    at = office(database, route("email", "owner"))
    item = told_of_a_warning(at)
    at.inboxes["email"].fails = lambda _: DeliveryError("552 5.2.2 mailbox full", permanent=True)
    worse(at, item)
    at.go(20 * MINUTE, step=MINUTE)
    at.inboxes["email"].up()
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="carol")
    wake(at, item)
    assert to_alice(at) == [[[News.OPENED]], [[News.ESCALATED]]]


@pytest.mark.parametrize(
    ("event", "changes", "is_told"),
    [
        ({}, {}, True),
        ({"rule": "hung"}, {"rules": BOTH}, True),
        # Of what is critical beside it only what is told at once is news.
        ({"rule": "underused"}, {"rules": CRITICAL}, False),
        # It is no more, or not for its user.
        ({}, {"rules": idle().rules}, False),
        ({}, {"rules": (OpenRule("idle", NOW, Severity.CRITICAL, Attention.WARNING),)}, False),
        # It is over as it wakes, or snoozed again.
        ({}, {"state": State.RESOLVED, "rules": ()}, False),
        ({}, {"state": State.SNOOZED}, False),
        ({}, {"state": State.ACKNOWLEDGED}, True),
    ],
)
def test_it_is_told_if_it_is_critical_for_the_user_by_now(
    event: dict[str, str], changes: dict[str, object], *, is_told: bool
) -> None:
    item = replace(idle(severity=Severity.CRITICAL), **changes)  # type: ignore[arg-type]
    before = Event(NOW - HOUR, EventKind.SEVERITY_CHANGED, "", data=event)
    known = ("email", ALICE)
    woken = Event(NOW, EventKind.SNOOZE_EXPIRED, "")
    for wanted, wants in ({}, is_told), ({"news": ["opened"]}, False):
        routing = Routing(notify(route("email", "owner", **wanted)))
        got = plan(item, [woken], {known}, routing, now=NOW, unheard={known: [before]})
        assert [notice.news for notice in got] == ([News.ESCALATED] if wants else [])
