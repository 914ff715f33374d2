"""What people marked as intended is kept with the incident's change or not at all, once, and read as it was said."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import (
    ExpectationError,
    ExpectationNotFoundError,
    IncidentNotFoundError,
    StoreError,
    TransitionError,
)
from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.incidents.model import EventKind, Resolution, State, Step
from dutycycle_alerter.settings import Retention, Settings
from dutycycle_alerter.store import expectations, incidents, retention
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.schema import incident as incidents_table
from dutycycle_alerter.store.types import storable_name
from tests.alerter.rig import refusing
from tests.alerter.store.test_incidents import NOW, add, incident
from tests.fakes.clock import FakeClock

DAY = 86400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def reader(database: Database, clock: FakeClock) -> StoreReader:
    return StoreReader(database, clock)


def intend(reader: StoreReader, number: int, **changes: object) -> None:
    arguments: dict[str, object] = {"actor": "bob", "reason": "waits for data", "scope": Scope.JOB, "until": NOW + DAY}
    reader.intend(number, **(arguments | changes))  # type: ignore[arg-type]


def test_what_is_said_is_read_as_it_was_said(database: Database, reader: StoreReader, clock: FakeClock) -> None:
    (number,) = add(database, incident(cluster="hpc"))
    clock.advance(5)
    reason = " wartet auf Größe "
    after = reader.intend(number, actor="bob", reason=reason, scope=Scope.USER, until=NOW + DAY)
    assert (after.state, after.resolution, after.actor) == (State.RESOLVED, Resolution.INTENDED, "bob")
    assert reader.incident(number) == after
    assert [event.kind for event in reader.events(number)] == [
        EventKind.OPENED,
        EventKind.INTENDED,
        EventKind.RESOLVED,
    ]
    expected = Expectation(
        Scope.USER, "hpc", "alice", ("idle", "uneven"), "wartet auf Größe", "bob", NOW + 5, NOW + DAY, number, 1
    )
    assert reader.expectations() == [expected]
    assert reader.expectations(current=False) == [expected]


def test_only_what_holds_is_current(database: Database, reader: StoreReader, clock: FakeClock) -> None:
    one, two, three = add(database, incident(), incident("slurm/2"), incident("slurm/3"))
    intend(reader, one, until=NOW + 3 * DAY)
    clock.advance(1)
    intend(reader, two, until=NOW + DAY)
    clock.advance(1)
    intend(reader, three, until=NOW + 2 * DAY)
    assert [said.incident_id for said in reader.expectations()] == [two, three, one]
    gone = reader.withdraw(3, actor="carol")
    assert (gone.withdrawn_at, gone.withdrawn_by) == (NOW + 2, "carol")
    clock.now = NOW + DAY
    assert [said.incident_id for said in reader.expectations()] == [one]
    assert [said.incident_id for said in reader.expectations(current=False)] == [three, two, one]
    assert reader.expectations(current=False)[0] == gone


def test_what_is_refused_changes_nothing(database: Database, reader: StoreReader) -> None:
    (fault, number) = add(database, incident("node/gpu1", kind="gpu_fault", rule="gpu_fault"), incident())
    before = [reader.incident(item) for item in (fault, number)]
    for attempt in (
        lambda: intend(reader, fault),
        lambda: intend(reader, number, reason="x"),
        lambda: intend(reader, number, reason="x" * 2**20),
        lambda: intend(reader, number, reason="\x1b[2J\n"),
        lambda: intend(reader, number, until=NOW),
        lambda: intend(reader, number, until=NOW + 91 * DAY),
    ):
        with pytest.raises((TransitionError, ExpectationError)):
            attempt()
    with pytest.raises(IncidentNotFoundError):
        intend(reader, 99)
    for missing in (0, -1, 99, 2**31, 2**80):
        with pytest.raises(ExpectationNotFoundError, match=f"there is no expectation {missing}"):
            reader.withdraw(missing, actor="bob")
    assert [reader.incident(item) for item in (fault, number)] == before
    assert all(len(reader.events(item)) == 1 for item in (fault, number))
    assert reader.expectations(current=False) == []


def test_the_sites_limits_count_and_are_scaled_as_its_store_is(url: str) -> None:
    database = open_database(url, time_scale=60)
    limits = Settings.model_validate({"policies": {"expectations": {"longest": "1h", "of_users": False}}})
    reader = StoreReader(database, FakeClock(NOW), limits.policies.expectations)
    (number,) = add(database, incident())
    with pytest.raises(ExpectationError, match="lasts 1 h at most"):
        intend(reader, number, until=NOW + 61)
    with pytest.raises(ExpectationError, match="of the job"):
        intend(reader, number, until=NOW + 60, scope=Scope.USER)
    intend(reader, number, until=NOW + 60)
    (number,) = add(database, incident("slurm/2"))
    with pytest.raises(ExpectationError, match="lasts 90 d at most"):
        intend(StoreReader(database, FakeClock(NOW)), number, until=NOW + 90 * DAY / 60 + 1)
    database.close()


@pytest.mark.parametrize("table", ["expectation", "incident_event"])
def test_it_is_kept_with_the_incidents_change_or_not_at_all(
    url: str, database: Database, reader: StoreReader, table: str
) -> None:
    (number,) = add(database, incident())
    with refusing(url, table), pytest.raises(StoreError, match="disk is full"):
        intend(reader, number)
    assert reader.expectations(current=False) == []
    assert reader.incident(number) == replace(incident(), id=number)
    intend(reader, number)
    assert len(reader.expectations()) == 1


def test_said_twice_it_is_kept_once_and_both_are_in_the_history(
    database: Database, reader: StoreReader, clock: FakeClock
) -> None:
    (number,) = add(database, incident())
    intend(reader, number)
    clock.advance(60)
    intend(reader, number, reason="until Friday", until=NOW + 3 * DAY)
    (said,) = reader.expectations()
    assert (said.actor, said.reason, said.at, said.expires_at) == ("bob", "until Friday", NOW + 60, NOW + 3 * DAY)
    assert [(event.kind, event.text) for event in reader.events(number)[1:]] == [
        (EventKind.INTENDED, "waits for data"),
        (EventKind.RESOLVED, "intended: waits for data"),
        (EventKind.INTENDED, "until Friday"),
    ]
    intend(reader, number, scope=Scope.USER)
    assert len(reader.expectations()) == 2
    reader.withdraw(said.id, actor="bob")
    intend(reader, number)
    assert len(reader.expectations()) == 2
    assert len(reader.expectations(current=False)) == 3


def test_what_two_people_say_stands_beside_each_other(database: Database, reader: StoreReader) -> None:
    (number,) = add(database, incident())
    intend(reader, number)
    intend(reader, number, actor="carol", reason="until Friday", until=NOW + 3 * DAY)
    bobs, carols = reader.expectations()
    assert [(said.actor, said.reason, said.expires_at) for said in (bobs, carols)] == [
        ("bob", "waits for data", NOW + DAY),
        ("carol", "until Friday", NOW + 3 * DAY),
    ]
    reader.withdraw(bobs.id, actor="bob")
    assert reader.expectations() == [carols]


def test_who_takes_it_back_is_in_the_incidents_history(
    database: Database, reader: StoreReader, clock: FakeClock
) -> None:
    (number,) = add(database, incident())
    intend(reader, number)
    (said,) = reader.expectations()
    clock.advance(60)
    reader.withdraw(said.id, actor="carol")
    last = reader.events(number)[-1]
    assert (last.kind, last.at, last.actor) == (EventKind.WITHDRAWN, NOW + 60, "carol")
    assert last.text == "no longer intended: waits for data"
    after = reader.incident(number)
    assert after is not None
    assert (after.state, after.resolution, after.updated_at) == (State.RESOLVED, Resolution.INTENDED, NOW + 60)
    with pytest.raises(TransitionError, match="was withdrawn already"):
        reader.withdraw(said.id, actor="carol")
    assert reader.events(number)[-1] == last


@pytest.mark.parametrize(("action", "table"), [("UPDATE", "expectation"), ("INSERT", "incident_event")])
def test_it_is_taken_back_with_its_trace_or_not_at_all(
    url: str, database: Database, reader: StoreReader, action: str, table: str
) -> None:
    (number,) = add(database, incident())
    intend(reader, number)
    before = (reader.expectations(), reader.incident(number), reader.events(number))
    with refusing(url, table, action), pytest.raises(StoreError, match="disk is full"):
        reader.withdraw(before[0][0].id, actor="bob")
    assert (reader.expectations(), reader.incident(number), reader.events(number)) == before


def test_of_one_user_it_is_what_is_said_of_them_and_of_their_jobs(
    database: Database, reader: StoreReader, clock: FakeClock
) -> None:
    """Also of a job that is one of others elsewhere, and of a user who is called as a job is."""
    bobs = {"user": "slurm/1", "cluster": "b"}
    numbers = add(
        database,
        incident(cluster="a"),
        incident("slurm/2", cluster="a"),
        incident("slurm/3", **bobs),
        incident("slurm/4", **bobs),
    )
    for number, scope in zip(numbers, (Scope.JOB, Scope.USER, Scope.JOB, Scope.USER), strict=True):
        intend(reader, number, scope=scope)
    clock.advance(1)
    for user, mine in (("alice", numbers[:2]), ("slurm/1", numbers[2:]), ("carol", []), ("", [])):
        assert [said.incident_id for said in reader.expectations(user=user)] == mine, user
        assert [said.incident_id for said in reader.expectations(current=False, user=user)] == mine[::-1], user
    reader.withdraw(1, actor="bob")
    assert [said.incident_id for said in reader.expectations(user="alice")] == numbers[1:2]


def test_names_that_no_column_can_hold_are_found_again(database: Database, reader: StoreReader) -> None:
    """A job and a user as Kubernetes or a container may call them."""
    (number,) = add(database, incident("k8s/" + "x" * 900, user="ev\0il \ud800 user", cluster="c" * 700))
    intend(reader, number, actor="b\0b" + "y" * 900)
    intend(reader, number, scope=Scope.USER)
    user, job = sorted(reader.expectations(), key=lambda said: said.scope.value, reverse=True)
    assert (job.subject, job.cluster) == (storable_name("k8s/" + "x" * 900), storable_name("c" * 700))
    assert user.subject == storable_name("ev\0il \ud800 user")
    intend(reader, number, actor="b\0b" + "y" * 900)
    assert len(reader.expectations()) == 2


def test_it_outlives_its_incident(database: Database, reader: StoreReader) -> None:
    (number,) = add(database, incident())
    intend(reader, number)
    with database.write() as connection:
        connection.execute(sa.delete(incidents_table))
    (said,) = reader.expectations()
    assert (said.incident_id, said.subject) == (None, "slurm/1")
    reader.withdraw(said.id, actor="bob")


def test_those_long_over_are_forgotten_as_incidents_are(
    database: Database, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    kept = Retention()
    for number in add(database, *(incident(f"slurm/{n}") for n in range(7))):
        intend(reader, number)
    for number in (6, 7):
        reader.withdraw(number, actor="bob")
    assert len(reader.expectations(current=False)) == 7
    retention.forget(database, kept, NOW + kept.incidents)
    assert len(reader.expectations(current=False)) == 7
    retention.forget(database, kept, NOW + kept.incidents + 1)
    assert [said.id for said in reader.expectations(current=False)] == [5, 4, 3, 2, 1]
    retention.forget(database, kept, NOW + DAY + kept.incidents + 1)
    assert reader.expectations(current=False) == []


def test_who_says_it_twice_at_once_says_it_once(url: str, database: Database, clock: FakeClock) -> None:
    other = open_database(url)
    readers = [StoreReader(database, clock), StoreReader(other, clock)]
    numbers = add(database, *(incident(f"slurm/{n}") for n in range(8)))
    for number in numbers:
        _at_once(*(partial(intend, reader, number) for reader in readers))
        kinds = [event.kind for event in readers[0].events(number)]
        assert sorted(kinds) == sorted([EventKind.OPENED, EventKind.INTENDED, EventKind.RESOLVED, EventKind.INTENDED])
    assert sorted(said.incident_id or 0 for said in readers[0].expectations(current=False)) == numbers
    other.close()


def test_who_withdraws_while_another_says_it_again_leaves_one_that_holds_or_none(
    url: str, database: Database, clock: FakeClock
) -> None:
    other = open_database(url)
    readers = [StoreReader(database, clock), StoreReader(other, clock)]
    for number in add(database, *(incident(f"slurm/{n}") for n in range(8))):
        intend(readers[0], number)
        (first,) = (said for said in readers[0].expectations() if said.incident_id == number)
        _at_once(partial(readers[0].withdraw, first.id, actor="a"), partial(intend, readers[1], number))
        known = [said for said in readers[0].expectations(current=False) if said.incident_id == number]
        held = [said for said in known if said.withdrawn_at is None]
        # Either the second came too late and is another, or it was withdrawn with the first.
        assert (len(known), len(held)) in ((2, 1), (1, 0))
    other.close()


def test_a_person_and_a_pass_at_once_lose_nothing(url: str, database: Database, clock: FakeClock) -> None:
    other = open_database(url)
    people = StoreReader(other, clock)
    (number,) = add(database, incident())

    def wasting() -> None:
        for _ in range(20):
            with database.write() as connection:
                before = incidents.get(connection, number, to_write=True)
                assert before is not None
                said = expectations.in_force(connection, NOW)
                assert bool(said) == (before.state is State.RESOLVED)
                incidents.save(connection, before, Step(replace(before, wasted=before.wasted + 1)))

    _at_once(wasting, lambda: intend(people, number))
    after = people.incident(number)
    assert after is not None
    assert (after.state, after.wasted) == (State.RESOLVED, 20)
    other.close()


def _at_once(*actions: Callable[[], object]) -> None:
    start = threading.Barrier(len(actions))
    failures: list[BaseException] = []

    def run(action: Callable[[], object]) -> None:
        start.wait(30)
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
