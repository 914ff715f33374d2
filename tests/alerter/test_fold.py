"""A pass's judgements folded into the store: what of it a pass reads, and what it remembers of the passes before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.fold import Pass, fold_jobs
from dutycycle_alerter.incidents.model import Incident, Resolution, State
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.incident_rows import from_row
from dutycycle_alerter.workloads import Nobody
from tests.alerter.cases import LATER, SETTINGS, evidence, moved
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Store, running, url_of
from tests.alerter.rules.test_rules import gaps
from tests.alerter.store.test_incidents import add, incident

MINUTE, DAY = 60.0, 86400.0
IDLE_AND_STALLED = evidence([0.6, 0.0], gpu_fields=gaps(0.4))
RECOVERING = evidence([0.6, 0.1], gpu_fields=gaps(0.4))


def rules_after(database: Database, item: JobEvidence, at: float) -> list[str]:
    """The rules that the job's incident is open for after a pass."""
    with database.write() as connection:
        one = Pass(at, Nobody(), PoliciesInForce(Settings(), at))
        fold_jobs(connection, one, [judge(moved(item, at), SETTINGS)])
        (found,) = incidents.active(connection)
    return [rule.rule for rule in found.rules]


def test_a_rule_that_left_keeps_others_from_telling_the_time_before(store: Store) -> None:
    """Some GPUs of a job that is stalled go to work again: they were not uneven, but idle."""
    database = open_database(url_of(store))
    assert rules_after(database, IDLE_AND_STALLED, LATER) == ["partially_idle", "stalled"]
    for minutes in (1, 2, 3, 30.9):
        assert rules_after(database, RECOVERING, LATER + minutes * MINUTE) == ["stalled"]
    assert rules_after(database, RECOVERING, LATER + 31 * MINUTE) == ["stalled", "uneven"]
    database.close()


def test_a_rule_that_left_while_the_clock_was_ahead_keeps_no_other_from_joining(store: Store) -> None:
    """Neither does it hide one that left since then."""
    database = open_database(url_of(store))
    rules_after(database, IDLE_AND_STALLED, LATER + DAY)
    assert rules_after(database, RECOVERING, LATER + DAY + MINUTE) == ["stalled"]
    assert rules_after(database, IDLE_AND_STALLED, LATER) == ["partially_idle", "stalled"]
    for minutes in (1, 30.9):
        assert rules_after(database, RECOVERING, LATER + minutes * MINUTE) == ["stalled"]
    assert rules_after(database, RECOVERING, LATER + 31 * MINUTE) == ["stalled", "uneven"]
    database.close()


def test_a_pass_reads_incidents_of_devices_once_and_leaves_those_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large fleet tens of thousands of GPUs are at their power limits, and have an incident for information."""
    read: Counter[int] = Counter()

    def noted(row: Any) -> Incident:
        read[row.id] += 1
        return from_row(row)

    with running(tmp_path / "store.sqlite3", FakeExporter("gpu01", 1)) as rig:
        rig.step()
        at = rig.clock()
        throttled = incident("gpu/gpu09/GPU-9", kind="throttled", rule="throttled", known_at=at)
        over = incident(kind="report", state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=at)
        active, _ = add(rig.database, throttled, over)
        monkeypatch.setattr(incidents, "from_row", noted)
        rig.run_pass()
    assert read == {active: 1}
