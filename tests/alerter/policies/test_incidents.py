"""What becomes of an open incident when a policy takes its job out, and what an incident says of a refused wish."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, Severity, State
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from dutycycle_alerter.notify.planning import plan
from dutycycle_alerter.notify.routing import Address, Routing
from dutycycle_alerter.rules import Judgement, Outcome, judge
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import LATER, SETTINGS, evidence, moved
from tests.alerter.notify.outbox import notify, route

MINUTE = 60.0
IDLE = evidence([0.0, 0.0], gpu_fields={"processes": 0.0})
REASON = "excluded by policy course: notebooks of a course"


def excluded(judgement: Judgement, *rules: str) -> Judgement:
    verdicts = tuple(
        replace(v, outcome=Outcome.EXCLUDED, reason=REASON) if v.rule in rules else v for v in judgement.verdicts
    )
    return replace(judgement, verdicts=verdicts)


def opened() -> Incident:
    incident = advance(None, judge(IDLE, SETTINGS), SETTINGS).incident
    assert incident is not None
    return incident


def test_an_incident_whose_rules_are_excluded_resolves_as_excluded_with_the_policys_words() -> None:
    step = advance(opened(), excluded(judge(moved(IDLE, LATER + MINUTE), SETTINGS), "idle"), SETTINGS)
    assert step.incident is not None
    assert (step.incident.state, step.incident.resolution) == (State.RESOLVED, Resolution.EXCLUDED)
    assert [(event.kind, event.text) for event in step.events] == [
        (EventKind.RULE_CLEARED, f"idle is {REASON}"),
        (EventKind.RESOLVED, REASON),
    ]


def test_an_incident_of_which_one_rule_cleared_and_another_is_excluded_has_cleared() -> None:
    incident = opened()
    both = replace(incident, rules=(*incident.rules, replace(incident.rules[0], rule="uneven")))
    busy = evidence([0.9, 0.9], at=LATER + 15 * MINUTE)
    step = advance(both, excluded(judge(busy, SETTINGS), "uneven"), SETTINGS)
    assert step.incident is not None
    assert step.incident.resolution is Resolution.CLEARED


@pytest.mark.parametrize("operators", [Severity.INFO, Severity.WARNING, Severity.CRITICAL])
def test_what_becomes_critical_for_the_user_alone_is_told_to_the_user_alone_and_once(operators: Severity) -> None:
    """A site's policy gives operators a severity of their own."""

    def told(at: float, level: Attention) -> Judgement:
        judgement = judge(moved(IDLE, at), SETTINGS)
        verdicts = (replace(v, severity=operators, told=level) if v.rule == "idle" else v for v in judgement.verdicts)
        return replace(judgement, verdicts=tuple(verdicts))

    incident = advance(None, told(LATER, Attention.WARNING), SETTINGS).incident
    assert incident is not None
    worse = advance(incident, told(LATER + MINUTE, Attention.CRITICAL), SETTINGS)
    assert worse.incident is not None
    assert worse.incident.severity is operators
    assert [(event.kind, event.text) for event in worse.events] == [
        (EventKind.SEVERITY_CHANGED, "idle became critical for the user of the job")
    ]
    routing = Routing(notify(route("email", severity="info"), route("slack", "owner")))
    known: set[Address] = {("email", OPERATORS), ("slack", Recipient(To.OWNER, worse.incident.user))}
    notices = plan(worse.incident, worse.events, known, routing, now=LATER + MINUTE)
    assert [(notice.receiver, notice.news) for notice in notices] == [("slack", News.ESCALATED)]
    again = advance(worse.incident, told(LATER + 2 * MINUTE, Attention.CRITICAL), SETTINGS)
    assert again.events == ()


def test_what_becomes_worse_for_operators_alone_is_not_worse_for_the_user() -> None:
    """The user was told of it as critical; another rule joins, which is a warning for operators."""

    def told(at: float, severity: Severity) -> Judgement:
        judgement = judge(moved(IDLE, at), SETTINGS)
        level = Attention.CRITICAL
        verdicts = (replace(v, severity=severity, told=level) if v.rule == "idle" else v for v in judgement.verdicts)
        return replace(judgement, verdicts=tuple(verdicts))

    incident = advance(None, told(LATER, Severity.INFO), SETTINGS).incident
    worse = advance(incident, told(LATER + MINUTE, Severity.WARNING), SETTINGS)
    assert worse.incident is not None
    assert [event.text for event in worse.events] == ["info became warning"]
    routing = Routing(notify(route("email"), route("slack", "owner")))
    known: set[Address] = {("email", OPERATORS), ("slack", Recipient(To.OWNER, worse.incident.user))}
    notices = plan(worse.incident, worse.events, known, routing, now=LATER + MINUTE)
    assert {(notice.receiver, notice.news) for notice in notices} == {
        ("email", News.ESCALATED),
        ("slack", News.UPDATED),
    }


def test_an_excluded_job_opens_nothing_and_is_judged_again_afterwards() -> None:
    judgement = judge(moved(IDLE, LATER + MINUTE), SETTINGS)
    resolved = advance(opened(), excluded(judgement, "idle"), SETTINGS).incident
    still = advance(resolved, excluded(judge(moved(IDLE, LATER + 2 * MINUTE), SETTINGS), "idle"), SETTINGS)
    assert (still.incident, still.events) == (resolved, ())
    again = advance(resolved, judge(moved(IDLE, LATER + 3 * MINUTE), SETTINGS), SETTINGS)
    assert [event.kind for event in again.events] == [EventKind.OPENED]


def test_what_a_firing_verdict_adds_stands_in_the_incidents_evidence() -> None:
    judgement = judge(IDLE, SETTINGS)
    noted = replace(judgement, verdicts=tuple(replace(v, reason="it asked") for v in judgement.verdicts))
    incident = advance(None, noted, SETTINGS).incident
    assert incident is not None
    assert incident.diagnosis.evidence[-1] == "it asked"
    assert "it asked" not in opened().diagnosis.evidence
