"""How incidents of GPUs and nodes open, change, clear, return and end."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.actions import acknowledge, resolve, snooze
from dutycycle_alerter.incidents.device_lifecycle import Subject, advance_device, gpu_subject, node_subject
from dutycycle_alerter.incidents.model import (
    Cause,
    Diagnosis,
    EventKind,
    Incident,
    Resolution,
    Severity,
    State,
    Step,
)
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.rules import Outcome, Verdict
from tests.alerter.cases import LATER, SETTINGS
from tests.alerter.devices import GPU, INSTANCE

HOUR = 3600.0
SUBJECT = gpu_subject(GPU)
XID = {"xid": 48.0, "xid_at": LATER - 5}


def verdict(
    outcome: Outcome = Outcome.FIRING,
    severity: Severity = Severity.WARNING,
    figures: Mapping[str, float] = XID,
    *,
    window: float = 0.0,
    rule: str = "gpu_fault",
) -> Verdict:
    return Verdict(rule, outcome, window, severity, (GPU,), figures if outcome is Outcome.FIRING else {})


FIRING = verdict()
CLEAR = verdict(Outcome.CLEAR)
UNKNOWN = verdict(Outcome.UNKNOWN)


def step(incident: Incident | None, found: Verdict, at: float = LATER, subject: Subject = SUBJECT) -> Step:
    diagnosis = Diagnosis((Cause.FAULT,), (f"figures {dict(found.figures)}",), ())
    return advance_device(incident, subject, found, lambda: diagnosis, SETTINGS, now=at)


def opened(found: Verdict = FIRING, at: float = LATER) -> Incident:
    incident = step(None, found, at).incident
    assert incident is not None
    return replace(incident, id=1)


def kinds(result: Step) -> list[EventKind]:
    return [event.kind for event in result.events]


def after(result: Step) -> Incident:
    assert result.incident is not None
    return result.incident


@pytest.mark.parametrize(
    ("subject", "name", "whole"),
    [
        (gpu_subject(GPU), "gpu/node0/GPU-3", 1),
        (gpu_subject(INSTANCE), "gpu/node0/GPU-3/MIG-a", 1),
        (gpu_subject(replace(GPU, uuid="")), "gpu/node0/3", 1),
        (node_subject("node0", whole=8), "node/node0", 8),
    ],
)
def test_subjects_have_names_of_their_own(subject: Subject, name: str, whole: int) -> None:
    assert (subject.id, subject.whole) == (name, whole)
    assert {gpu.node for gpu in subject.gpus} == {"node0"}


def test_an_incident_opens_at_once_and_begins_when_it_was_reported() -> None:
    result = step(None, FIRING)
    incident = after(result)
    assert (incident.subject, incident.kind, incident.rule) == ("gpu/node0/GPU-3", "gpu_fault", "gpu_fault")
    assert (incident.state, incident.severity, incident.gpus) == (State.OPEN, Severity.WARNING, (GPU,))
    assert (incident.started_at, incident.opened_at, incident.known_at) == (LATER - 5, LATER, LATER)
    assert (incident.user, incident.wasted, incident.energy) == ("", 0, 0)
    assert kinds(result) == [EventKind.OPENED]


def test_a_window_began_before_it_was_seen() -> None:
    incident = opened(verdict(figures={"thermal": 0.1}, window=900, rule="throttled"))
    assert (incident.kind, incident.started_at) == ("throttled", LATER - 900)


@pytest.mark.parametrize("found", [CLEAR, UNKNOWN, verdict(Outcome.WAITING), verdict(Outcome.HOLDING)])
def test_nothing_else_opens(found: Verdict) -> None:
    assert step(None, found) == Step(None)


def test_judging_the_same_evidence_again_changes_nothing() -> None:
    incident = opened()
    assert step(incident, FIRING) == Step(incident)


def test_it_clears() -> None:
    result = step(opened(), CLEAR, LATER + HOUR)
    incident = after(result)
    assert (incident.state, incident.resolution, incident.resolved_at) == (
        State.RESOLVED,
        Resolution.CLEARED,
        LATER + HOUR,
    )
    assert (incident.rules, kinds(result)) == ((), [EventKind.RESOLVED])


def test_a_rule_that_was_switched_off_closes_its_incident() -> None:
    result = step(opened(), Verdict("gpu_fault", Outcome.NOT_APPLICABLE, reason="disabled in the configuration"))
    assert after(result).resolution is Resolution.CLEARED
    assert "disabled" in result.events[0].text


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.WAITING, Outcome.HOLDING])
def test_between_opening_and_clearing_it_stays_open(outcome: Outcome) -> None:
    result = step(opened(), verdict(outcome), LATER + HOUR)
    assert (after(result).state, result.events) == (State.OPEN, ())


def test_it_is_lost_once_nothing_was_known_for_a_day() -> None:
    incident = opened()
    assert after(step(incident, UNKNOWN, LATER + 86399)).state is State.OPEN
    result = step(incident, UNKNOWN, LATER + 86400)
    assert after(result).resolution is Resolution.LOST
    assert result.events[0].text == "nothing known for 24 h"


def test_what_is_known_keeps_it_from_being_lost() -> None:
    incident = after(step(opened(), FIRING, LATER + 20 * HOUR))
    assert incident.known_at == LATER + 20 * HOUR
    assert after(step(incident, UNKNOWN, LATER + 40 * HOUR)).state is State.OPEN


def test_an_incident_about_which_nothing_changes_is_not_written_at_every_pass() -> None:
    incident = opened()
    assert step(incident, FIRING, LATER + 119) == Step(incident)
    assert after(step(incident, FIRING, LATER + 120)).known_at == LATER + 120


def test_severity_rises_and_does_not_fall() -> None:
    worse = step(opened(), verdict(severity=Severity.CRITICAL), LATER + 60)
    incident = after(worse)
    assert (incident.severity, incident.rules[0].severity) == (Severity.CRITICAL, Severity.CRITICAL)
    assert kinds(worse) == [EventKind.SEVERITY_CHANGED]
    assert after(step(incident, FIRING, LATER + 90)).severity is Severity.CRITICAL


def test_what_became_worse_says_why_it_is_so_now() -> None:
    """Its figures and evidence were of what it began with: that a job holds the GPU now is what makes it critical."""
    lost = Gpu("node0", "2", "GPU-2")
    incident = opened(verdict(severity=Severity.INFO, figures={"power_cap": 0.8}, window=900, rule="throttled"))
    hot = verdict(figures={"thermal": 0.2}, window=900, rule="throttled")
    worse = step(incident, hot, LATER + 60, replace(SUBJECT, gpus=(lost,)))
    assert (after(worse).figures, after(worse).gpus) == ({"thermal": 0.2}, (lost,))
    assert after(worse).diagnosis.evidence == ("figures {'thermal': 0.2}",)
    assert kinds(worse) == [EventKind.SEVERITY_CHANGED]


def test_another_report_that_makes_it_worse_is_told_as_both() -> None:
    more = verdict(severity=Severity.CRITICAL, figures={"xid": 79.0, "xid_at": LATER + 50})
    assert kinds(step(opened(), more, LATER + 60)) == [EventKind.SEVERITY_CHANGED, EventKind.CAUSE_FOUND]


def test_what_comes_back_worse_says_so() -> None:
    cleared = after(step(opened(), CLEAR, LATER + HOUR))
    worse = step(cleared, verdict(severity=Severity.CRITICAL), LATER + 2 * HOUR)
    assert (after(worse).severity, kinds(worse)) == (
        Severity.CRITICAL,
        [EventKind.REOPENED, EventKind.SEVERITY_CHANGED],
    )
    cleared = after(step(after(worse), CLEAR, LATER + 2.5 * HOUR))
    again = step(cleared, FIRING, LATER + 3 * HOUR)
    assert (after(again).severity, kinds(again)) == (Severity.CRITICAL, [EventKind.REOPENED])


def test_another_report_is_told_and_noted() -> None:
    more = verdict(figures={"xid": 79.0, "xid_at": LATER + 50})
    result = step(opened(), more, LATER + 60)
    assert after(result).figures == more.figures
    assert "79" in after(result).diagnosis.evidence[0]
    assert kinds(result) == [EventKind.CAUSE_FOUND]


def test_a_repeated_xid_is_noted_and_not_reported_again() -> None:
    first = after(step(opened(), verdict(figures={"xid": 79.0, "xid_at": LATER + 50}), LATER + 60))
    again = step(first, verdict(figures={"xid": 79.0, "xid_at": LATER + 110}), LATER + 120)
    assert (after(again).figures["xid_at"], kinds(again)) == (LATER + 110, [])
    other = step(after(again), verdict(figures={"xid": 48.0, "xid_at": LATER + 170}), LATER + 180)
    assert kinds(other) == [EventKind.CAUSE_FOUND]


def test_the_figures_of_a_window_move_silently() -> None:
    incident = opened(verdict(figures={"thermal": 0.1}, window=900, rule="throttled"))
    moved = verdict(figures={"thermal": 0.2}, window=900, rule="throttled")
    assert step(incident, moved, LATER + 60) == Step(incident)


def test_it_returns_within_two_hours_as_the_same() -> None:
    cleared = after(step(opened(), CLEAR, LATER + HOUR))
    again = step(cleared, FIRING, LATER + 3 * HOUR)
    incident = after(again)
    assert (incident.id, incident.state, incident.reopened) == (1, State.OPEN, 1)
    assert (incident.resolved_at, incident.resolution) == (None, None)
    assert kinds(again) == [EventKind.REOPENED]
    late = after(step(cleared, FIRING, LATER + 3 * HOUR + 1))
    assert (late.id, late.reopened) == (0, 0)


def test_a_lost_one_that_is_seen_again_is_a_new_one() -> None:
    lost = after(step(opened(), UNKNOWN, LATER + 86400))
    assert after(step(lost, FIRING, LATER + 86401)).id == 0


def test_what_a_person_closed_stays_closed_until_it_has_cleared() -> None:
    closed = after(resolve(opened(), actor="bob", now=LATER + 60))
    assert step(closed, FIRING, LATER + 120) == Step(closed)
    assert step(closed, UNKNOWN, LATER + 120) == Step(closed)
    cleared = step(closed, CLEAR, LATER + 180)
    assert (after(cleared).rules, cleared.events) == ((), ())
    assert after(step(after(cleared), FIRING, LATER + 240)).id == 0


def test_something_new_after_a_person_closed_it_opens_another() -> None:
    closed = after(resolve(opened(), actor="bob", now=LATER + 60))
    result = step(closed, verdict(figures={"xid": 48.0, "xid_at": LATER + 100}), LATER + 120)
    assert (after(result).id, kinds(result)) == (0, [EventKind.OPENED])


def test_a_report_from_ahead_of_the_clock_that_a_person_closed_is_no_news_once_the_clock_is_there() -> None:
    ahead = verdict(figures={"xid": 48.0, "xid_at": LATER + 600})
    closed = after(resolve(opened(ahead), actor="bob", now=LATER + 60))
    for now in (LATER + 90, LATER + 601, LATER + 700):
        assert step(closed, ahead, now) == Step(closed)
    again = step(closed, verdict(figures={"xid": 48.0, "xid_at": LATER + 660}), LATER + 700)
    assert kinds(again) == [EventKind.OPENED]


def test_people_acknowledge_and_snooze_it_as_any_other() -> None:
    taken = after(acknowledge(opened(), actor="bob", now=LATER + 1))
    assert after(step(taken, FIRING, LATER + 60)).state is State.ACKNOWLEDGED
    asleep = after(snooze(taken, until=LATER + HOUR, actor="bob", now=LATER + 2))
    assert after(step(asleep, FIRING, LATER + HOUR - 1)).state is State.SNOOZED
    awake = step(asleep, FIRING, LATER + HOUR)
    assert (after(awake).state, after(awake).snoozed_until) == (State.OPEN, None)
    assert kinds(awake) == [EventKind.SNOOZE_EXPIRED]
    assert after(step(asleep, CLEAR, LATER + 60)).snoozed_until is None


# Heat, and the power limit


def throttled(
    thermal: float | None, power_cap: float, outcome: Outcome = Outcome.FIRING, severity: Severity = Severity.INFO
) -> Verdict:
    figures = {"power_cap": power_cap} if thermal is None else {"thermal": thermal, "power_cap": power_cap}
    return Verdict("throttled", outcome, 900, severity, (GPU,), figures)


HOT = throttled(0.12, 0.6, severity=Severity.WARNING)
CAPPED = throttled(0.0, 0.6)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (CAPPED, State.RESOLVED),
        (throttled(0.0199, 0.6), State.RESOLVED),
        (throttled(0.0, 0.45, Outcome.HOLDING), State.RESOLVED),
        (throttled(0.02, 0.6), State.OPEN),
        (throttled(0.03, 0.45, Outcome.HOLDING), State.OPEN),
        (throttled(None, 0.6), State.OPEN),
    ],
)
def test_a_warning_of_heat_ends_with_the_heat_whatever_the_power_limit_does(found: Verdict, state: State) -> None:
    assert after(step(opened(HOT), found, LATER + HOUR)).state is state


@pytest.mark.parametrize("found", [CAPPED, throttled(0.0, 0.45, Outcome.HOLDING)])
def test_what_tells_of_the_power_limit_stays_while_it_holds(found: Verdict) -> None:
    incident = opened(CAPPED)
    assert after(step(incident, found, LATER + 60)).state is State.OPEN


def test_the_power_limit_opens_an_incident_of_its_own_after_the_heat() -> None:
    """It is information, and does not bring a warning back."""
    over = after(step(opened(HOT), CAPPED, LATER + HOUR))
    result = step(over, CAPPED, LATER + HOUR + 60)
    assert (after(result).id, after(result).severity, kinds(result)) == (0, Severity.INFO, [EventKind.OPENED])


def test_heat_comes_back_as_the_same() -> None:
    over = after(step(opened(HOT), CAPPED, LATER + HOUR))
    assert kinds(step(over, HOT, LATER + HOUR + 60)) == [EventKind.REOPENED]
    cool = after(step(opened(CAPPED), throttled(0.0, 0.0, Outcome.CLEAR), LATER + HOUR))
    assert kinds(step(cool, CAPPED, LATER + HOUR + 60)) == [EventKind.REOPENED]


def test_what_a_person_closed_of_heat_does_not_silence_later_heat_at_the_power_limit() -> None:
    closed = after(resolve(opened(HOT), actor="bob", now=LATER + 60))
    assert step(closed, HOT, LATER + 120) == Step(closed)
    over = after(step(closed, CAPPED, LATER + 180))
    assert (over.id, over.resolution, over.rules) == (1, Resolution.OPERATOR, ())
    assert kinds(step(over, HOT, LATER + 240)) == [EventKind.OPENED]


def test_a_node_shows_which_gpus_it_lost() -> None:
    lost = (Gpu("node0", "2", "GPU-2"),)
    found = Verdict("gpu_fault", Outcome.FIRING, figures={"expected": 8.0, "visible": 7.0})
    incident = after(step(None, found, subject=node_subject("node0", lost, 8)))
    assert (incident.subject, incident.gpus, incident.job_gpus) == ("node/node0", lost, 8)


# Any life

VERDICTS = {
    "fault": FIRING,
    "worse": verdict(severity=Severity.CRITICAL),
    "new": verdict(figures={"recovery_action": 1.0}),
    "clear": CLEAR,
    "unknown": UNKNOWN,
    "waiting": verdict(Outcome.WAITING),
    "off": verdict(Outcome.NOT_APPLICABLE),
}
moves = st.lists(
    st.tuples(
        st.sampled_from([*VERDICTS, "acknowledge", "snooze", "resolve"]),
        st.sampled_from([1.0, 60.0, 3600.0, 90000.0]),
    ),
    max_size=30,
)


@given(moves)
def test_any_life_is_consistent(sequence: list[tuple[str, float]]) -> None:
    now, current, ids = LATER, None, 0
    for name, pause in sequence:
        now += pause
        before = current
        result = step(current, VERDICTS[name], now) if name in VERDICTS else act(current, name, now)
        if result is None or result.incident is None:
            continue
        current = result.incident
        if current.id == 0:
            assert before is None or not before.state.active
            ids += 1
            current = replace(current, id=ids)
        check(before, current, result, name)


def act(current: Incident | None, name: str, now: float) -> Step | None:
    if current is None:
        return None
    try:
        if name == "acknowledge":
            return acknowledge(current, actor="bob", now=now)
        if name == "snooze":
            return snooze(current, until=now + 1800, actor="bob", now=now)
        return resolve(current, actor="bob", now=now)
    except TransitionError:
        return None


def check(before: Incident | None, current: Incident, result: Step, name: str) -> None:
    if before is not None and before.id == current.id and not result.events:
        assert (before.state, before.severity, before.diagnosis) == (
            current.state,
            current.severity,
            current.diagnosis,
        )
    if current.state.active:
        assert current.rules
        assert (current.resolved_at, current.resolution) == (None, None)
        assert (current.state is State.SNOOZED) == (current.snoozed_until is not None)
    else:
        assert current.resolved_at is not None
        assert current.resolution is not None
    if name in ("unknown", "waiting") and before is not None and before.state.active and not current.state.active:
        assert current.resolution is Resolution.LOST
