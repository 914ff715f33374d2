"""When the users of jobs are told: what their jobs wasted lately counts, whoever takes care of an incident."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import EventKind, OpenRule, Resolution, Severity, State, Step
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.settings.policies import Attention
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import DAY, HOUR, MINUTE, NOW, idle, office, route


@pytest.mark.parametrize(("days", "is_told"), [(6.0, True), (7.5, False)])
def test_what_jobs_wasted_that_are_over_counts_for_a_week(database: Database, days: float, *, is_told: bool) -> None:
    at = office(database, route("email", "owner"))
    past, others = at.open(idle(1, wasted=20 * HOUR), idle(2, wasted=20 * HOUR, user="bob"))
    at.resolve(past, others)
    at.clock.advance(days * DAY)
    (now,) = at.open(idle(3, wasted=5 * HOUR, started_at=at.clock()))
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == ([[now.id]] if is_told else [])


@pytest.mark.parametrize("resolution", [Resolution.INTENDED, Resolution.EXCLUDED])
def test_waste_that_was_intended_or_excluded_does_not_count(database: Database, resolution: Resolution) -> None:
    at = office(database, route("email", "owner"))
    (past,) = at.open(idle(1, wasted=20 * HOUR))
    at.change(past, EventKind.RESOLVED, state=State.RESOLVED, resolution=resolution, resolved_at=at.clock())
    at.clock.advance(DAY)
    at.open(idle(3, wasted=5 * HOUR, started_at=at.clock()))
    at.go(2 * MINUTE)
    assert at.got("email") == []


def test_a_user_is_told_also_of_what_an_operator_takes_care_of(database: Database) -> None:
    at = office(database, route("email", "owner"))
    (item,) = at.open(idle(1))
    at.reader.acknowledge(item.id, actor="carol")
    at.change(
        item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL, rules=idle(severity=Severity.CRITICAL).rules
    )
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[item.id]]


def test_the_user_who_is_known_late_is_told_of_it_and_who_was_told_before_hears_no_more(database: Database) -> None:
    at = office(database, route("email", "owner", news=["opened", "resolved"]))
    (item,) = at.open(idle(1, wasted=25 * HOUR, user="team-a"))
    at.go(2 * MINUTE)
    at.change(item, EventKind.OWNER_CHANGED, user="alice")
    at.go(HOUR)
    at.resolve(item)
    at.go(HOUR)
    assert [(mail.parcel.to.user, mail.news) for mail in at.got("email")] == [
        ("team-a", [[News.OPENED]]),
        ("alice", [[News.OPENED]]),
        ("alice", [[News.RESOLVED]]),
    ]


@pytest.mark.parametrize("way", [{"group_wait": "1h"}, {"digest": "daily"}])
def test_what_waits_for_who_was_taken_for_the_user_is_not_sent(database: Database, way: dict[str, object]) -> None:
    at = office(database, route("email", "owner", **way))
    (item,) = at.open(idle(1, wasted=25 * HOUR, user="team-a"))
    at.go(2 * MINUTE)
    at.change(item, EventKind.OWNER_CHANGED, user="alice")
    at.go(2 * DAY, step=10 * MINUTE)
    assert [mail.parcel.to.user for mail in at.got("email")] == ["alice"]
    assert at.reader.outbox() == {}, "nor does it wait on"


def test_of_what_somebody_snoozed_the_user_hears_when_it_wakes(database: Database) -> None:
    at = office(database, route("email", "owner"))
    (item,) = at.open(idle(1))
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="carol")
    at.change(item, EventKind.CAUSE_FOUND, wasted=25 * HOUR)
    at.go(2 * MINUTE)
    assert at.reader.outbox() == {}
    at.change(item, EventKind.SNOOZE_EXPIRED, state=item.state, snoozed_until=None)
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[item.id]]


def test_who_was_told_of_a_warning_that_cleared_hears_that_it_is_back_as_a_hang(database: Database) -> None:
    at = office(database, route("email"), route("email", "owner"))
    (item,) = at.open(idle(1, rule="underused", wasted=25 * HOUR))
    at.go(2 * MINUTE)
    at.resolve(item)
    at.clock.advance(HOUR)
    hung = idle(rule="hung", severity=Severity.CRITICAL).rules
    back = at.change(
        item, EventKind.REOPENED, state=State.OPEN, rule="hung", rules=hung, resolved_at=None, resolution=None
    )
    at.change(back, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL)
    at.go(20 * MINUTE)
    to_alice = [mail.news for mail in at.got("email") if mail.parcel.to.user]
    to_operators = [mail.news for mail in at.got("email") if not mail.parcel.to.user]
    assert to_alice == to_operators == [[[News.OPENED]], [[News.ESCALATED]]]


def test_who_could_not_be_told_of_a_warning_is_told_once_more_when_it_is_critical(database: Database) -> None:
    at = office(database, route("email", "owner"))
    at.inboxes["email"].fails = lambda _: DeliveryError("552 5.2.2 mailbox full", permanent=True)
    (item,) = at.open(idle(1, wasted=25 * HOUR))
    at.go(HOUR, step=MINUTE)
    assert len(at.inboxes["email"].asked) == 1, "and not at every pass"
    worse = idle(severity=Severity.CRITICAL).rules
    at.change(item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL, rules=worse)
    at.go(HOUR, step=MINUTE)
    assert len(at.inboxes["email"].asked) == 2, "it may be full still"
    at.inboxes["email"].up()
    at.go(HOUR, step=MINUTE)
    assert at.got("email") == []


def test_it_reaches_who_could_not_be_told_before(database: Database) -> None:
    at = office(database, route("email", "owner"))
    at.inboxes["email"].fails = lambda _: DeliveryError("552 5.2.2 mailbox full", permanent=True)
    (item,) = at.open(idle(1, wasted=25 * HOUR))
    at.go(HOUR, step=MINUTE)
    at.inboxes["email"].up()
    worse = idle(severity=Severity.CRITICAL).rules
    at.change(item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL, rules=worse)
    at.go(HOUR, step=MINUTE)
    assert [mail.news for mail in at.got("email")] == [[[News.OPENED]]]


@pytest.mark.parametrize(
    ("severity", "told", "hears"),
    [
        (Severity.CRITICAL, Attention.WARNING, False),
        (Severity.INFO, Attention.CRITICAL, True),
        (Severity.CRITICAL, None, True),
        (Severity.WARNING, None, False),
    ],
)
def test_who_unsubscribed_hears_what_is_critical_for_them_not_for_operators(
    database: Database, severity: Severity, told: Attention | None, *, hears: bool
) -> None:
    at = office(database, route("email", "owner"))
    at.reader.mute("email", "alice")
    rules = (OpenRule("idle", NOW, severity, told),)
    (item,) = at.open(replace(idle(1, severity=severity, wasted=100 * HOUR), rules=rules))
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == ([[item.id]] if hears else [])


def test_what_waits_for_who_unsubscribed_goes_out_where_a_policy_makes_it_critical_for_them(
    database: Database,
) -> None:
    at = office(database, route("email", "owner"))
    waits, goes = at.open(idle(1, wasted=100 * HOUR), idle(2, wasted=100 * HOUR))
    at.reader.mute("email", "alice")
    critical = (OpenRule("idle", NOW, Severity.WARNING, Attention.CRITICAL),)
    with at.store.write() as connection:
        for item, rules in ((waits, waits.rules), (goes, critical)):
            incidents.save(connection, item, Step(replace(item, rules=rules)))
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[goes.id]]
    assert at.reader.outbox() == {}
