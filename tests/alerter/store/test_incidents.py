"""Incidents in the store: every field comes back, the database itself allows one active incident, filters are exact."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.incidents.model import (
    Cause,
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
    Step,
)
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.settings.policies import Attention
from dutycycle_alerter.store import incidents, schema
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.incident_rows import from_row
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.store.conftest import text, undone

NOW = 1_750_000_000.0


def incident(subject: str = "slurm/1", *, nodes: tuple[str, ...] = ("gpu1",), **changes: object) -> Incident:
    made = Incident(
        subject=subject,
        rule="idle",
        severity=Severity.WARNING,
        state=State.OPEN,
        started_at=NOW - 1800,
        opened_at=NOW,
        updated_at=NOW,
        known_at=NOW,
        diagnosis=Diagnosis((Cause.NO_PROCESS,), ("0 processes",), ("release it",)),
        gpus=tuple(Gpu(node, "0", f"GPU-{node}") for node in nodes),
        rules=(
            OpenRule("idle", NOW, Severity.WARNING),
            OpenRule("uneven", NOW, Severity.WARNING, Attention.NONE),
        ),
        user="alice",
        account="lab",
        scheduler="slurm",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def add(database: Database, *items: Incident) -> list[int]:
    """Store them; their numbers."""
    numbers = []
    for item in items:
        with database.write() as connection:
            opened = Event(item.opened_at, EventKind.OPENED, "opened")
            saved = incidents.save(connection, None, Step(item, (opened,)))
            assert saved is not None
            numbers.append(saved.id)
    return numbers


def found(database: Database, **wanted: object) -> list[str]:
    """Subjects that match, in the order of the list."""
    with database.read() as connection:
        page, total = incidents.find(connection, IncidentFilter(**wanted), limit=100, offset=0)  # type: ignore[arg-type]
    assert total == len(page)
    return [item.subject for item in page]


# Every field

TEXT = text(40)
TIME = st.floats(0, 4e9)
GPUS = st.builds(Gpu, TEXT, TEXT, TEXT, TEXT, TEXT)
WASTE = st.dictionaries(TEXT, st.floats(0, 1e12), max_size=4)
RULES = st.builds(
    OpenRule,
    rule=TEXT,
    since=TIME,
    severity=st.sampled_from(Severity),
    told=st.none() | st.sampled_from(Attention),
    silent=st.booleans(),
    started_at=TIME,
    gpus=st.lists(GPUS, max_size=4).map(tuple),
    wasted=WASTE,
    energy=st.floats(0, 1e15),
)
DIAGNOSES = st.builds(
    Diagnosis,
    causes=st.lists(st.sampled_from(Cause), min_size=1, max_size=3).map(tuple),
    evidence=st.lists(TEXT, max_size=3).map(tuple),
    advice=st.lists(TEXT, max_size=3).map(tuple),
    tell_apart=TEXT,
    commands=st.lists(TEXT, max_size=3).map(tuple),
    known=st.lists(TEXT, max_size=3).map(tuple),
    own_steps=st.lists(st.tuples(st.sampled_from(Cause), TEXT), max_size=3).map(tuple),
)
INCIDENTS = st.builds(
    Incident,
    subject=TEXT,
    rule=TEXT,
    severity=st.sampled_from(Severity),
    state=st.sampled_from(State),
    started_at=TIME,
    opened_at=TIME,
    updated_at=TIME,
    diagnosis=DIAGNOSES,
    gpus=st.lists(GPUS, max_size=4).map(tuple),
    rules=st.lists(RULES, max_size=4).map(tuple),
    kind=TEXT,
    known_at=TIME,
    resolved_at=st.none() | TIME,
    resolution=st.none() | st.sampled_from(Resolution),
    snoozed_until=st.none() | TIME,
    actor=TEXT,
    reopened=st.integers(0, 1000),
    wasted=st.floats(0, 1e12),
    energy=st.floats(0, 1e15),
    waste_by_gpu=WASTE,
    job_wasted=st.floats(0, 1e12),
    cluster=TEXT,
    scheduler=TEXT,
    user=TEXT,
    account=TEXT,
    partition=TEXT,
    namespace=TEXT,
    job_gpus=st.integers(0, 10_000),
    workloads=st.lists(TEXT, max_size=4).map(tuple),
    figures=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=4),
)
EVENTS = st.builds(
    Event,
    at=TIME,
    kind=st.sampled_from(EventKind),
    text=TEXT,
    actor=TEXT,
    data=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=4),
)

# The store is shared by the examples of one test, but each leaves it as it was.
in_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.parametrize(("made", "strategy"), [(Incident, INCIDENTS), (OpenRule, RULES), (Diagnosis, DIAGNOSES)])
def test_the_strategies_know_every_field(made: type, strategy: st.SearchStrategy[object]) -> None:
    assert {field.name for field in fields(made)} - {"id"} <= set(strategy.wrapped_strategy.kwargs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("younger", ["known", "own_steps"])
def test_an_incident_from_before_something_was_kept_of_its_diagnosis_is_read(database: Database, younger: str) -> None:
    (number,) = add(database, incident())
    with database.write() as connection:
        (diagnosis,) = connection.execute(sa.select(schema.incident.c.diagnosis)).scalars()
        del diagnosis[younger]
        connection.execute(sa.update(schema.incident).values(diagnosis=diagnosis))
        read = incidents.get(connection, number)
    assert read is not None
    assert read.diagnosis == incident().diagnosis


def test_an_open_rule_from_before_it_kept_its_start_began_when_it_opened(database: Database) -> None:
    (number,) = add(database, incident())
    with database.write() as connection:
        (rules,) = connection.execute(sa.select(schema.incident.c.rules)).scalars()
        for rule in rules:
            for younger in ("started_at", "gpus", "wasted", "energy"):
                del rule[younger]
        connection.execute(sa.update(schema.incident).values(rules=rules))
        read = incidents.get(connection, number)
    assert read is not None
    assert [rule.started_at for rule in read.rules] == [NOW, NOW]


@in_one_store
@given(first=INCIDENTS, second=INCIDENTS, events=st.lists(EVENTS, max_size=4))
def test_what_is_saved_comes_back_in_every_field(
    database: Database, first: Incident, second: Incident, events: list[Event]
) -> None:
    with undone(database) as connection:
        saved = incidents.save(connection, None, Step(first, tuple(events)))
        assert saved is not None
        assert saved == replace(first, id=saved.id)
        changed = replace(second, id=saved.id)
        assert incidents.save(connection, saved, Step(changed, tuple(events))) == changed
        assert incidents.get(connection, saved.id) == changed
        assert incidents.events_of(connection, saved.id) == events * 2


@pytest.mark.parametrize("number", [0, -1, 1, 2**31, 2**63, 10**30])
def test_a_number_that_no_incident_has_finds_none(database: Database, number: int) -> None:
    with database.read() as connection:
        assert incidents.get(connection, number) is None
        assert incidents.events_of(connection, 1) == []


def test_a_step_that_changes_nothing_writes_nothing(database: Database) -> None:
    with database.write() as connection:
        assert incidents.save(connection, None, Step(None)) is None
        saved = incidents.save(connection, None, Step(incident()))
        assert saved is not None
        assert incidents.save(connection, saved, Step(saved)) == saved
        assert incidents.last_event_id(connection) == 0


# One active incident per subject and class


def test_the_database_refuses_a_second_active_incident_of_a_subject(database: Database) -> None:
    add(database, incident())
    for state in (State.OPEN, State.ACKNOWLEDGED, State.SNOOZED):
        with pytest.raises(StoreError, match=r"(?i)unique"):
            add(database, incident(state=state))
    assert found(database) == ["slurm/1"]
    with database.read() as connection:
        assert incidents.last_event_id(connection) == 1  # its event went with it


def test_resolved_ones_other_subjects_and_other_classes_are_not_in_the_way(database: Database) -> None:
    resolved = incident(state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW)
    add(database, incident(), resolved, resolved, incident("slurm/2"), incident(kind="fault"))
    assert sorted(found(database)) == ["slurm/1"] * 4 + ["slurm/2"]


def test_a_resolved_incident_cannot_be_active_again_beside_another(database: Database) -> None:
    (number, _) = add(database, incident(state=State.RESOLVED, resolution=Resolution.CLEARED), incident())

    def reopen() -> None:
        with database.write() as connection:
            before = incidents.get(connection, number)
            assert before is not None
            incidents.save(connection, before, Step(replace(before, state=State.OPEN)))

    with pytest.raises(StoreError, match=r"(?i)unique"):
        reopen()


# Which incident a pass goes on with


def test_the_latest_is_the_active_one_or_else_the_newest(database: Database) -> None:
    old = incident(state=State.RESOLVED, opened_at=NOW - 500)
    new = incident(state=State.RESOLVED, opened_at=NOW - 100)
    # Reopened, an older incident is the active one.
    active = incident("slurm/2", opened_at=NOW - 900)
    newer = incident("slurm/2", state=State.RESOLVED, opened_at=NOW - 100)
    numbers = add(database, new, old, active, newer, incident("slurm/3", kind="fault"))
    with database.write() as connection:
        latest = incidents.latest(connection, ["slurm/1", "slurm/2", "slurm/3", "slurm/4"])
    assert {subject: item.id for subject, item in latest.items()} == {"slurm/1": numbers[0], "slurm/2": numbers[2]}


def test_of_two_that_opened_at_the_same_time_the_later_one_is_the_latest(database: Database) -> None:
    _, second = add(database, incident(state=State.RESOLVED), incident(state=State.RESOLVED))
    with database.write() as connection:
        assert incidents.latest(connection, ["slurm/1"])["slurm/1"].id == second


def test_past_incidents_of_a_subject_are_not_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that is idle every night has hundreds of them, each with a page of text."""
    past = [incident("busy", state=State.RESOLVED, opened_at=NOW - n) for n in range(1, 40)]
    closed = [replace(item, subject="quiet") for item in past]
    # Resolved and reopened, an older one is active: none of the others matters.
    add(
        database,
        *past,
        *closed,
        incident("busy", opened_at=NOW - 100),
        *(replace(item, kind="report") for item in past),
    )
    read: list[int] = []

    def noted(row: Any) -> Incident:
        read.append(row.id)
        return from_row(row)

    monkeypatch.setattr(incidents, "from_row", noted)
    with database.write() as connection:
        found = incidents.latest(connection, ["busy", "quiet", "new"])
    assert {name: item.opened_at for name, item in found.items()} == {"busy": NOW - 100, "quiet": NOW - 1}
    assert sorted(read) == sorted(item.id for item in found.values())


