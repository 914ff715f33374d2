"""What metrics read of incidents: the newest that are not resolved, and each event that counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from dutycycle_alerter.incidents import actions
from dutycycle_alerter.incidents.model import Cause, Diagnosis, Event, EventKind, Resolution, State, Step
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.store import incidents, listing
from dutycycle_alerter.store.database import Database
from tests.alerter.store.test_incidents import NOW, add, incident


def subjects(database: Database, limit: int = 100) -> tuple[list[str], int]:
    with database.read() as connection:
        found, total = listing.unresolved(connection, limit=limit)
    return [one.subject for one in found], total


def test_the_newest_that_are_not_resolved_are_listed_and_all_are_counted(database: Database) -> None:
    add(
        database,
        incident("old", opened_at=NOW - 900),
        incident("new", opened_at=NOW),
        incident("over", state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW),
        incident("snoozed", opened_at=NOW - 60, state=State.SNOOZED),
        incident("taken", opened_at=NOW - 30, state=State.ACKNOWLEDGED),
    )
    assert subjects(database) == (["new", "taken", "snoozed", "old"], 4)
    assert subjects(database, 2) == (["new", "taken"], 4)
    assert subjects(database, 0) == ([], 4)


def test_of_an_incident_it_is_told_what_a_series_needs(database: Database) -> None:
    hesitates = Diagnosis((Cause.DATA_LOADING, Cause.SMALL_WORK), (), ())
    gpu = (Gpu("gpu7", "3", "GPU-7"),)
    add(
        database,
        incident("job", nodes=("a", "b"), diagnosis=hesitates, wasted=5.0, cluster="north", opened_at=NOW - 1),
        incident("gpu/gpu7/GPU-7", kind="gpu_fault", gpus=gpu, opened_at=NOW - 2),
        incident("node/gpu7", kind="gpu_fault", gpus=(Gpu("gpu7", ""),), opened_at=NOW - 3),
        incident("nothing", gpus=(), opened_at=NOW - 4),
    )
    with database.read() as connection:
        (job, device, node, nothing), _ = listing.unresolved(connection, limit=9)
    assert (job.about, job.nodes, job.cause, job.wasted, job.cluster) == (
        "job",
        ("a", "b"),
        "data loading",
        5.0,
        "north",
    )
    assert (device.about, device.nodes, device.gpu, device.cause) == ("gpu", ("gpu7",), "3", "no process")
    assert (node.about, node.nodes, node.gpu) == ("node", ("gpu7",), "")
    assert (nothing.nodes, nothing.gpu) == ((), "")


def test_resolved_incidents_are_not_read_for_it(sqlite_url: str) -> None:
    """There may be a hundred thousand of them: SQLite must go through the index of those that are not."""
    from dutycycle_alerter.store.database import open_database

    database = open_database(sqlite_url)
    asked: list[tuple[str, object]] = []
    with database.read() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda *said: asked.append((said[2], said[3])))
        listing.unresolved(connection, limit=5)
        incidents.active_counts(connection)
        said = [one for one in asked if "!= 'resolved'" in one[0]]
        for statement, values in said:
            plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all())  # type: ignore[arg-type]
            assert "uq_incident_active" in plan, plan
    database.close()
    assert len(said) == 3, "a number, a list, the counts"


def events(database: Database, after: int = 0, limit: int = 100) -> list[tuple[str, EventKind, str, str]]:
    with database.read() as connection:
        found = listing.happened_after(connection, after, limit=limit)
    return [(one.rule, one.event, one.severity, one.resolution) for one in found]


def test_what_opens_reopens_and_is_resolved_is_read_once_in_its_order(database: Database) -> None:
    (number,) = add(database, incident("a"))
    with database.write() as connection:
        one = incidents.get(connection, number, to_write=True)
        assert one is not None
        step = actions.acknowledge(one, actor="ops", now=NOW + 1)
        one = incidents.save(connection, one, step)
        assert one is not None
        one = incidents.save(connection, one, actions.resolve(one, actor="ops", now=NOW + 2))
        assert one is not None
        again = Event(NOW + 3, EventKind.REOPENED, "", data={"rule": "hung"})
        incidents.save(connection, one, Step(replace(one, state=State.OPEN), (again,)))
    opened, resolved, reopened = (
        ("idle", EventKind.OPENED, "warning", ""),
        ("idle", EventKind.RESOLVED, "warning", "operator"),
        ("hung", EventKind.REOPENED, "warning", ""),
    )
    assert events(database) == [opened, resolved, reopened]
    assert events(database, limit=1) == [opened]
    with database.read() as connection:
        first = listing.happened_after(connection, 0, limit=1)[0].number
        last = listing.newest(connection)
    assert events(database, first) == [resolved, reopened]
    assert events(database, last) == []


@pytest.mark.parametrize("kind", [EventKind.TOLD, EventKind.ACKNOWLEDGED, EventKind.FINAL])
def test_other_events_move_nothing(database: Database, kind: EventKind) -> None:
    """One of them may be written beside a pass, and have a number above one that is not committed yet."""
    (number,) = add(database, incident("a"))
    with database.read() as connection:
        before = listing.newest(connection)
    with database.write() as connection:
        incidents.note(connection, [(number, Event(NOW, kind, ""))])
    with database.read() as connection:
        assert listing.newest(connection) == before
        assert listing.happened_after(connection, before) == []


def test_of_an_empty_store_there_is_nothing(database: Database) -> None:
    assert subjects(database) == ([], 0)
    with database.read() as connection:
        assert listing.newest(connection) == 0
