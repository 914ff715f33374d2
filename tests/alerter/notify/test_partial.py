"""Messages that were taken for some of their addresses: each is told once, and the histories say so."""

from __future__ import annotations

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import EventKind, Incident
from dutycycle_alerter.notify.model import Parcel
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import HOUR, MINUTE, Office, configured, idle, office, route


def histories(at: Office, item: Incident) -> list[tuple[str, object]]:
    return [(event.text, event.data["addresses"]) for event in at.events(item, EventKind.TOLD, EventKind.NOT_TOLD)]


def partly(at: Office) -> None:
    """One takes it, one refuses it, one is to be asked again."""

    def fails(parcel: Parcel) -> DeliveryError | None:
        if parcel.settled:
            return DeliveryError("not yet for c@x")
        return DeliveryError(
            "not yet for c@x",
            addresses=("a@x",),
            refused={"b@x": "550 gone"},
            threads={item.incident.id: {"message_id": "1"} for item in parcel.items},
        )

    at.inboxes["email"].fails = fails


def test_what_was_settled_is_put_down_at_once_and_not_sent_again_by_another_alerter(database: Database) -> None:
    at = office(database, route("email"))
    partly(at)
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    told = [("notified operators by email", ["a@x"]), ("email could not notify b@x: 550 gone", ["b@x"])]
    assert histories(at, item) == told
    counts = at.couriers["email"].counts
    assert (counts.failing_since, counts.error) == (at.clock(), "not yet for c@x") or counts.retried > 1
    again = Office(database, configured(route("email")), clock=at.clock)
    partly(again)
    again.go(HOUR, step=MINUTE)
    assert {mail.parcel.settled for mail in again.inboxes["email"].asked} == {frozenset({"a@x", "b@x"})}
    assert histories(at, item) == told, "once"
    again.inboxes["email"].up()
    again.inboxes["email"].addresses = ("c@x",)
    again.go(HOUR, step=MINUTE)
    assert again.got("email")[0].parcel.items[0].thread == {"message_id": "1"}
    assert histories(at, item) == [*told, ("notified operators by email", ["c@x"])]
    assert at.reader.outbox() == {}


@pytest.mark.parametrize("how", ["refused", "given up"])
def test_who_has_it_hears_what_becomes_of_it_though_others_never_get_it(database: Database, how: str) -> None:
    at = office(database, route("email", news=["opened", "resolved"]), give_up_after="1h")
    partly(at)
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    if how == "refused":
        at.inboxes["email"].fails = lambda _: DeliveryError("refused", permanent=True, refused={"c@x": "550 no"})
    at.go(2 * HOUR, step=5 * MINUTE)
    assert histories(at, item)[2:] == [
        ("email could not notify c@x: 550 no", ["c@x"])
        if how == "refused"
        else ("email could not notify the other operators: not yet for c@x", [])
    ]
    assert at.reader.outbox() == {}
    at.inboxes["email"].up()
    at.resolve(item)
    at.go(HOUR, step=MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[item.id]]


def test_a_message_that_was_taken_for_some_holds_up_no_other(database: Database) -> None:
    at = office(database, route("slack"))
    inbox = at.inboxes["slack"]
    bad = {item.id for item in at.open(idle(1), idle(2), idle(3))}

    def fails(parcel: Parcel) -> DeliveryError | None:
        if not bad & {item.incident.id for item in parcel.items}:
            return None
        return DeliveryError("not all", addresses=() if parcel.settled else ("a",))

    inbox.fails = fails
    at.go(10 * MINUTE, step=MINUTE)
    (other,) = at.open(idle(4))
    at.go(2 * MINUTE)
    assert [message.numbers for message in inbox.got] == [[other.id]]


def test_incidents_that_were_told_before_a_message_was_given_up_are_known(database: Database) -> None:
    at = office(database, route("email", news=["opened", "resolved"]))
    first, second = at.open(idle(1), idle(2))
    at.inboxes["email"].fails = lambda _: DeliveryError("no", permanent=True, threads={first.id: {"ts": "1"}})
    at.go(2 * MINUTE)
    assert histories(at, first) == [("notified operators by email", [])]
    assert histories(at, second) == [("email could not notify operators: no", [])]


def test_a_message_that_each_refused_one_after_the_other_is_not_delivered(database: Database) -> None:
    at = office(database, route("email", news=["opened", "resolved"]))
    inbox = at.inboxes["email"]
    inbox.fails = lambda _: DeliveryError("not yet for b@x", refused={"a@x": "550 gone"})
    (item,) = at.open(idle(1))
    at.go(70)
    inbox.up()
    inbox.addresses, inbox.refused = (), {"b@x": "550 gone"}
    at.go(2 * MINUTE)
    assert [text for text, _ in histories(at, item)] == [f"email could not notify {who}@x: 550 gone" for who in "ab"]
    asked = len(inbox.asked)
    at.resolve(item)
    at.go(HOUR, step=MINUTE)
    assert len(inbox.asked) == asked, "who was never told of it does not hear of its end"