def test_the_latest_are_found_in_the_indexes(sqlite_url: str) -> None:
    database = open_database(sqlite_url)
    asked: list[tuple[str, Any]] = []
    with database.write() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda *said: asked.append((said[2], said[3])))
        incidents.latest(connection, ["slurm/1", "slurm/2"])
        plans = [
            str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}", with_).all()) for said, with_ in asked[:2]
        ]
    database.close()
    assert "uq_incident_active (subject=? AND kind=?)" in plans[0]
    assert "COVERING INDEX ix_incident_subject_kind_opened_at (subject=? AND kind=?)" in plans[1]
    assert "INDEX ix_incident_subject_kind_opened_at (subject=? AND kind=? AND opened_at=?)" in plans[1]
    assert "SCAN" not in "".join(plans)


def test_more_subjects_than_a_statement_takes_variables(database: Database) -> None:
    add(database, incident("slurm/7"), incident("slurm/1999"))
    with database.write() as connection:
        assert set(incidents.latest(connection, [f"slurm/{i}" for i in range(2000)])) == {"slurm/7", "slurm/1999"}
        assert incidents.latest(connection, []) == {}


def test_active_ones_are_all_that_are_not_resolved(database: Database) -> None:
    add(database, *(incident(f"slurm/{state}", state=state) for state in State))
    with database.read() as connection:
        states = {item.state for item in incidents.active(connection)}
    assert states == set(State) - {State.RESOLVED}


