"""Policies over whole passes: real evidence, engine and store, while the configuration and the calendar change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, Severity, State
from dutycycle_alerter.settings import Schedule
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, running

START = 1_750_000_000.0  # 2025-06-15T15:06:40Z
MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A job of Alice on GPU 0 of gpu01."""
    exporter = FakeExporter("gpu01", 2)
    exporter.allocate("slurm/1", 0, start=START)
    with running(tmp_path / "store.sqlite3", exporter, interval=MINUTE) as made:
        yield made


def configure(rig: Rig, **policies: object) -> None:
    """From now on these are the policies, as after a restart of the alerter."""
    data = rig.settings.model_dump(mode="json", exclude={"policies"}) | {"policies": policies}
    rig.settings = parse(data).scaled()
    rig.restart()


def work(rig: Rig, seconds: float, utilization: float) -> None:
    for _ in range(round(seconds / MINUTE)):
        rig.step(1, utilization)
        rig.run_pass()


def incidents(rig: Rig) -> list[Incident]:
    return sorted(rig.reader.incidents(IncidentFilter())[0], key=lambda incident: incident.id)


COURSE = {"name": "course", "user": "alice", "exclude": True, "expires": "2025-06-16", "reason": "a course"}
RACK = {"name": "rack", "node": "gpu01", "reason": "new PDUs"}


def test_an_open_incident_resolves_when_its_job_is_excluded_and_opens_again_when_that_expires(rig: Rig) -> None:
    work(rig, 50 * MINUTE, 0.0)
    (before,) = incidents(rig)
    assert before.state is State.OPEN
    configure(rig, exceptions=[COURSE | {"expires": "2025-06-15T16:30:00Z"}])
    work(rig, 10 * MINUTE, 0.0)
    (after,) = incidents(rig)
    assert (after.id, after.state, after.resolution) == (before.id, State.RESOLVED, Resolution.EXCLUDED)
    assert [(event.kind, event.text) for event in rig.reader.events(after.id)][-1] == (
        EventKind.RESOLVED,
        "excluded by policy course until 2025-06-15T16:30:00+00:00: a course",
    )
    assert rig.reader.status().notices == (
        "policy course expires soon (2025-06-15T16:30:00+00:00)",
        "1 job excluded from all rules by policy course until 2025-06-15T16:30:00+00:00",
    )
    work(rig, 40 * MINUTE, 0.0)
    _, again = incidents(rig)
    assert (again.state, again.rule) == (State.OPEN, "idle")
    assert rig.reader.status().notices == (
        "policy course expired (2025-06-15T16:30:00+00:00) and has no effect any more",
    )


def test_a_severity_for_operators_is_the_incidents(rig: Rig) -> None:
    configure(rig, exceptions=[{"name": "quiet", "operator_severity": "info", "reason": "r", "partition": "gpu"}])
    work(rig, 50 * MINUTE, 0.0)
    (incident,) = incidents(rig)
    assert incident.severity is Severity.INFO


def test_nothing_opens_under_maintenance_and_afterwards_only_for_what_came_after_it(rig: Rig) -> None:
    configure(rig, maintenance=[RACK | {"start": "2025-06-15T15:30:00Z", "end": "2025-06-15T16:30:00Z"}])
    work(rig, 70 * MINUTE, 0.0)
    assert incidents(rig) == []
    assert rig.reader.status().notices == ("maintenance rack until 2025-06-15 16:30 UTC: new PDUs",)
    work(rig, 42 * MINUTE, 0.0)
    assert incidents(rig) == []
    assert rig.reader.status().notices == ()
    work(rig, 4 * MINUTE, 0.0)
    (incident,) = incidents(rig)
    assert incident.started_at >= START + 83 * MINUTE


def test_an_incident_neither_clears_nor_is_lost_under_maintenance_but_a_day_after_it(rig: Rig) -> None:
    work(rig, 50 * MINUTE, 0.0)
    # It began at 15:55, and lasts for more than a day.
    configure(rig, maintenance=[RACK | {"start": "2025-06-15T15:55:00Z", "end": "2025-06-17T00:00:00Z"}])
    work(rig, 30 * MINUTE, 0.9)
    assert [incident.resolution for incident in incidents(rig)] == [None]
    rig.exporters[0].forget("slurm/1")
    rig.exporters[0].visible = False
    rig.settings = rig.settings.model_copy(update={"schedule": Schedule(pass_interval=HOUR)})
    for _ in range(32):
        rig.clock.advance(HOUR)
        rig.run_pass()
    assert [incident.resolution for incident in incidents(rig)] == [None]
    for _ in range(22):
        rig.clock.advance(HOUR)
        rig.run_pass()
    assert [incident.resolution for incident in incidents(rig)] == [None]
    for _ in range(2):
        rig.clock.advance(HOUR)
        rig.run_pass()
    assert [incident.resolution for incident in incidents(rig)] == [Resolution.LOST]


def test_a_job_that_ends_under_maintenance_has_ended(rig: Rig) -> None:
    work(rig, 50 * MINUTE, 0.0)
    configure(rig, maintenance=[RACK | {"start": "2025-06-15T15:55:00Z", "end": "2025-06-17T00:00:00Z"}])
    work(rig, 5 * MINUTE, 0.0)
    rig.exporters[0].end("slurm/1")
    work(rig, 5 * MINUTE, 0.0)
    assert [incident.resolution for incident in incidents(rig)] == [Resolution.ENDED]


def test_a_fault_under_maintenance_opens_nothing_then_or_later_and_one_after_it_does(rig: Rig) -> None:
    configure(rig, maintenance=[RACK | {"start": "2025-06-15T15:10:00Z", "end": "2025-06-15T15:40:00Z"}])
    work(rig, 10 * MINUTE, 0.9)
    rig.exporters[0].devices[1].xids[79] = rig.clock() - 30
    rig.exporters[0].expected = 3
    work(rig, 10 * MINUTE, 0.9)
    rig.exporters[0].expected = 2
    work(rig, 30 * MINUTE, 0.9)
    assert incidents(rig) == []
    rig.exporters[0].devices[1].xids[79] = rig.clock() - 30
    work(rig, 3 * MINUTE, 0.9)
    assert [incident.rule for incident in incidents(rig)] == ["gpu_fault"]
