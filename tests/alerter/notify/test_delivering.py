"""From a change of an incident to what receivers get, over both databases: who is told, when, together with what, and
what becomes of messages that nobody takes.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Event, EventKind, Severity, State, Step
from dutycycle_alerter.notify import delivering
from dutycycle_alerter.notify.model import Parcel, ParcelKind, Recipient, To
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store import deliveries, incidents, outbox
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.retention import forget
from dutycycle_alerter.store.schema import delivery, notice, thread
from tests.alerter.notify.outbox import DAY, HOUR, MINUTE, Office, configured, idle, office, receiver, route
from tests.alerter.store.conftest import undone
from tests.alerter.store.test_incidents import NOW

OWNER = Recipient(To.OWNER, "alice")


def test_incidents_wait_for_others_and_go_together(database: Database) -> None:
    at = office(database, route("email"))
    first = at.open(idle(1))
    at.clock.advance(30)
    second = at.open(idle(2))
    at.go(20)
    assert at.got("email") == []
    at.go(20)
    (mail,) = at.got("email")
    assert (mail.parcel.kind, mail.numbers, mail.news) == (
        ParcelKind.INCIDENTS,
        [first[0].id, second[0].id],
        [[News.OPENED], [News.OPENED]],
    )
    third = at.open(idle(3))
    at.go(10 * MINUTE)
    assert len(at.got("email")) == 1, "the next of its group waits for a quarter of an hour"
    at.go(5 * MINUTE)
    assert at.got("email")[1].numbers == [third[0].id]


def test_groups_are_told_apart_and_wait_for_themselves(database: Database) -> None:
    at = office(database, route("email", group_by=["rule"], group_interval="1h"))
    at.open(idle(1), idle(2, rule="stalled"), idle(3))
    at.go(2 * MINUTE)
    assert sorted(mail.numbers for mail in at.got("email")) == [[1, 3], [2]]


def test_what_is_over_before_it_was_told_is_not_told(database: Database) -> None:
    at = office(database, route("email"), route("slack"), route("webhook"))
    (gone,) = at.open(idle(1))
    (kept,) = at.open(idle(2))
    at.clock.advance(30)
    at.resolve(gone)
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[kept.id]]
    assert [message.numbers for message in at.got("slack")] == [[kept.id]]
    assert at.got("webhook")[0].news == [[News.OPENED, News.RESOLVED], [News.OPENED]], "programs are told everything"


def test_mail_is_told_what_is_loud_and_a_thread_everything(database: Database) -> None:
    at = office(database, route("email", group_interval="1s"), route("slack"))
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    at.change(item, EventKind.CAUSE_FOUND)
    at.go(2 * MINUTE)
    at.change(item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL)
    at.go(2 * MINUTE)
    at.resolve(item)
    at.go(2 * MINUTE)
    assert [mail.news for mail in at.got("email")] == [[[News.OPENED]], [[News.ESCALATED]]]
    assert [message.news for message in at.got("slack")] == [
        [[News.OPENED]],
        [[News.UPDATED]],
        [[News.ESCALATED]],
        [[News.RESOLVED]],
    ]
    first, *others = at.got("slack")
    assert first.parcel.items[0].thread == {}
    assert all(message.parcel.items[0].thread == {"ts": f"{item.id}.0"} for message in others)


def test_each_incident_has_a_thread_of_its_own_and_many_come_as_one_digest(database: Database) -> None:
    at = office(database, route("slack"))
    few = at.open(*(idle(n) for n in range(10)))
    at.go(2 * MINUTE)
    assert [message.numbers for message in at.got("slack")] == [[item.id] for item in few]
    many = at.open(*(idle(n) for n in range(100, 111)))
    at.go(2 * MINUTE)
    (digest,) = at.got("slack")[10:]
    assert (digest.parcel.kind, len(digest.numbers)) == (ParcelKind.DIGEST, 11)
    at.resolve(*few, many[0])
    at.go(2 * MINUTE)
    closed = at.got("slack")[11:]
    assert all(message.parcel.kind is ParcelKind.INCIDENTS for message in closed)
    assert sorted(message.numbers for message in closed) == sorted([[item.id] for item in few] + [[many[0].id]])


def test_acts_of_people_are_told_soon_and_quiet_is_kept(database: Database) -> None:
    """Through whatever process they act: it needs no configuration."""
    at = office(database, route("slack"))
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="bob")
    at.go(2 * MINUTE)
    (_, snoozed) = at.got("slack")
    assert [(t.news, t.actor) for t in snoozed.parcel.items[0].tellings] == [(News.UPDATED, "bob")]
    at.change(item, EventKind.CAUSE_FOUND)
    at.change(item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL)
    at.go(2 * MINUTE)
    assert len(at.got("slack")) == 2
    at.change(item, EventKind.SNOOZE_EXPIRED, state=State.OPEN, snoozed_until=None)
    at.go(2 * MINUTE)
    assert at.got("slack")[2].news == [[News.UPDATED]]
    at.reader.acknowledge(item.id, actor="carol")
    at.go(2 * MINUTE)
    at.change(item, EventKind.CAUSE_FOUND)
    at.go(2 * MINUTE)
    assert len(at.got("slack")) == 4
    at.reader.resolve(item.id, actor="carol")
    at.go(2 * MINUTE)
    assert at.got("slack")[4].news == [[News.RESOLVED]]


def test_who_snoozes_before_anybody_was_told_is_told_when_it_wakes(database: Database) -> None:
    at = office(database, route("email"))
    (item,) = at.open(idle(1))
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="bob")
    at.go(10 * MINUTE)
    assert at.got("email") == []
    at.change(item, EventKind.SNOOZE_EXPIRED, state=State.OPEN, snoozed_until=None)
    at.go(2 * MINUTE)
    assert at.got("email")[0].news == [[News.OPENED]]


def test_hundreds_of_incidents_at_once_are_grouped_and_nobody_gets_more_than_the_limit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LISTED", 50)
    at = office(
        database,
        route("email"),
        route("email", "owner", group_interval="1m"),
        route("slack"),
        route("alertmanager"),
        receivers=[
            receiver("email", limit=2),
            receiver("slack", limit=3),
            receiver("alertmanager"),
        ],
    )
    for burst in range(3):
        at.open(*(idle(300 * burst + n, severity=Severity.CRITICAL, user=f"user{n % 10}") for n in range(300)))
        at.go(20 * MINUTE, step=300)
    mails = list(at.got("email"))
    counted = {to: sum(mail.parcel.to == to for mail in mails) for to in {mail.parcel.to for mail in mails}}
    assert len(counted) == 11
    assert set(counted.values()) == {2}
    (first, second) = [mail.parcel for mail in mails if mail.parcel.to.to is To.OPERATORS]
    assert (first.kind, len(first.items), first.left_out) == (ParcelKind.DIGEST, 50, 250)
    assert second.kind is ParcelKind.DIGEST
    assert len(at.got("slack")) == 3
    told = [number for message in at.got("alertmanager") for number in message.numbers]
    assert sorted(told) == list(range(1, 901))
    at.go(DAY, step=HOUR)
    late = at.got("email")[len(mails) :]
    assert {mail.parcel.to: mail.parcel.kind for mail in late} == dict.fromkeys(counted, ParcelKind.DIGEST)
    assert len(late) == 11
    assert at.reader.outbox() == {}


def test_who_was_told_is_in_the_history_and_so_is_who_refused(database: Database) -> None:
    at = office(database, route("email"))
    at.inboxes["email"].refused = {"old@example.org": "550 gone"}
    (item,) = at.open(idle(1))
    at.go(2 * MINUTE)
    told, not_told = at.events(item, EventKind.TOLD, EventKind.NOT_TOLD)
    assert (told.text, told.data["addresses"]) == ("notified operators by email", ["ops@example.org"])
    assert not_told.text == "email could not notify old@example.org: 550 gone"


def test_users_are_told_by_severity_at_once_and_by_cost_later(database: Database) -> None:
    at = office(database, route("email", "owner"))
    (item,) = at.open(idle(1, rule="stalled", wasted=20 * HOUR))
    (urgent,) = at.open(idle(2, severity=Severity.CRITICAL, user="bob"))
    at.go(2 * MINUTE)
    assert [(mail.parcel.to.user, mail.numbers) for mail in at.got("email")] == [("bob", [urgent.id])]
    at.change(item, EventKind.CAUSE_FOUND, wasted=25 * HOUR)
    at.go(2 * MINUTE)
    last = at.got("email")[-1]
    assert (last.parcel.to, last.news) == (OWNER, [[News.OPENED]])
    assert "24 GPU-hours" in last.parcel.items[0].tellings[0].text
    for _ in range(3):
        at.run_pass()
        at.go(20 * MINUTE, step=MINUTE)
    at.resolve(item)
    at.go(20 * MINUTE, step=MINUTE)
    assert len(at.got("email")) == 2, "once"


def test_who_unsubscribed_hears_of_what_is_critical_alone(database: Database) -> None:
    at = office(database, route("email", "owner", group_interval="1s"), owners={"wasted_gpu_hours": 0})
    at.reader.mute("email", "alice")
    (item,) = at.open(idle(1, wasted=HOUR))
    at.go(5 * MINUTE)
    at.run_pass()
    assert at.got("email") == []
    assert at.reader.outbox() == {}
    at.change(
        item, EventKind.SEVERITY_CHANGED, severity=Severity.CRITICAL, rules=idle(1, severity=Severity.CRITICAL).rules
    )
    at.go(5 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[item.id]]


def test_a_daily_digest_has_what_opened_and_what_is_over(database: Database) -> None:
    at = office(database, route("email", digest="daily", digest_at="08:00"), timezone="Europe/Oslo")
    gone, kept = at.open(idle(1), idle(2))
    at.go(MINUTE)
    at.resolve(gone)
    at.go(DAY, step=1800)
    (mail,) = at.got("email")
    assert (mail.parcel.kind, mail.numbers) == (ParcelKind.DIGEST, [gone.id, kept.id])
    assert mail.parcel.items[0].incident.state is State.RESOLVED


def test_the_weekly_report_comes_once_and_the_newest_alone_after_a_pause(database: Database) -> None:
    weekly = [{"receiver": "email", "day": "mon", "at": "08:00"}]
    at = office(database, receivers=[receiver("email")], weekly=weekly)
    at.turn()
    assert at.got("email") == [], "what was due before it was configured is not sent"
    at.go(14 * DAY, step=6 * HOUR)
    first, second = (mail.parcel for mail in at.got("email"))
    assert (first.kind, first.items) == (ParcelKind.REPORT, ())
    assert first.report is not None
    assert second.report == (first.report[1], first.report[1] + 7 * DAY)
    assert first.report[1] - first.report[0] == 7 * DAY
    at.clock.advance(30 * DAY)
    again = Office(database, at.settings, clock=at.clock, inboxes=at.inboxes)
    again.go(HOUR)
    assert len(at.got("email")) == 3


def test_at_a_time_scale_everything_is_so_much_faster(database: Database) -> None:
    at = office(database, route("email"), time_scale=60)
    at.open(idle(1))
    at.go(1.5, step=0.25)
    assert len(at.got("email")) == 1


def test_news_from_before_there_were_routes_is_not_told(database: Database) -> None:
    Office(database, configured()).open(idle(1))
    at = office(database, route("email"))
    at.open(idle(2))
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[2]]


def test_a_courier_that_is_stopped_begins_nothing_more(database: Database) -> None:
    at = office(database, route("slack"))
    at.open(idle(1), idle(2))
    inbox, courier = at.inboxes["slack"], at.couriers["slack"]
    inbox.fails = lambda _: courier.stop()
    at.clock.advance(2 * MINUTE)
    at.turn()
    assert len(inbox.got) == 1


def test_messages_are_forgotten_when_they_are_old_and_their_incidents_are_over(database: Database) -> None:
    """Of an incident that goes on it stays known who was told."""
    at = office(database, route("slack"), route("email", "owner"))
    over, going = at.open(idle(1, severity=Severity.CRITICAL), idle(2, severity=Severity.CRITICAL))
    at.go(2 * MINUTE)
    at.resolve(over)
    at.go(2 * MINUTE)
    at.clock.advance(91 * DAY)
    forget(database, at.settings.retention, at.clock())
    with database.read() as connection:
        kept = set(connection.execute(sa.select(notice.c.receiver, notice.c.incident_id)).all())
        assert connection.execute(sa.select(sa.func.count()).select_from(delivery)).scalar() == 2
    # The mail to alice was about both.
    assert kept == {("slack", going.id), ("email", over.id), ("email", going.id)}
    at.run_pass()
    at.resolve(going)
    at.go(2 * MINUTE)
    assert at.got("slack")[-1].news == [[News.RESOLVED]]
    assert len(at.got("email")) == 1
    at.clock.advance(400 * DAY)
    forget(database, at.settings.retention, at.clock())
    (later,) = at.open(idle(3))
    at.go(2 * MINUTE)
    assert at.got("slack")[-1].numbers == [later.id], "what happens then is told as ever"
    forget(database, at.settings.retention, at.clock())
    with database.read() as connection:
        for table in (notice, thread):
            assert connection.execute(sa.select(table.c.incident_id)).scalars().all() == [later.id]
        assert connection.execute(sa.select(sa.func.count()).select_from(delivery)).scalar() == 1


def test_what_waits_for_a_receiver_that_is_configured_no_more_is_given_up(database: Database) -> None:
    at = office(database, route("email"), route("slack"))
    at.inboxes["slack"].down()
    at.open(idle(1))
    at.go(2 * MINUTE)
    at.open(idle(2))
    again = Office(database, configured(route("email")), clock=at.clock)
    assert list(again.reader.outbox()) == ["email"]


def test_a_change_that_is_not_kept_is_not_told(database: Database) -> None:
    at = office(database, route("email"))
    with undone(database) as connection:
        (item,) = incidents.save_all(connection, [(None, Step(idle(1), (Event(NOW, EventKind.OPENED, ""),)))])
        at.announcer.announce(connection, NOW)
        assert outbox.depths(connection)["email"].notices == 1
    assert item is not None
    at.go(2 * MINUTE)
    assert at.reader.outbox() == {}
    assert at.got("email") == []
    at.open(idle(1))
    at.go(2 * MINUTE)
    assert len(at.got("email")) == 1


def test_what_people_do_while_a_message_is_sent_is_told_after_it(database: Database) -> None:
    at = office(database, route("slack"))
    (item,) = at.open(idle(1))

    def act(_: Parcel) -> None:
        at.inboxes["slack"].up()
        at.reader.acknowledge(item.id, actor="bob")

    at.inboxes["slack"].fails = act  # type: ignore[assignment]
    at.go(10 * MINUTE)
    first, second = at.got("slack")
    assert (first.parcel.items[0].incident.state, second.parcel.items[0].incident.state) == (
        State.OPEN,
        State.ACKNOWLEDGED,
    )
    assert second.parcel.items[0].thread == {"ts": f"{item.id}.0"}


def test_what_was_told_before_a_message_failed_is_gone_on_with(database: Database) -> None:
    at = office(database, route("slack"))
    (item,) = at.open(idle(1))
    at.inboxes["slack"].fails = lambda _: DeliveryError("cut off", threads={item.id: {"ts": "7"}})
    at.go(2 * MINUTE)
    at.inboxes["slack"].up()
    at.go(2 * MINUTE)
    assert at.got("slack")[0].parcel.items[0].thread == {"ts": "7"}


def test_what_waited_for_days_takes_a_place_of_the_day_on_which_it_is_sent(database: Database) -> None:
    at = office(
        database, route("email", group_by=["user"], group_interval="1s"), receivers=[receiver("email", limit=5)]
    )
    inbox = at.inboxes["email"]
    inbox.down()
    at.open(*(idle(number, user=f"user{number}") for number in range(4)))
    at.go(25 * HOUR, step=900)
    for number in range(10):
        at.open(idle(10 + number, user=f"other{number}"))
        at.go(MINUTE)
    inbox.up()
    at.go(12 * HOUR, step=900)
    assert len(inbox.got) == 4
    at.go(DAY, step=HOUR)
    assert [mail.parcel.kind for mail in inbox.got][4:] == [ParcelKind.DIGEST]
    assert len(inbox.got[4].numbers) == 10


def test_what_was_given_up_takes_no_place(database: Database) -> None:
    at = office(database, route("slack"), receivers=[receiver("slack", limit=5)])
    inbox = at.inboxes["slack"]
    inbox.fails = lambda _: DeliveryError("no", permanent=True)
    at.open(*(idle(number) for number in range(4)))
    at.go(2 * MINUTE)
    inbox.up()
    at.open(*(idle(10 + number) for number in range(4)))
    at.go(2 * MINUTE)
    assert len(inbox.got) == 4


def test_what_waits_for_one_keeps_nobody_elses_from_being_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "_MOST_WAITING", 20)
    at = office(database, route("email", "owner", group_interval="1d"))
    at.open(idle(1, severity=Severity.CRITICAL))
    at.go(2 * MINUTE)
    at.open(*(idle(100 + number, severity=Severity.CRITICAL) for number in range(30)))
    at.go(2 * MINUTE)
    at.open(idle(2, severity=Severity.CRITICAL, user="bob"))
    at.go(2 * MINUTE)
    assert [mail.parcel.to.user for mail in at.got("email")] == ["alice", "bob"]


def test_what_opens_again_while_it_is_put_aside_is_told(database: Database) -> None:
    at = office(database, route("email"))
    (item,) = at.open(idle(1))
    at.reader.snooze(item.id, until=at.clock() + HOUR, actor="bob")
    with database.read() as connection:
        (waits,) = outbox.waiting(connection, "email", most=10)
    at.change(item, EventKind.SNOOZE_EXPIRED, state=State.OPEN, snoozed_until=None)
    with database.write() as connection:
        outbox.drop(connection, {waits.id: "snoozed before it was sent"})
    at.go(2 * MINUTE)
    assert [mail.numbers for mail in at.got("email")] == [[item.id]]


def test_history_says_told_of_what_a_digest_lists_and_not_of_what_it_counts(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LISTED", 10)
    at = office(database, route("email"))
    items = at.open(*(idle(number) for number in range(12)))
    at.go(2 * MINUTE)
    assert [len(at.events(item, EventKind.TOLD)) for item in items] == [1] * 10 + [0] * 2


def test_a_clock_that_is_set_back_stops_nothing(database: Database) -> None:
    at = office(database, route("email", group_interval="1h"), route("slack"))
    at.inboxes["slack"].down(retry_after=600)
    at.open(idle(1))
    at.go(2 * MINUTE)
    at.inboxes["slack"].up()
    at.clock.advance(-5 * HOUR)
    at.open(idle(2))
    at.go(5 * MINUTE)
    assert sorted(number for got in at.got("email") for number in got.numbers) == [1, 2]
    assert sorted(number for got in at.got("slack") for number in got.numbers) == [1, 2]


@pytest.mark.parametrize("back", [HOUR, 400 * DAY])
@pytest.mark.parametrize("how", [{"group_wait": "1h"}, {"digest": "daily"}, {"digest": "weekly", "digest_day": "mon"}])
def test_what_waits_while_the_clock_is_set_back_waits_no_longer_than_as_long_again(
    database: Database, how: dict[str, object], back: float
) -> None:
    at = office(database, route("email", **how))
    (item,) = at.open(idle(1))
    at.turn()
    at.clock.advance(-back)
    whole = {"daily": 2 * DAY, "weekly": 8 * DAY}.get(str(how.get("digest")), 2 * HOUR)
    at.go(whole + MINUTE, step=whole / 16)
    assert [got.numbers for got in at.got("email")] == [[item.id]]
    # What comes afterwards waits as ever.
    (item,) = at.open(idle(2))
    at.turn()
    assert len(at.got("email")) == 1


def test_threads_go_on_whatever_was_sent_and_take_no_place(database: Database) -> None:
    at = office(database, route("slack"), receivers=[receiver("slack", limit=5)])
    opened = at.open(*(idle(number) for number in range(4)))
    at.go(2 * MINUTE)
    for _ in range(2):
        for item in opened:
            at.change(item, EventKind.CAUSE_FOUND)
        at.go(2 * MINUTE)
    assert len(at.got("slack")) == 12
    (warning,) = at.open(idle(10))
    (critical,) = at.open(idle(11, severity=Severity.CRITICAL))
    at.go(2 * MINUTE)
    assert [message.numbers for message in at.got("slack")[12:]] == [[critical.id]], "the last place"
    at.resolve(*opened, critical)
    at.go(2 * MINUTE)
    assert len(at.got("slack")) == 18
    at.go(DAY, step=HOUR)
    assert at.got("slack")[18].numbers == [warning.id]