def test_active_ones_may_be_asked_for_by_class(database: Database) -> None:
    add(database, incident("a"), incident("b", kind="throttled"), incident("c", state=State.RESOLVED))
    with database.write() as connection:
        assert [item.subject for item in incidents.active(connection, "efficiency")] == ["a"]
        assert [item.subject for item in incidents.active(connection, "throttled", to_write=True)] == ["b"]
        assert len(incidents.active(connection)) == 2


def test_those_that_were_resolved_since_a_time_are_of_one_class(database: Database) -> None:
    over = incident(state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW)
    add(database, over, replace(over, subject="b", resolved_at=NOW - 1), replace(over, subject="c", kind="throttled"))
    add(database, incident("d"))
    with database.read() as connection:
        assert [item.subject for item in incidents.resolved_since(connection, "efficiency", NOW)] == ["slurm/1"]


def test_when_a_rule_last_left_an_incident_is_told_of_those_that_one_has_left(database: Database) -> None:
    numbers = add(database, *(incident(f"slurm/{n}") for n in range(3)))
    with database.write() as connection:
        for number, at in ((numbers[0], NOW + 1), (numbers[0], NOW + 7), (numbers[2], NOW + 3)):
            item = incidents.get(connection, number)
            assert item is not None
            left = Event(at, EventKind.RULE_CLEARED, "idle no longer holds", data={"rule": "idle"})
            incidents.save(connection, item, Step(item, (left, Event(at + 1, EventKind.TOLD, "told"))))
        left_at = {numbers[0]: NOW + 7, numbers[2]: NOW + 3}
        assert incidents.last_left(connection, numbers, until=NOW + 7) == left_at
        assert incidents.last_left(connection, [*range(1, 2000), numbers[2]], until=NOW + 9) == left_at
        assert incidents.last_left(connection, numbers, until=NOW + 2) == {numbers[0]: NOW + 1}, "the clock was ahead"
        assert incidents.last_left(connection, [], until=NOW + 9) == {}


