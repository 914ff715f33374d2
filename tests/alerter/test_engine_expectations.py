"""What people say was intended, over whole passes on either database: quiet while that holds, and not for longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.expectations import Scope
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.reports.model import Asked, Kind
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, Store, running

START = 1_750_000_000.0  # 2025-06-15T15:06:40Z
MINUTE, HOUR = 60.0, 3600.0
STEP = 5 * MINUTE
ON, SHUT = State.OPEN, State.RESOLVED


@contextmanager
def idling(store: Store) -> Iterator[Rig]:
    """Two jobs of Alice and one of Carol, which idle from the beginning until the first of them are incidents."""
    exporter = FakeExporter("gpu01", 3)
    exporter.allocate("slurm/1", 0, start=START)
    exporter.allocate("slurm/2", 1, start=START)
    exporter.allocate("slurm/3", 2, start=START, user="carol")
    with running(store, exporter, interval=MINUTE) as made:
        unseen(made, 45 * MINUTE)
        made.run_pass()
        yield made


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with idling(tmp_path / "store.sqlite3") as made:
        yield made


@pytest.fixture
def either(store: Store) -> Iterator[Rig]:
    """On either database."""
    with idling(store) as made:
        yield made


def idle(rig: Rig, seconds: float, level: float = 0.0) -> None:
    """A pass every five minutes."""
    for _ in range(round(seconds / STEP)):
        unseen(rig, STEP, level)
        rig.run_pass()


def unseen(rig: Rig, seconds: float, level: float = 0.0) -> None:
    """The same without passes: what is between one state and another is not judged."""
    rig.step(round(seconds / MINUTE), level)


def incidents(rig: Rig, subject: str = "slurm/1") -> list[Incident]:
    found, _ = rig.reader.incidents(IncidentFilter(text=subject), limit=1000)
    return sorted(found, key=lambda incident: incident.id)


def states(rig: Rig, subject: str = "slurm/1") -> list[tuple[State, Resolution | None]]:
    return [(incident.state, incident.resolution) for incident in incidents(rig, subject)]


def intend(rig: Rig, length: float, scope: Scope = Scope.JOB, subject: str = "slurm/1") -> Incident:
    number = incidents(rig, subject)[-1].id
    until = rig.clock() + length
    return rig.reader.intend(number, actor="bob", reason="waits for data", scope=scope, until=until)


def intended(rig: Rig) -> tuple[int, int, int]:
    """Of all incidents of `idle`: how many there were, were called intended, and were closed because of that."""
    (row,) = rig.reader.rules_report(Asked(Kind.RULES, START, rig.clock() + 1)).rows
    return row.opened, row.intended, row.closed_as_intended


def test_a_job_that_was_meant_to_idle_is_left_alone_until_that_expires(either: Rig) -> None:
    assert states(either) == [(ON, None)]
    assert intend(either, HOUR).resolution is Resolution.INTENDED
    idle(either, HOUR / 2)
    either.restart()
    idle(either, HOUR / 2 - STEP)
    assert states(either) == [(SHUT, Resolution.INTENDED)]
    assert states(either, "slurm/2") == [(ON, None)]
    (notice, ending) = either.reader.status().notices
    assert notice == "1 job excluded from idle, as bob said on 2025-06-15 until 2025-06-15 16:51 UTC: waits for data"
    assert ending == "expectation 1 expires soon (2025-06-15 16:51 UTC)"
    idle(either, STEP)
    before, again = incidents(either)
    assert (before.state, before.resolution, before.reopened) == (SHUT, Resolution.INTENDED, 0)
    assert (again.state, again.rule) == (ON, "idle")
    assert [event.kind for event in either.reader.events(again.id)] == [EventKind.OPENED]
    assert either.reader.status().notices == ()
    assert either.reader.expectations() == []


def test_what_is_withdrawn_opens_a_new_incident_in_the_next_pass(either: Rig) -> None:
    intend(either, 9 * HOUR)
    idle(either, 5 * MINUTE)
    (said,) = either.reader.expectations()
    either.reader.withdraw(said.id, actor="carol")
    idle(either, STEP)
    assert states(either) == [(SHUT, Resolution.INTENDED), (ON, None)]


def test_of_a_user_it_covers_all_jobs_of_that_user_and_those_to_come(rig: Rig) -> None:
    intend(rig, 9 * HOUR, Scope.USER)
    rig.exporters[0].end("slurm/2")
    rig.exporters[0].allocate("slurm/4", 1, start=rig.clock())
    idle(rig, STEP)
    assert states(rig, "slurm/3") == [(ON, None)]
    idle(rig, 50 * MINUTE)
    assert states(rig, "slurm/1") == [(SHUT, Resolution.INTENDED)]
    assert states(rig, "slurm/4") == []
    (said,) = rig.reader.expectations()
    rig.reader.withdraw(said.id, actor="carol")
    idle(rig, STEP)
    assert states(rig, "slurm/1") == [(SHUT, Resolution.INTENDED), (ON, None)]
    assert states(rig, "slurm/4") == [(ON, None)]


def test_the_other_open_incidents_of_the_user_resolve_with_the_same_words(either: Rig) -> None:
    intend(either, 9 * HOUR, Scope.USER)
    idle(either, STEP)
    (other,) = incidents(either, "slurm/2")
    assert (other.state, other.resolution) == (SHUT, Resolution.INTENDED)
    *_, said, last = either.reader.events(other.id)
    assert (said.kind, said.actor, said.text) == (EventKind.INTENDED, "bob", "waits for data")
    assert (last.kind, last.actor) == (EventKind.RESOLVED, "")
    assert last.text.startswith("intended, as bob said on 2025-06-15 until ")
    assert intended(either) == (3, 2, 2), "each of the two once, and Carol's not"
    either.reader.withdraw(1, actor="carol")
    taken_back = [either.reader.events(item)[-1] for item in (incidents(either)[0].id, other.id)]
    assert [(event.kind, event.actor) for event in taken_back] == [(EventKind.WITHDRAWN, "carol")] * 2
    assert taken_back[0] == taken_back[1]
    assert intended(either) == (3, 0, 2)


def test_a_job_that_works_and_idles_again_is_left_alone_and_one_with_another_fault_is_not(rig: Rig) -> None:
    intend(rig, 9 * HOUR)
    unseen(rig, 40 * MINUTE, 0.9)
    idle(rig, STEP, 0.9)
    unseen(rig, 40 * MINUTE)
    idle(rig, 15 * MINUTE)
    assert states(rig) == [(SHUT, Resolution.INTENDED)]
    unseen(rig, 40 * MINUTE, 0.1)
    idle(rig, STEP, 0.1)
    assert [incident.rule for incident in incidents(rig)] == ["idle", "underused"]


def test_a_requeued_job_is_the_same_job(rig: Rig) -> None:
    intend(rig, 9 * HOUR)
    rig.exporters[0].forget("slurm/1")
    idle(rig, 5 * MINUTE)
    rig.exporters[0].allocate("slurm/1", 0, start=rig.clock())
    idle(rig, 50 * MINUTE)
    assert states(rig) == [(SHUT, Resolution.INTENDED)]


@pytest.mark.parametrize("closing", ["operator", "cleared"])
def test_said_of_an_incident_that_is_resolved_it_keeps_the_next_from_opening(rig: Rig, closing: str) -> None:
    """The mail was read late."""
    if closing == "operator":
        rig.reader.resolve(incidents(rig)[-1].id, actor="bob")
    else:
        unseen(rig, 20 * MINUTE, 0.9)
        rig.run_pass()
    (before,) = states(rig)
    assert before == (SHUT, Resolution(closing))
    intend(rig, 3 * HOUR)
    unseen(rig, HOUR)
    idle(rig, 2 * HOUR - STEP)
    assert states(rig) == [before]
    idle(rig, STEP)
    assert states(rig) == [before, (ON, None)]


def test_what_is_said_while_a_pass_is_judged_is_not_opened_again_by_that_pass(either: Rig) -> None:
    def say(step: str) -> None:
        if step == "judged":
            intend(either, HOUR)

    either.step(1, 0.0)
    Engine(either.settings, either.source, either.database, either.clock, reached=say).run_pass()
    assert states(either) == [(SHUT, Resolution.INTENDED)]
