"""How often a rule was wrong: incidents by what became of them and by what people said, against a plain count."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Resolution, State, Step
from dutycycle_alerter.reports.model import RuleOutcomes
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.feedback import feedback
from tests.alerter.store.conftest import undone
from tests.alerter.store.test_incidents import NOW, incident

Life = tuple[Incident, tuple[Event, ...]]
KINDS = (
    EventKind.TOLD,
    EventKind.ACKNOWLEDGED,
    EventKind.SNOOZED,
    EventKind.INTENDED,
    EventKind.WITHDRAWN,
    EventKind.NOT_TOLD,
)
SOMEBODY = {"receiver": "mail", "addresses": ["bob@example.org"]}
PROGRAM = {"receiver": "alertmanager", "addresses": []}


def life(
    rule: str = "idle",
    *said: tuple[EventKind, float],
    opened: float = NOW,
    lasted: float | None = None,
    how: Resolution | None = None,
    **changes: object,
) -> Life:
    """An incident, with what happened so many seconds after it opened."""
    made = incident(rule=rule, opened_at=opened, **changes)
    if how is not None:
        made = replace(made, state=State.RESOLVED, resolution=how, resolved_at=opened + (lasted or 0.0))
    return made, (
        Event(opened, EventKind.OPENED, "opened"),
        *(Event(opened + after, kind, "said", data=SOMEBODY) for kind, after in said),
    )


def told(database: Database, lives: list[Life], **arguments: object) -> list[RuleOutcomes]:
    asked: dict[str, object] = {"since": NOW, "until": NOW + 100_000}
    found = []
    with undone(database) as connection:
        steps = [(None, Step(replace(item, subject=f"slurm/{n}"), events)) for n, (item, events) in enumerate(lives)]
        incidents.save_all(connection, steps)
        found = feedback(connection, **(asked | arguments))  # type: ignore[arg-type]
    return found  # noqa: RET504 - the transaction ends with an exception that is caught


def test_nothing_is_nothing(database: Database) -> None:
    assert told(database, []) == []


def test_each_thing_is_counted_once_an_incident(database: Database) -> None:
    ack, told_, snoozed, intended = (
        EventKind.ACKNOWLEDGED,
        EventKind.TOLD,
        EventKind.SNOOZED,
        EventKind.INTENDED,
    )
    lives = [
        life("idle", (told_, 5), (told_, 6), (ack, 60), (ack, 90)),
        life("idle", (told_, 5), (intended, 300), (intended, 400), how=Resolution.INTENDED),
        life("idle", (intended, 300), how=Resolution.INTENDED),
        life("idle", (told_, 5), (snoozed, 10), how=Resolution.CLEARED, lasted=1000),
        life("idle", (EventKind.NOT_TOLD, 5), how=Resolution.CLEARED, lasted=3000),
        life("idle", how=Resolution.ENDED, lasted=9),
        life("idle", how=Resolution.OPERATOR, lasted=9),
        life("idle", how=Resolution.LOST, lasted=9),
        life("idle", how=Resolution.EXCLUDED, lasted=9),
        life("uneven"),
    ]
    idle, uneven = told(database, lives)
    assert idle == RuleOutcomes(
        "idle",
        opened=9,
        told=3,
        acknowledged=1,
        snoozed=1,
        intended=2,
        wrong=1,
        closed=1,
        closed_as_intended=2,
        cleared=2,
        ended=1,
        excluded=1,
        lost=1,
        active=1,
        to_acknowledge=60.0,
        to_clear=2000.0,
    )
    assert idle.wrong_share == pytest.approx(1 / 3)
    assert uneven == RuleOutcomes("uneven", opened=1, active=1)
    assert uneven.wrong_share is None


def test_a_program_that_took_it_told_nobody(database: Database) -> None:
    alone, events = life("idle", (EventKind.INTENDED, 9), how=Resolution.INTENDED)
    beside, _ = life("idle")
    taken = Event(NOW + 1, EventKind.TOLD, "notified operators by alertmanager", data=PROGRAM)
    lives: list[Life] = [
        (alone, (*events, taken)),
        (beside, (taken, Event(NOW + 2, EventKind.TOLD, "notified operators by mail", data=SOMEBODY), taken)),
        (beside, (Event(NOW + 2, EventKind.TOLD, "as an earlier version told it"),)),
    ]
    (row,) = told(database, lives)
    assert (row.opened, row.told, row.intended, row.wrong) == (3, 1, 1, 0)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ((EventKind.INTENDED, EventKind.WITHDRAWN), 0),
        ((EventKind.INTENDED, EventKind.WITHDRAWN, EventKind.INTENDED), 1),
        ((EventKind.INTENDED, EventKind.INTENDED, EventKind.WITHDRAWN), 0),
        ((EventKind.INTENDED,), 1),
        ((EventKind.WITHDRAWN,), 0),
    ],
)
def test_what_was_taken_back_was_not_wrong(database: Database, said: tuple[EventKind, ...], counts: int) -> None:
    """Though all of it was said within one second; the latest word counts."""
    lives = [life("idle", (EventKind.TOLD, 5), *((kind, 60) for kind in said), how=Resolution.INTENDED)]
    (row,) = told(database, lives)
    assert (row.told, row.intended, row.wrong, row.closed_as_intended) == (1, counts, counts, 1)


def test_incidents_of_the_range_of_a_cluster_and_of_a_user(database: Database) -> None:
    lives = [
        life(opened=NOW - 1),
        life(opened=NOW, cluster="a", user="alice"),
        life(opened=NOW + 99, cluster="b", user="alice"),
        life(opened=NOW + 99, cluster="b", user="bob"),
        life(opened=NOW + 100),
    ]
    assert [row.opened for row in told(database, lives, until=NOW + 100)] == [3]
    assert [row.opened for row in told(database, lives, until=NOW + 100, cluster="b")] == [2]
    assert [row.opened for row in told(database, lives, until=NOW + 100, cluster="b", user="bob")] == [1]
    assert told(database, lives, until=NOW + 100, user="carol") == []


def test_times_are_on_the_scale_of_people_and_never_negative(database: Database) -> None:
    lives = [life("idle", (EventKind.ACKNOWLEDGED, 2.0), how=Resolution.CLEARED, lasted=5.0)]
    (row,) = told(database, lives, factor=60.0)
    assert (row.to_acknowledge, row.to_clear) == (120.0, 300.0)
    (row,) = told(database, [life("idle", (EventKind.ACKNOWLEDGED, -3.0))])
    assert row.to_acknowledge == 0.0


LIVES = st.builds(
    lambda rule, said, how, lasted: life(rule, *said, how=how, lasted=lasted),
    st.sampled_from(["idle", "hung", "uneven"]),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1000).map(float)), max_size=5),
    st.none() | st.sampled_from(Resolution),
    st.integers(0, 5000).map(float),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives=st.lists(LIVES, max_size=12))
def test_it_is_what_counting_one_by_one_gives(database: Database, lives: list[Life]) -> None:
    found = {row.name: row for row in told(database, lives)}
    assert {rule: row.opened for rule, row in found.items()} == Counter(item.rule for item, _ in lives)
    for rule, row in found.items():
        mine = [(item, {event.kind for event in events}, events) for item, events in lives if item.rule == rule]
        assert row.told == sum(EventKind.TOLD in kinds for _, kinds, _ in mine)
        assert row.acknowledged == sum(EventKind.ACKNOWLEDGED in kinds for _, kinds, _ in mine)
        assert row.snoozed == sum(EventKind.SNOOZED in kinds for _, kinds, _ in mine)
        words = [(item, kinds, _last_word(events)) for item, kinds, events in mine]
        assert row.intended == sum(last is EventKind.INTENDED for _, _, last in words)
        assert row.wrong == sum(last is EventKind.INTENDED and EventKind.TOLD in kinds for _, kinds, last in words)
        ways = Counter(item.resolution for item, _, _ in mine)
        ends = (row.closed, row.closed_as_intended, row.cleared, row.ended, row.excluded, row.lost, row.active)
        assert ends == (
            ways[Resolution.OPERATOR],
            ways[Resolution.INTENDED],
            ways[Resolution.CLEARED],
            ways[Resolution.ENDED],
            ways[Resolution.EXCLUDED],
            ways[Resolution.LOST],
            ways[None],
        )
        assert sum(ends) == row.opened
        firsts = [
            min(event.at for event in events if event.kind is EventKind.ACKNOWLEDGED) - item.opened_at
            for item, kinds, events in mine
            if EventKind.ACKNOWLEDGED in kinds
        ]
        cleared = [
            item.resolved_at - item.opened_at
            for item, _, _ in mine
            if item.resolution is Resolution.CLEARED and item.resolved_at is not None
        ]
        assert row.to_acknowledge == (statistics.median(firsts) if firsts else None)
        assert row.to_clear == (statistics.median(cleared) if cleared else None)


def _last_word(events: tuple[Event, ...]) -> EventKind | None:
    said = [event.kind for event in events if event.kind in (EventKind.INTENDED, EventKind.WITHDRAWN)]
    return said[-1] if said else None
