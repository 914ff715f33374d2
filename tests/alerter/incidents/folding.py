"""A judgement folded into an incident, for tests: what changes, and which events tell it."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, Step
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules import judge
from tests.alerter.cases import LATER, SETTINGS, evidence, moved
from tests.alerter.rules.test_rules import NO_GAPS, gaps

MINUTE = 60.0
IDLE = evidence([0.0, 0.0], by_window={7200: [0.5, 0.5]}, gpu_fields=NO_GAPS | {"processes": 0.0})
STALLED = evidence([0.4, 0.4], gpu_fields=gaps(0.4))
UNDERUSED = evidence([0.2, 0.2], gpu_fields=NO_GAPS)


def step(incident: Incident | None, item: JobEvidence, at: float = LATER, *, left_at: float = float("-inf")) -> Step:
    return advance(incident, judge(moved(item, at), SETTINGS), SETTINGS, left_at=left_at)


def opened(item: JobEvidence = IDLE, at: float = LATER) -> Incident:
    incident = step(None, item, at).incident
    assert incident is not None
    return replace(incident, id=1)


def kinds(result: Step) -> list[EventKind]:
    return [event.kind for event in result.events]