# Lists and filters


def test_active_before_resolved_and_newest_first(database: Database) -> None:
    add(
        database,
        incident("a", opened_at=NOW - 300),
        incident("b", opened_at=NOW - 100),
        incident("c", opened_at=NOW, state=State.RESOLVED),
        incident("d", opened_at=NOW - 200, state=State.SNOOZED),
        incident("e", opened_at=NOW - 50, state=State.RESOLVED),
    )
    assert found(database) == ["b", "d", "a", "c", "e"]


def test_pages_cover_the_list_once_each_and_tell_how_many_match(database: Database) -> None:
    add(database, *(incident(f"slurm/{i}", opened_at=NOW) for i in range(7)))
    seen = []
    with database.read() as connection:
        for offset in range(0, 9, 3):
            page, total = incidents.find(connection, IncidentFilter(), limit=3, offset=offset)
            assert total == 7
            seen += [item.subject for item in page]
    assert sorted(seen) == sorted(f"slurm/{i}" for i in range(7))


def test_each_field_filters_exactly(database: Database) -> None:
    add(
        database,
        incident("a"),
        incident("b", rule="stalled", severity=Severity.CRITICAL, user="bob", account="bio", scheduler="k8s"),
        incident("c", state=State.RESOLVED, user="alice2"),
    )
    assert found(database, rule="stalled") == ["b"]
    assert found(database, severity=Severity.CRITICAL) == ["b"]
    assert found(database, user="alice") == ["a"]
    assert found(database, account="bio") == ["b"]
    assert found(database, scheduler="k8s") == ["b"]
    assert found(database, states=frozenset({State.RESOLVED})) == ["c"]
    assert found(database, states=frozenset({State.OPEN, State.RESOLVED}), user="alice2") == ["c"]
    assert found(database, user="alice", rule="stalled") == []


