"""Whatever happens to an incident is told to everybody who subscribed to it, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.chaos.promises import check, notifications, repetition
from benchmarks.chaos.record import Record, StoredDelivery, StoredEvent, StoredNotice, Taken

from .evidence import IDLE, clean, violations

READERS = (("mail", "operators"), ("chat", "operators"), ("mail", "owner"))
ESCALATED, CLEARED, REOPENED = 1250.0, 1410.0, 1412.0


def told(record: Record, news: str, at: float) -> Record:
    """A message of it to everybody."""
    first = max(one.id for one in record.notices) + 1
    notices, deliveries, taken = [], [], []
    for number, (receiver, audience) in enumerate(READERS, first):
        key = f"{audience}-{receiver}-{news}"
        notices.append(StoredNotice(number, 1, receiver, audience, news, at, number, None))
        deliveries.append(StoredDelivery(number, key, receiver, at, 1, at + 1, None, "", key))
        taken.append(Taken("slack" if receiver == "chat" else receiver, key, at + 1, (), (1,), (), "idle"))
    return replace(
        record,
        notices=(*record.notices, *notices),
        deliveries=(*record.deliveries, *deliveries),
        taken=(*record.taken, *taken),
    )


def escalated(record: Record) -> Record:
    """It was critical from some time on."""
    opened, resolved = record.events
    worse = StoredEvent(2, 1, ESCALATED, "severity changed", "", {"severity": "critical"})
    return told(replace(record, events=(opened, worse, replace(resolved, id=3))), "escalated", ESCALATED)


def reopened(record: Record) -> Record:
    """It cleared, came back and ended."""
    opened, resolved = record.events
    cleared = replace(resolved, at=CLEARED, data={"resolution": "cleared"})
    again = StoredEvent(3, 1, REOPENED, "reopened", "", {"rule": "idle"})
    events = (opened, cleared, again, replace(resolved, id=4))
    return told(told(replace(record, events=events), "resolved", CLEARED), "reopened", REOPENED)


@pytest.mark.parametrize("more", [escalated, reopened])
def test_what_is_told_in_full_violates_nothing(more: Callable[[Record], Record]) -> None:
    assert violations(more(clean())) == []


@pytest.mark.parametrize(
    ("data", "owed"),
    [
        pytest.param({"rule": "idle"}, READERS, id="another rule that users hear of at once"),
        pytest.param({"rule": "underused"}, READERS[:2], id="another rule that they do not"),
        pytest.param({"audience": "operators"}, READERS[:2], id="for operators alone"),
        pytest.param({"audience": "owner"}, READERS[2:], id="for the user alone"),
    ],
)
def test_whose_news_it_is_that_something_became_critical(
    data: dict[str, object], owed: tuple[tuple[str, str], ...]
) -> None:
    record = escalated(clean())
    opened, worse, resolved = record.events
    untold = replace(
        record,
        events=(opened, replace(worse, data={**worse.data, **data}), resolved),
        notices=tuple(one for one in record.notices if one.news != "escalated"),
    )
    assert [one.evidence for one in violations(untold) if "escalated" in one.evidence] == [
        f"incident 1 escalated 1 times, planned for {audience} by {receiver} 0 times" for receiver, audience in owed
    ]


@pytest.mark.parametrize(("more", "news"), [(escalated, "escalated"), (reopened, "reopened")])
def test_it_is_asked_of_each_reader_whether_it_was_told(more: Callable[[Record], Record], news: str) -> None:
    occasions = check(more(clean()))[notifications.every_change_is_planned].occasions
    assert [one.fault for one in occasions].count(news) == len(READERS)


@pytest.mark.parametrize(("more", "news"), [(escalated, "escalated"), (reopened, "reopened")])
@pytest.mark.parametrize("reader", READERS)
def test_one_of_which_somebody_does_not_hear_is_lost(
    more: Callable[[Record], Record], news: str, reader: tuple[str, str]
) -> None:
    record = more(clean())
    left = tuple(one for one in record.notices if (one.news, one.receiver, one.audience) != (news, *reader))
    found = violations(replace(record, notices=left))
    assert [(one.promise, one.subject) for one in found] == [("no notification is lost", IDLE)]
    assert f"{news} 1 times, planned for {reader[1]} by {reader[0]} 0 times" in found[0].evidence


def test_who_did_not_know_of_it_hears_that_it_has_opened() -> None:
    record = escalated(clean())
    notices = tuple(replace(one, news="opened") if one.news == "escalated" else one for one in record.notices)
    assert violations(replace(record, notices=notices)) == []


def test_a_user_who_heard_of_it_later_is_not_told_what_was_before() -> None:
    record = escalated(clean())
    late = tuple(
        replace(one, at=ESCALATED) if (one.audience, one.news) == ("owner", "opened") else one
        for one in record.notices
        if (one.audience, one.news) != ("owner", "escalated")
    )
    assert violations(replace(record, notices=late)) == []


@pytest.mark.parametrize("more", [escalated, reopened])
def test_a_user_without_an_address_is_not_told_what_becomes_of_it(more: Callable[[Record], Record]) -> None:
    record = more(clean())
    first = next(one for one in record.notices if (one.audience, one.news) == ("owner", "opened"))
    left = tuple(one for one in record.notices if one.audience != "owner" or one is first)
    for failed, expected in ((1060.0, 0), (None, 2)):
        deliveries = tuple(
            replace(one, failed_at=failed, error="no email address of ada") if one.id == first.delivery else one
            for one in record.deliveries
        )
        judged = check(replace(record, notices=left, deliveries=deliveries))[notifications.every_change_is_planned]
        assert len(judged.violations) == expected


def test_a_hang_that_nothing_confirms_is_none_of_its_users_business() -> None:
    record = clean()
    mine = tuple(one for one in record.notices if one.audience != "owner")
    for rule, severity, expected in (("hung", "warning", 0), ("hung", "critical", 1), ("idle", "warning", 1)):
        incident = replace(record.incidents[0], rule=rule, severity=severity)
        judged = check(replace(record, incidents=(incident,), notices=mine))[notifications.every_change_is_planned]
        assert len(judged.violations) == expected


def test_what_is_planned_twice_is_told_twice_whatever_it_is_called() -> None:
    record = told(clean(), "opened", 1060.0)
    found = violations(record)
    assert [(one.promise, one.subject) for one in found] == [("no message comes twice", IDLE)] * len(READERS)


@pytest.mark.parametrize("vain", ["dropped", "failed"])
def test_what_nobody_was_told_may_be_told_again(vain: str) -> None:
    record = told(clean(), "opened", 1060.0)
    if vain == "dropped":
        notices = tuple(replace(one, dropped="resolved by then") if one.at == 1060.0 else one for one in record.notices)
        record = replace(record, notices=notices)
    else:
        failed = tuple(
            replace(one, failed_at=1061.0, sent_at=None, error="no email address of ada") if one.at == 1060.0 else one
            for one in record.deliveries
        )
        record = replace(record, deliveries=failed)
    assert check(record)[repetition.no_change_is_planned_twice].violations == ()


@pytest.mark.parametrize(("receiver", "sink"), [("program", "webhook"), ("alerts", "")])
def test_each_receiver_that_a_site_has_is_owed_what_happens(receiver: str, sink: str) -> None:
    record = clean()
    record = replace(record, sinks={**record.sinks, receiver: sink})
    assert [one.evidence for one in violations(record)] == [
        f"incident 1 {news} 1 times, planned for operators by {receiver} 0 times" for news in ("opened", "resolved")
    ]


@pytest.mark.parametrize(("sink", "lost"), [("webhook", ["opened", "resolved"]), ("", [])])
def test_what_is_called_sent_is_looked_for_where_it_can_be_read_back(sink: str, lost: list[str]) -> None:
    record = clean()
    notices = [replace(one, receiver="program") for one in record.notices if one.receiver == "chat"]
    sent = [
        replace(one, id=one.id + 100, receiver="program", key=one.key.replace("chat", "program"), mark="new")
        for one in record.deliveries
        if one.receiver == "chat"
    ]
    record = replace(
        record,
        sinks={**record.sinks, "program": sink},
        notices=(*record.notices, *(replace(one, delivery=(one.delivery or 0) + 100) for one in notices)),
        deliveries=(*record.deliveries, *sent),
    )
    assert [one.subject for one in violations(record)] == [f"program-{news}" for news in lost]


def test_whoever_is_told_of_whatever_else_changed_is_told_nothing_twice() -> None:
    record = clean()
    updated = replace(record.notices[0], id=99, news="updated", at=1200.0)
    record = replace(record, notices=(*record.notices, updated))
    assert check(record)[repetition.no_change_is_planned_twice].violations == ()
