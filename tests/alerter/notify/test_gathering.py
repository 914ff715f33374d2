"""What goes out now and together: tables of the cases, and what holds of any notices that wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.notify.gathering import AT_ONCE, Gathered, Past, Waiting, gather, reserve
from dutycycle_alerter.notify.model import OPERATORS, ParcelKind, Recipient, To
from dutycycle_alerter.settings.notify import ReceiverSettings
from tests.alerter.notify.outbox import KINDS, receiver

NOW = 10_000.0
ALICE = Recipient(To.OWNER, "alice")


def made(kind: str, **fields: Any) -> ReceiverSettings:
    return ReceiverSettings.model_validate(receiver(kind, **fields))


def waits(number: int, incident: int | None = None, **changes: Any) -> Waiting:
    """A notice that is due."""
    incident = number if incident is None else incident
    one = Waiting(number, OPERATORS, "900", incident, NOW - 1, "", State.OPEN, critical=False)
    theirs = changes.get("to", OPERATORS).user
    return replace(one, **{"user": theirs} | changes)


def critical(number: int, **changes: Any) -> Waiting:
    return waits(number, critical=True, **changes)


def thread(number: int, incident: int | None = None, **changes: Any) -> Waiting:
    incident = number if incident is None else incident
    return waits(number, incident, bundle=f"0 incident={incident}", **changes)


def shown(gathered: Gathered) -> list[tuple[str, list[int]]]:
    """Kind and notices of each portion."""
    return [(portion.kind.value, [item.id for item in portion.notices]) for portion in gathered.portions]


@pytest.mark.parametrize(
    ("kind", "waiting", "past", "portions"),
    [
        pytest.param("email", [waits(1, due_at=NOW + 1)], Past(), [], id="not due"),
        pytest.param("email", [waits(1)], Past(), [("incidents", [1])], id="due"),
        pytest.param(
            "email", [waits(1), waits(2, due_at=NOW + 59)], Past(), [("incidents", [1, 2])], id="the oldest decides"
        ),
        pytest.param(
            "email",
            [waits(1), waits(2, bundle="60 rule=idle")],
            Past(),
            [("incidents", [1]), ("incidents", [2])],
            id="bundles",
        ),
        pytest.param(
            "email",
            [waits(1), waits(2, bundle="60 rule=idle")],
            Past(last={(OPERATORS, "900"): NOW - 899, (OPERATORS, "60 rule=idle"): NOW - 60}),
            [("incidents", [2])],
            id="interval",
        ),
        pytest.param(
            "email",
            [waits(1), waits(2), waits(3, 1, to=ALICE), waits(4, 1, bundle="60 rule=idle")],
            Past(held={(1, OPERATORS)}),
            [("incidents", [2]), ("incidents", [3])],
            id="of an incident in a message that waits",
        ),
        pytest.param(
            "email", [waits(1)], Past(last={(OPERATORS, "900"): NOW + 5}), [("incidents", [1])], id="a clock set back"
        ),
        pytest.param("email", [waits(1)], Past(ready={(OPERATORS, "900")}), [], id="one is ready already"),
        pytest.param("email", [waits(n) for n in range(11)], Past(), [("digest", list(range(11)))], id="more than ten"),
        pytest.param(
            "email",
            [waits(n, bundle=f"900 user={n}", due_at=NOW + 60 * (n > 0)) for n in range(11)],
            Past(),
            [("digest", list(range(11)))],
            id="more than ten wait, one is due",
        ),
        pytest.param(
            "email", [waits(n, n % 10) for n in range(20)], Past(), [("incidents", list(range(20)))], id="by incident"
        ),
        pytest.param("slack", [thread(1), thread(2)], Past(), [("incidents", [1]), ("incidents", [2])], id="threads"),
        pytest.param(
            "slack", [thread(n) for n in range(11)], Past(), [("digest", list(range(11)))], id="many new threads"
        ),
        pytest.param(
            "slack",
            [thread(n) for n in range(12)],
            Past(threads={(n, OPERATORS) for n in range(11)}),
            [("incidents", [11])] + [("incidents", [n]) for n in range(11)],
            id="many threads go on",
        ),
        pytest.param(
            "email",
            [waits(1), waits(2, bundle="60")],
            Past(sent={OPERATORS: 15}),
            [("digest", [1, 2])],
            id="one place left",
        ),
        pytest.param("email", [waits(1)], Past(sent={OPERATORS: 15}), [("incidents", [1])], id="the last place"),
        pytest.param("email", [waits(1)], Past(sent={OPERATORS: 16}), [], id="no place left"),
        pytest.param(
            "email", [waits(1, to=ALICE)], Past(sent={ALICE: 3}), [("incidents", [1])], id="the last place of a user"
        ),
        pytest.param("email", [waits(1, to=ALICE)], Past(sent={ALICE: 4}), [], id="no place of a user left"),
        pytest.param("email", [waits(1)], Past(sent={ALICE: 20}), [("incidents", [1])], id="places are one's own"),
        pytest.param(
            "email",
            [waits(1), critical(2, bundle="60"), critical(3, bundle="60 b")],
            Past(sent={OPERATORS: 16}),
            [("incidents", [2]), ("incidents", [3])],
            id="the last places are for what is critical",
        ),
        pytest.param(
            "email",
            [critical(1), critical(2, bundle="60"), waits(3, bundle="60 b")],
            Past(sent={OPERATORS: 19}),
            [("digest", [1, 2])],
            id="the very last place",
        ),
        pytest.param("email", [critical(1)], Past(sent={OPERATORS: 20}), [], id="no place for anything"),
        pytest.param(
            "email",
            [critical(1, digest="daily", state=State.RESOLVED)],
            Past(sent={OPERATORS: 16}),
            [],
            id="critical and over",
        ),
        pytest.param(
            "slack",
            [thread(1), thread(2), thread(3)],
            Past(sent={OPERATORS: 200}, threads={(1, OPERATORS), (2, OPERATORS)}),
            [("incidents", [1]), ("incidents", [2])],
            id="threads go on whatever was sent",
        ),
        pytest.param(
            "webhook",
            [waits(n, digest="daily") for n in range(AT_ONCE + 1)],
            Past(),
            [("digest", list(range(AT_ONCE))), ("digest", [AT_ONCE])],
            id="digests of programs come in parts",
        ),
        pytest.param(
            "alertmanager",
            [waits(n) for n in range(AT_ONCE + 1)],
            Past(sent={OPERATORS: 10_000}),
            [("incidents", list(range(AT_ONCE))), ("incidents", [AT_ONCE])],
            id="programs get all",
        ),
        pytest.param(
            "email",
            [waits(1, digest="daily"), waits(2, digest="daily", due_at=NOW + 1), waits(3), waits(4, digest="weekly")],
            Past(),
            [("digest", [1]), ("digest", [4]), ("incidents", [3])],
            id="digests",
        ),
    ],
)
def test_what_goes_out(kind: str, waiting: list[Waiting], past: Past, portions: list[tuple[str, list[int]]]) -> None:
    found = gather(made(kind), waiting, past, now=NOW)
    assert (shown(found), found.dropped) == (portions, {})


@pytest.mark.parametrize(
    ("kind", "notice", "past", "reason"),
    [
        ("email", waits(1, state=State.RESOLVED), Past(), "resolved before it was sent"),
        ("slack", thread(1, state=State.RESOLVED), Past(told={(1, OPERATORS)}), None),
        ("slack", thread(1, state=State.RESOLVED), Past(told={(1, ALICE)}), "resolved before it was sent"),
        ("alertmanager", waits(1, state=State.RESOLVED), Past(), None),
        ("webhook", waits(1, state=State.RESOLVED), Past(), None),
        ("email", waits(1, state=State.RESOLVED, digest="daily"), Past(), None),
        ("email", waits(1, state=State.RESOLVED, is_report=True), Past(), None),
        ("email", waits(1, state=State.SNOOZED), Past(), "snoozed before it was sent"),
        ("email", waits(1, state=State.ACKNOWLEDGED), Past(), None),
        ("email", waits(1, to=ALICE), Past(muted={"alice"}), "unsubscribed"),
        ("email", waits(1, to=ALICE, digest="daily"), Past(muted={"alice"}), "unsubscribed"),
        ("email", critical(1, to=ALICE), Past(muted={"alice"}), None),
        ("email", waits(1), Past(muted={"", "alice"}), None),
    ],
)
def test_what_nobody_needs_any_more(kind: str, notice: Waiting, past: Past, reason: str | None) -> None:
    found = gather(made(kind), [notice], past, now=NOW)
    assert found.dropped == ({} if reason is None else {1: reason})
    assert len(found.portions) == (reason is None)


RECIPIENTS = st.sampled_from([OPERATORS, ALICE, Recipient(To.OWNER, "bob")])
NOTICES = st.lists(
    st.builds(
        Waiting,
        id=st.just(0),
        to=RECIPIENTS,
        bundle=st.sampled_from(["0", "900", "900 rule=idle", "60 rule=idle"]),
        incident_id=st.integers(1, 30),
        due_at=st.floats(NOW - 100, NOW + 100),
        digest=st.sampled_from(["", "", "", "daily"]),
        state=st.sampled_from(list(State)),
        critical=st.booleans(),
        is_report=st.booleans(),
    ),
    max_size=40,
)
PAST = st.builds(
    Past,
    last=st.dictionaries(st.tuples(RECIPIENTS, st.sampled_from(["900", "60 rule=idle"])), st.floats(NOW - 1000, NOW)),
    sent=st.dictionaries(RECIPIENTS, st.integers(0, 8)),
    held=st.frozensets(st.tuples(st.integers(1, 30), RECIPIENTS), max_size=5),
    ready=st.frozensets(st.tuples(RECIPIENTS, st.sampled_from(["0", "900"]))),
    told=st.frozensets(st.tuples(st.integers(1, 30), RECIPIENTS)),
    threads=st.frozensets(st.tuples(st.integers(1, 30), RECIPIENTS)),
    muted=st.frozensets(st.sampled_from(["alice", "bob"])),
)


@given(kind=st.sampled_from(list(KINDS)), waiting=NOTICES, past=PAST, limit=st.none() | st.integers(1, 6))
def test_of_any_notices_none_goes_twice_and_nobody_gets_more_than_their_messages(
    kind: str, waiting: list[Waiting], past: Past, limit: int | None
) -> None:
    settings = made(kind, limit=limit, digest_above=4)
    waiting = [
        replace(item, id=number, bundle=f"0 incident={item.incident_id}" if kind == "slack" else item.bundle)
        for number, item in enumerate(waiting)
    ]
    found = gather(settings, waiting, past, now=NOW)
    gone = Counter(item.id for portion in found.portions for item in portion.notices)
    gone.update(list(found.dropped))
    assert all(number == 1 for number in gone.values())
    messages = Counter(portion.to for portion in found.portions if not portion.goes_on)
    ordinary = Counter(portion.to for portion in found.portions if not portion.goes_on and not portion.urgent)
    for portion in found.portions:
        assert portion.notices
        assert {item.to for item in portion.notices} == {portion.to}
        assert any(item.due_at <= NOW for item in portion.notices)
        assert not any(item.about in past.held for item in portion.notices)
        if portion.kind is ParcelKind.INCIDENTS and kind not in ("alertmanager", "webhook"):
            assert len({item.incident_id for item in portion.notices}) <= settings.digest_above
    for to, number in messages.items():
        most = settings.daily_limit(user=to.to is To.OWNER)
        if most is not None:
            assert number + past.sent.get(to, 0) <= most
            assert not ordinary[to] or number + past.sent.get(to, 0) <= most - reserve(most)


@pytest.mark.parametrize(("limit", "kept"), [(1, 0), (2, 1), (5, 1), (6, 2), (20, 4), (200, 40)])
def test_a_fifth_is_kept_for_what_is_critical(limit: int, kept: int) -> None:
    assert reserve(limit) == kept


@given(kind=st.sampled_from(["email", "slack", "webhook"]), waiting=NOTICES)
def test_in_the_end_every_notice_goes_or_is_dropped(kind: str, waiting: list[Waiting]) -> None:
    """Each time something goes out, what went out is over; nothing waits for good."""
    left = [
        replace(item, id=number, bundle=f"0 incident={item.incident_id}" if kind == "slack" else item.bundle)
        for number, item in enumerate(waiting)
    ]
    for _ in range(3):
        found = gather(made(kind, limit=1), left, Past(), now=NOW + 1000)
        gone = {item.id for portion in found.portions for item in portion.notices} | found.dropped.keys()
        assert gone or not left
        left = [item for item in left if item.id not in gone]
    assert left == []