@pytest.mark.parametrize(
    ("node", "subjects"),
    [
        ("gpu1", ["a", "c"]),
        ("gpu10", ["b"]),
        ("gpu2", ["c"]),
        ("gpu", []),
        ("gpu1 gpu2", ["c"]),
        ("1", []),
        ("%", []),
        ("gpu_", []),
    ],
)
def test_a_node_is_matched_whole(database: Database, node: str, subjects: list[str]) -> None:
    add(database, incident("a"), incident("b", nodes=("gpu10",)), incident("c", nodes=("gpu1", "gpu2")))
    assert sorted(found(database, node=node)) == subjects


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("100%", ["a"]),
        ("%", ["a"]),
        ("_", ["b"]),
        ("n_1", ["b"]),
        ("/", ["d"]),
        ("\\", ["c"]),
        ("CAROL", ["c"]),
        ("data load", ["d"]),
        ("lab", ["a", "b", "c", "d"]),
        ("'; DROP TABLE incident; --", []),
        ("x" * 10_000, []),
    ],
)
def test_text_is_looked_for_literally_in_any_case(database: Database, text: str, subjects: list[str]) -> None:
    add(
        database,
        incident("train-100%"),
        incident("run_1"),
        incident("c\\d", user="Carol"),
        incident("k8s/x", diagnosis=Diagnosis((Cause.DATA_LOADING, Cause.SMALL_WORK), (), ())),
    )
    names = {"train-100%": "a", "run_1": "b", "c\\d": "c", "k8s/x": "d"}
    assert sorted(names[subject] for subject in found(database, text=text)) == subjects


# Events


def test_events_are_told_in_order_from_any_point_on(database: Database) -> None:
    one, two = add(database, incident("a"), incident("b"))
    with database.write() as connection:
        item = incidents.get(connection, one)
        assert item is not None
        incidents.save(connection, item, Step(item, (Event(NOW + 1, EventKind.ACKNOWLEDGED, "ack", actor="bob"),)))
    with database.read() as connection:
        assert incidents.last_event_id(connection) == 3
        assert [(n, i, e.kind) for n, i, e in incidents.events_after(connection, 1)] == [
            (2, two, EventKind.OPENED),
            (3, one, EventKind.ACKNOWLEDGED),
        ]
        assert len(incidents.events_after(connection, 0, limit=2)) == 2
        assert incidents.events_after(connection, 3) == []


def test_what_is_read_to_be_written_is_locked_and_what_is_looked_at_is_not() -> None:
    """On PostgreSQL; a row that somebody else writes in between would be overwritten as a whole."""
    reads: dict[str, Callable[[sa.Connection], object]] = {
        "pass": lambda c: incidents.latest(c, ["slurm/1"]),
        "devices": lambda c: incidents.latest_of_classes(c, ["gpu_fault"], resolved_after=0),
        "orphans": lambda c: incidents.active(c, to_write=True),
        "person": lambda c: incidents.get(c, 1, to_write=True),
        "page": lambda c: incidents.get(c, 1),
        "question": incidents.active,
    }
    locked = {}
    for name, read in reads.items():
        asked = Asked()
        read(asked)  # type: ignore[arg-type]
        on_postgresql = [str(query.compile(dialect=postgresql.dialect())) for query in asked.queries]  # type: ignore[no-untyped-call]
        (locked[name],) = {"FOR UPDATE" in query for query in on_postgresql}
        assert not any("FOR UPDATE" in str(query.compile(dialect=sqlite.dialect())) for query in asked.queries)
    assert locked == dict.fromkeys(("pass", "devices", "orphans", "person"), True) | {"page": False, "question": False}


class Asked:
    """A connection that notes what it is asked, and finds nothing."""

    def __init__(self) -> None:
        self.queries: list[sa.Select[tuple[object, ...]]] = []

    def execute(self, query: sa.Select[tuple[object, ...]]) -> "Asked":
        self.queries.append(query)
        return self

    def first(self) -> None:
        return None

    def __iter__(self) -> Iterator[object]:
        return iter(())
