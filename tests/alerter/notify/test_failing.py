"""Messages that a receiver does not take, and receivers that take none: what waits for whom, and until when."""

from __future__ import annotations

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.incidents.model import EventKind, Severity
from dutycycle_alerter.notify.gathering import Portion
from dutycycle_alerter.notify.model import Parcel, ParcelKind
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store import deliveries, outbox
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import DAY, HOUR, MINUTE, idle, office, receiver, route


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Hours go by, and what is asked of the store is the same as in test_delivering: one database is enough."""
    return sqlite_url


def test_a_receiver_that_is_down_delays_only_itself_and_comes_back_with_a_digest(database: Database) -> None:
    at = office(database, route("email", group_interval="10m"), route("webhook", group_interval="1s"))
    at.inboxes["email"].down()
    for hour in range(16):
        at.open(idle(100 + hour))
        at.go(HOUR, step=900)
        assert len(at.got("webhook")) == hour + 1
    assert at.got("email") == []
    asked = len(at.inboxes["email"].asked)
    assert 40 < asked < 100, "a probe every quarter of an hour, not one for each message"
    counts = at.couriers["email"].counts
    assert (counts.sent, counts.retried, counts.failed, counts.error) == (0, asked, 0, "connection refused")
    assert counts.failing_since is not None
    depth = at.reader.outbox()["email"]
    assert (depth.notices, at.clock() - depth.due_at > 15 * HOUR, depth.error) == (16, True, "connection refused")
    at.inboxes["email"].up()
    at.go(HOUR, step=300)
    sizes = [len(mail.numbers) for mail in at.got("email")]
    assert sum(sizes) == 16
    assert len(sizes) <= 6, "those that were tried meanwhile, and one for all that waited"
    assert at.couriers["email"].counts.failing_since is None
    assert at.reader.outbox() == {}


def test_threads_do_not_pile_up_for_a_receiver_that_is_down(database: Database) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].down()
    at.open(idle(0))
    at.go(2 * MINUTE)
    for number in range(1, 30):
        at.open(idle(number))
        at.go(20, step=20)
    at.inboxes["slack"].up()
    at.go(30 * MINUTE, step=MINUTE)
    kinds = [(message.parcel.kind, len(message.numbers)) for message in at.got("slack")]
    assert sorted(kinds, key=str) == [(ParcelKind.DIGEST, 28), (ParcelKind.INCIDENTS, 1), (ParcelKind.INCIDENTS, 1)]


@pytest.mark.parametrize("poisons", [1, 3])
def test_messages_that_nobody_takes_hold_up_only_what_is_new_of_their_own_incidents(
    database: Database, poisons: int
) -> None:
    at = office(database, route("slack"))
    inbox = at.inboxes["slack"]
    bad = {item.id for item in at.open(*(idle(number) for number in range(poisons)))}
    inbox.fails = lambda parcel: DeliveryError("no") if bad & {i.incident.id for i in parcel.items} else None
    at.go(10 * MINUTE, step=MINUTE)
    good = at.open(*(idle(100 + number) for number in range(5)))
    at.go(30 * MINUTE, step=MINUTE)
    assert {number for got in inbox.got for number in got.numbers} == {item.id for item in good}
    for item in good:
        at.change(item, EventKind.CAUSE_FOUND)
    at.resolve(at.read(next(at.read(item) for item in map(at.reader.incident, bad) if item)))
    at.go(5 * MINUTE, step=MINUTE)
    assert len(inbox.got) == 10, "no probe is waited for any more"
    inbox.up()
    at.go(20 * MINUTE, step=MINUTE)
    assert at.reader.outbox() == {}
    assert len(inbox.got) == 10 + poisons + 1


def test_a_mail_that_nobody_takes_holds_up_no_other_mail_to_operators(database: Database) -> None:
    at = office(database, route("email"))
    inbox = at.inboxes["email"]
    (poison,) = at.open(idle(1))
    inbox.fails = lambda parcel: DeliveryError("no") if poison.id in [i.incident.id for i in parcel.items] else None
    at.go(5 * MINUTE, step=MINUTE)
    (other,) = at.open(idle(2))
    at.change(poison, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL)
    at.go(20 * MINUTE, step=MINUTE)
    assert [mail.numbers for mail in inbox.got] == [[other.id]]
    inbox.up()
    at.go(35 * MINUTE, step=MINUTE)
    assert [mail.numbers for mail in inbox.got] == [[other.id], [poison.id], [poison.id]]
    assert [mail.news for mail in inbox.got][1:] == [[[News.OPENED]], [[News.ESCALATED]]], "in their order"


def test_a_receiver_of_many_people_that_is_down_is_probed_with_one_message_at_a_time(database: Database) -> None:
    at = office(database, route("email", "owner"))
    inbox = at.inboxes["email"]
    inbox.down()
    at.open(*(idle(number, severity=Severity.CRITICAL, user=f"user{number}") for number in range(30)))
    at.go(HOUR, step=20)
    assert 6 < len(inbox.asked) < 15
    inbox.up()
    at.go(15 * MINUTE, step=20)
    assert len(inbox.got) == 30


def test_a_message_that_fails_holds_up_no_other_and_keeps_its_key(database: Database) -> None:
    at = office(database, route("email", "owner"), receivers=[receiver("email")])
    inbox = at.inboxes["email"]
    inbox.fails = lambda parcel: DeliveryError("451 try later") if parcel.to.user == "alice" else None
    at.open(idle(1, severity=Severity.CRITICAL), idle(2, severity=Severity.CRITICAL, user="bob"))
    at.go(2 * MINUTE)
    assert [mail.parcel.to.user for mail in inbox.got] == ["bob"]
    at.open(idle(3, severity=Severity.CRITICAL, user="carol"))
    at.go(2 * MINUTE)
    assert [mail.parcel.to.user for mail in inbox.got] == ["bob", "carol"]
    inbox.up()
    at.go(5 * MINUTE)
    tries = [mail.parcel for mail in inbox.asked if mail.parcel.to.user == "alice"]
    assert inbox.got[-1].parcel == tries[-1]
    assert len({parcel.key for parcel in tries}) == 1
    assert [parcel.attempt for parcel in tries] == list(range(1, len(tries) + 1))


def test_what_is_critical_goes_first_to_a_receiver_that_may_be_down(database: Database) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].down()
    at.open(idle(1), idle(2))
    at.go(3 * MINUTE, step=MINUTE)
    at.open(idle(3), idle(4, severity=Severity.CRITICAL), idle(5))
    at.go(30 * MINUTE, step=MINUTE)
    assert {number for got in at.inboxes["slack"].asked for number in got.numbers} == {1, 2, 4}


def test_nobody_asks_for_more_than_an_hour(database: Database) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].down(retry_after=DAY)
    at.open(idle(1))
    at.go(2 * MINUTE)
    at.inboxes["slack"].up()
    at.go(HOUR, step=10 * MINUTE)
    assert len(at.got("slack")) == 1


def test_who_has_no_address_says_nothing_of_a_server_that_is_down(database: Database) -> None:
    at = office(database, route("email", "owner"))
    inbox = at.inboxes["email"]

    def fails(parcel: Parcel) -> DeliveryError:
        if parcel.to.user == "nobody":
            return DeliveryError("no address", permanent=True)
        return DeliveryError("connection refused")

    inbox.fails = fails
    at.open(*(idle(number, severity=Severity.CRITICAL, user=f"user{number}") for number in range(3)))
    at.go(10 * MINUTE, step=MINUTE)
    began = at.couriers["email"].counts.failing_since
    at.open(idle(9, severity=Severity.CRITICAL, user="nobody"))
    at.go(HOUR, step=MINUTE)
    assert at.couriers["email"].counts.failed == 1
    assert began is not None
    assert at.couriers["email"].counts.failing_since == began


def test_retry_after_counts_for_the_whole_receiver(database: Database) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].down(retry_after=300)
    at.open(idle(1), idle(2), idle(3))
    at.go(2 * MINUTE)
    assert len(at.inboxes["slack"].asked) == 1
    at.inboxes["slack"].up()
    at.go(3 * MINUTE)
    assert at.got("slack") == []
    at.go(2 * MINUTE)
    assert len(at.got("slack")) == 3


@pytest.mark.parametrize("outcome", ["refused for good", "given up"])
def test_what_cannot_be_delivered_is_in_the_history_of_its_incidents(database: Database, outcome: str) -> None:
    at = office(database, route("slack"), give_up_after="1h")
    permanent = outcome == "refused for good"
    at.inboxes["slack"].fails = lambda _: DeliveryError("550 no such user\r\n\x1b[31m", permanent=permanent)
    (item,) = at.open(idle(1))
    at.go(2 * HOUR, step=60)
    (told,) = at.events(item, EventKind.TOLD, EventKind.NOT_TOLD)
    assert told.kind is EventKind.NOT_TOLD
    assert told.text == "slack could not notify operators: 550 no such user␍␊␛[31m"
    assert at.reader.outbox() == {}
    assert at.couriers["slack"].counts.failed == 1
    at.inboxes["slack"].up()
    at.reader.acknowledge(item.id, actor="bob")
    at.go(HOUR, step=60)
    at.resolve(item)
    at.go(HOUR, step=60)
    assert at.got("slack") == [], "who was never told of it does not hear what became of it"


def test_an_end_is_not_told_where_the_beginning_was_given_up_meanwhile(database: Database) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].down()
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    at.resolve(item)
    at.run_pass()

    def refuse_once(_: Parcel) -> Exception:
        at.inboxes["slack"].up()
        return DeliveryError("channel_not_found", permanent=True)

    at.inboxes["slack"].fails = refuse_once
    at.go(10 * MINUTE)
    assert at.got("slack") == []
    assert at.reader.outbox() == {}


@pytest.mark.parametrize("error", [TypeError("bug"), ConfigError("template broken")])
def test_errors_of_our_own_lose_nothing_at_once(database: Database, error: Exception) -> None:
    at = office(database, route("email"))
    at.inboxes["email"].fails = lambda _: error
    at.open(idle(1))
    at.go(2 * MINUTE)
    assert at.reader.outbox()["email"].notices == 1
    at.inboxes["email"].up()
    at.go(5 * MINUTE)
    assert len(at.got("email")) == 1


@pytest.mark.parametrize("taken", [(), ("a",)])
def test_a_message_waits_for_as_long_as_was_asked_for(database: Database, taken: tuple[str, ...]) -> None:
    at = office(database, route("slack"))
    at.inboxes["slack"].fails = lambda _: DeliveryError("busy", retry_after=1800, addresses=taken)
    at.open(idle(1), idle(2))
    at.go(2 * MINUTE, step=MINUTE)
    (asked,) = at.inboxes["slack"].asked
    with database.read() as connection:
        times = sorted(item.next_at - asked.at for item in deliveries.pending(connection, "slack"))
    assert times == [0, 1800]


def test_what_is_in_a_message_already_comes_in_no_other(database: Database) -> None:
    at = office(database, route("slack"))
    at.open(idle(1))
    with database.write() as connection:
        (waits,) = outbox.waiting(connection, "slack", most=10)
        portion = Portion(waits.to, ParcelKind.INCIDENTS, (waits,))
        deliveries.put(connection, "slack", [portion], at.clock())
        deliveries.put(connection, "slack", [portion], at.clock())
    at.go(2 * MINUTE)
    assert len(at.got("slack")) == 1
