"""An incident that becomes worse says so, also where it comes back or was as severe as can be."""

import pytest

from dutycycle_alerter.incidents.model import EventKind, Severity
from dutycycle_alerter.model import JobEvidence
from tests.alerter.cases import LATER, evidence
from tests.alerter.incidents.folding import IDLE, MINUTE, UNDERUSED, kinds, opened, step
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_rules import NO_GAPS

HEALTHY = evidence([0.95, 0.95], gpu_fields=NO_GAPS)
HUNG = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(tensor=0.0, dram=0.0))
BAD = evidence([0.1, 0.1], gpu_fields=NO_GAPS)
LONG_IDLE = evidence([0.0, 0.0], gpu_fields=NO_GAPS | {"processes": 0.0})


def test_what_comes_back_worse_is_told_to_be_worse() -> None:
    """A warning that cleared, and an hour later a hang: that it is back is told to hardly anybody."""
    cleared = step(opened(UNDERUSED), HEALTHY, LATER + MINUTE).incident
    again = step(cleared, HUNG, LATER + 60 * MINUTE)
    assert again.incident is not None
    assert (again.incident.id, again.incident.severity) == (1, Severity.CRITICAL)
    assert kinds(again) == [EventKind.REOPENED, EventKind.SEVERITY_CHANGED]
    assert again.events[1].data == {"severity": "critical"}


def test_what_was_critical_is_so_when_it_comes_back_and_says_so_once() -> None:
    cleared = step(opened(LONG_IDLE), HEALTHY, LATER + MINUTE).incident
    again = step(cleared, IDLE, LATER + 60 * MINUTE)
    assert again.incident is not None
    assert (again.incident.severity, kinds(again)) == (Severity.CRITICAL, [EventKind.REOPENED])
    assert kinds(step(again.incident, LONG_IDLE, LATER + 180 * MINUTE)) == []


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [(LONG_IDLE, HUNG, "hung"), (HUNG, LONG_IDLE, None), (LONG_IDLE, BAD, None), (LONG_IDLE, LONG_IDLE, None)],
)
def test_a_critical_rule_that_goes_before_the_one_that_was_is_told(
    before: JobEvidence, after: JobEvidence, rule: str | None
) -> None:
    """Also where the incident was critical already: a job that is idle, and then hangs."""
    incident = opened(before)
    assert incident.severity is Severity.CRITICAL
    cleared = step(incident, HEALTHY, LATER + MINUTE).incident
    again = step(cleared, after, LATER + 60 * MINUTE)
    assert kinds(again)[0] is EventKind.REOPENED
    assert [event.data.get("rule") for event in again.events[1:]] == ([rule] if rule else [])
