"""How incidents open, change, clear, return and end."""

from dataclasses import replace

import pytest

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.actions import acknowledge, intend, resolve, snooze
from dutycycle_alerter.incidents.audience import Audience, audience
from dutycycle_alerter.incidents.lifecycle import lose
from dutycycle_alerter.incidents.model import Cause, EventKind, Resolution, Severity, State, Step
from dutycycle_alerter.model import Consumption, JobEvidence
from dutycycle_alerter.rules import Outcome, judge
from tests.alerter.cases import LATER, SETTINGS, START, evidence
from tests.alerter.incidents.folding import IDLE, MINUTE, STALLED, UNDERUSED, kinds, opened, step
from tests.alerter.incidents.test_expectations import said
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_rules import NO_GAPS, gaps

HEALTHY = evidence([0.95, 0.95], gpu_fields=NO_GAPS)
STALLED_AND_LOW = evidence([0.28, 0.28], gpu_fields=gaps(0.4))
PERHAPS_HUNG = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75))
HUNG = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(tensor=0.0, dram=0.0))
HUNG_AND_SMALL = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(sm=0.1, tensor=0.0, dram=0.0))
SMALL_KERNELS = evidence([0.9, 0.9], gpu_fields=NO_GAPS | counters(sm=0.05))
UNKNOWN = evidence([0.0, 0.0], coverage=0.1)


def test_nothing_opens_on_a_healthy_job() -> None:
    assert step(None, HEALTHY) == Step(None)


@pytest.mark.parametrize("item", [UNKNOWN, replace(UNKNOWN, visible=False), evidence([0.0, 0.0], at=START + 60)])
def test_nothing_opens_on_an_unknown_or_young_job(item: JobEvidence) -> None:
    assert step(None, item, item.at) == Step(None)


def test_an_incident_opens_with_what_the_rule_found() -> None:
    result = step(None, IDLE)
    incident = result.incident
    assert incident is not None
    assert (incident.rule, incident.severity, incident.state) == ("idle", Severity.WARNING, State.OPEN)
    assert incident.diagnosis.causes == (Cause.NO_PROCESS,)
    assert incident.started_at == LATER - 30 * MINUTE
    assert incident.opened_at == LATER
    assert incident.wasted == 2 * 30 * MINUTE
    assert (incident.user, incident.scheduler, incident.job_gpus) == ("alice", "slurm", 2)
    assert kinds(result) == [EventKind.OPENED]


def test_judging_the_same_evidence_again_changes_nothing() -> None:
    incident = opened()
    assert step(incident, IDLE) == Step(incident)


def test_an_incident_clears_by_its_rules_own_clearing_condition() -> None:
    result = step(opened(), HEALTHY, LATER + 15 * MINUTE)
    assert result.incident is not None
    assert (result.incident.state, result.incident.resolution) == (State.RESOLVED, Resolution.CLEARED)
    assert kinds(result) == [EventKind.RULE_CLEARED, EventKind.RESOLVED]


def test_between_opening_and_clearing_it_stays_open() -> None:
    between = evidence([0.01, 0.01], gpu_fields=NO_GAPS)
    incident = opened()
    result = step(incident, between, LATER + MINUTE)
    assert result.incident is not None
    assert result.incident.state is State.OPEN


@pytest.mark.parametrize("item", [UNKNOWN, replace(IDLE, visible=False), replace(HEALTHY, visible=False)])
def test_what_is_unknown_resolves_nothing(item: JobEvidence) -> None:
    result = step(opened(), item, LATER + 60 * MINUTE)
    assert result.incident is not None
    assert result.incident.state is State.OPEN
    assert result.events == ()


def test_unknown_for_a_day_is_lost() -> None:
    incident = opened()
    almost = step(incident, UNKNOWN, LATER + 86399)
    assert almost.incident is not None
    assert almost.incident.state is State.OPEN
    result = step(incident, UNKNOWN, LATER + 86400)
    assert result.incident is not None
    assert (result.incident.state, result.incident.resolution) == (State.RESOLVED, Resolution.LOST)


def test_a_job_that_no_source_knows_is_lost_after_a_day() -> None:
    incident = opened()
    assert lose(incident, SETTINGS, now=LATER + 86399) == Step(incident)
    result = lose(incident, SETTINGS, now=LATER + 86400)
    assert result.incident is not None
    assert result.incident.resolution is Resolution.LOST
    assert lose(result.incident, SETTINGS, now=LATER + 999999) == Step(result.incident)


def test_the_end_of_the_job_ends_the_incident_at_that_time() -> None:
    incident = opened()
    result = step(incident, replace(IDLE, ended=LATER + 5), LATER + MINUTE)
    assert result.incident is not None
    assert (result.incident.resolution, result.incident.resolved_at) == (Resolution.ENDED, LATER + 5)


def test_an_ended_job_opens_nothing() -> None:
    assert step(None, replace(IDLE, ended=LATER - 1)) == Step(None)


def test_waste_grows_by_what_was_consumed_since_the_previous_pass() -> None:
    recent = (
        Consumption("H200", 120, 100, 10, 500.0, by_gpu={"node0/GPU-0/": 90.0}),
        Consumption("A100", 60, 60, 0, None, by_gpu={"node0/GPU-1/": 60.0}),
    )
    result = step(opened(), replace(IDLE, recent=recent), LATER + MINUTE)
    assert result.incident is not None
    assert result.incident.wasted == 3600 + 90 + 60
    assert result.incident.energy == 500.0


def test_severity_rises_and_does_not_fall() -> None:
    critical = evidence([0.0, 0.0], gpu_fields=NO_GAPS | {"processes": 0.0})
    risen = step(opened(), critical, LATER + MINUTE)
    assert risen.incident is not None
    assert (risen.incident.severity, kinds(risen)) == (Severity.CRITICAL, [EventKind.SEVERITY_CHANGED])
    again = step(risen.incident, IDLE, LATER + 2 * MINUTE)
    assert again.incident is not None
    assert again.incident.severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("minutes", "state", "reopened"), [(30, State.OPEN, 1), (119, State.OPEN, 1), (120, State.OPEN, 1), (121, None, 0)]
)
def test_a_condition_that_returns_soon_reopens_the_same_incident(
    minutes: float, state: State | None, reopened: int
) -> None:
    cleared = step(opened(), HEALTHY).incident
    result = step(cleared, IDLE, LATER + minutes * MINUTE)
    assert result.incident is not None
    if state is None:
        assert (result.incident.id, kinds(result)) == (0, [EventKind.OPENED])
    else:
        assert (result.incident.id, result.incident.state, result.incident.reopened) == (1, state, reopened)
        assert kinds(result) == [EventKind.REOPENED]


def test_a_rule_does_not_open_on_a_window_that_reaches_back_before_the_last_clearing() -> None:
    cleared = step(opened(), HEALTHY).incident
    assert step(cleared, IDLE, LATER + 29.9 * MINUTE) == Step(cleared)
    # A shorter window lies after it sooner.
    assert kinds(step(cleared, STALLED, LATER + 15 * MINUTE)) == [EventKind.REOPENED]


def test_a_job_that_recovers_from_idling_is_not_accused_of_being_underused() -> None:
    """Its mean over 30 min stays low for a while after it went back to work: that is the past, told a second time."""
    recovering = evidence([0.14, 0.14], by_window={900: [0.24, 0.24]}, gpu_fields=NO_GAPS)
    assert judge(recovering, SETTINGS).verdict("underused").outcome is Outcome.FIRING
    cleared = step(opened(), recovering, LATER + MINUTE)
    assert kinds(cleared) == [EventKind.RULE_CLEARED, EventKind.RESOLVED]
    assert step(cleared.incident, recovering, LATER + 2 * MINUTE).events == ()
    # If it is still low when the whole window lies after the clearing, it is underused.
    late = step(cleared.incident, recovering, LATER + 31 * MINUTE)
    assert late.incident is not None
    assert late.incident.rule == "underused"
    assert kinds(late) == [EventKind.REOPENED]


def test_no_rule_joins_in_the_pass_in_which_another_clears() -> None:
    """Two idle GPUs of four go to work: over 30 min they are no longer idle, but of course far behind the others."""
    incident = opened(evidence([0.9, 0.0], gpu_fields=NO_GAPS))
    recovering = evidence([0.9, 0.03], gpu_fields=NO_GAPS)
    assert judge(recovering, SETTINGS).verdict("uneven").outcome is Outcome.FIRING
    result = step(incident, recovering, LATER + MINUTE)
    assert kinds(result) == [EventKind.RULE_CLEARED, EventKind.RESOLVED]
    assert step(result.incident, recovering, LATER + 2 * MINUTE).events == ()


def test_no_rule_joins_with_a_window_that_reaches_back_before_another_left() -> None:
    """It shows the idle GPUs that are at work again for half an hour more."""
    idle_and_stalled = evidence([0.6, 0.0], gpu_fields=gaps(0.4))
    recovering = evidence([0.6, 0.1], gpu_fields=gaps(0.4))
    incident = opened(idle_and_stalled)
    assert [rule.rule for rule in incident.rules] == ["partially_idle", "stalled"]
    left_at = LATER + MINUTE
    left = step(incident, recovering, left_at).incident
    assert left is not None
    assert [rule.rule for rule in left.rules] == ["stalled"]
    for minutes in (2, 30.9):
        item = step(left, recovering, LATER + minutes * MINUTE, left_at=left_at)
        assert EventKind.RULE_OPENED not in kinds(item)
    joined = step(left, recovering, LATER + 31 * MINUTE, left_at=left_at)
    assert joined.incident is not None
    assert [rule.rule for rule in joined.incident.rules] == ["stalled", "uneven"]


@pytest.mark.parametrize("resolution", [Resolution.ENDED, Resolution.LOST])
def test_only_a_cleared_incident_is_reopened(resolution: Resolution) -> None:
    ended = replace(opened(), state=State.RESOLVED, resolution=resolution, resolved_at=LATER, rules=())
    assert kinds(step(ended, IDLE, LATER + MINUTE)) == [EventKind.OPENED]


def test_what_a_person_resolved_stays_resolved_until_it_cleared_once() -> None:
    incident = resolve(opened(), actor="bob", now=LATER).incident
    still = step(incident, IDLE, LATER + MINUTE)
    assert still == Step(incident)
    cleared = step(incident, HEALTHY, LATER + 2 * MINUTE)
    assert cleared.incident is not None
    assert (cleared.incident.rules, cleared.events) == ((), ())
    # What it told before that is the past.
    assert step(cleared.incident, IDLE, LATER + 31 * MINUTE) == Step(cleared.incident)
    again = step(cleared.incident, IDLE, LATER + 32 * MINUTE)
    assert again.incident is not None
    assert (again.incident.id, kinds(again)) == (0, [EventKind.OPENED])


RECOVERING = {
    "idle, then underused": (IDLE, evidence([0.14, 0.14], by_window={900: [0.24, 0.24]}, gpu_fields=NO_GAPS)),
    "idle in part, then uneven": (
        evidence([0.9, 0.0], gpu_fields=NO_GAPS),
        evidence([0.9, 0.03], gpu_fields=NO_GAPS),
    ),
}


@pytest.mark.parametrize("which", RECOVERING)
def test_a_job_that_recovers_from_what_a_person_closed_is_not_accused_of_the_past(which: str) -> None:
    """An operator closed it and told the user, who mended it: the next mail must not come a minute later."""
    before, recovering = RECOVERING[which]
    assert any(verdict.outcome is Outcome.FIRING for verdict in judge(recovering, SETTINGS).verdicts)
    closed = resolve(opened(before), actor="bob", now=LATER).incident
    cleared = step(closed, recovering, LATER + 10 * MINUTE).incident
    assert cleared is not None
    assert cleared.rules == ()
    # Whatever people still say of it changes nothing of when it was over.
    said_of = intend(cleared, said(cleared, now=LATER + 20 * MINUTE, until=LATER + 21 * MINUTE)).incident
    for item in (cleared, said_of):
        assert step(item, recovering, LATER + 11 * MINUTE).events == ()
        assert step(item, recovering, LATER + 39.9 * MINUTE).events == ()
        assert kinds(step(item, recovering, LATER + 40 * MINUTE)) == [EventKind.OPENED]


def test_another_rule_does_not_speak_while_what_a_person_resolved_goes_on() -> None:
    incident = resolve(opened(UNDERUSED), actor="bob", now=LATER).incident
    result = step(incident, STALLED, LATER + MINUTE)
    assert result.events == ()
    assert result.incident is not None
    assert result.incident.state is State.RESOLVED


def test_the_primary_rule_changes_only_after_the_newcomer_held_half_its_window() -> None:
    incident = opened(UNDERUSED)
    joined = step(incident, STALLED_AND_LOW, LATER + MINUTE)
    assert joined.incident is not None
    assert (joined.incident.rule, [r.rule for r in joined.incident.rules]) == ("underused", ["stalled", "underused"])
    early = step(joined.incident, STALLED_AND_LOW, LATER + 8 * MINUTE)
    assert early.incident is not None
    assert early.incident.rule == "underused"
    late = step(early.incident, STALLED_AND_LOW, LATER + 8.5 * MINUTE)
    assert late.incident is not None
    assert (late.incident.rule, kinds(late)) == ("stalled", [EventKind.PRIMARY_CHANGED])


def test_where_the_primary_rule_cleared_what_is_left_takes_its_place_at_once() -> None:
    incident = opened(UNDERUSED)
    for minutes in (1, 9):
        incident = step(incident, STALLED_AND_LOW, LATER + minutes * MINUTE).incident or incident
    assert incident.rule == "stalled"
    # Between the bounds `underused` neither fires nor clears; it is what this incident is about now.
    between = evidence([0.28, 0.28], gpu_fields=NO_GAPS)
    left = step(incident, between, LATER + 10 * MINUTE)
    assert left.incident is not None
    assert (left.incident.rule, left.incident.diagnosis.causes) == ("underused", (Cause.SMALL_WORK,))
    assert kinds(left) == [EventKind.RULE_CLEARED, EventKind.PRIMARY_CHANGED]


def test_it_resolves_only_when_no_rule_is_open() -> None:
    joined = step(opened(UNDERUSED), STALLED_AND_LOW, LATER + MINUTE).incident
    # Gaps are gone, utilization still low: `stalled` clears, `underused` does not.
    result = step(joined, UNDERUSED, LATER + 2 * MINUTE)
    assert result.incident is not None
    assert ([r.rule for r in result.incident.rules], result.incident.state) == (["underused"], State.OPEN)
    assert step(result.incident, HEALTHY, LATER + 3 * MINUTE).incident.resolution is Resolution.CLEARED  # type: ignore[union-attr]


def test_a_rule_that_can_no_longer_be_judged_counts_as_not_firing() -> None:
    blind = evidence([0.4, 0.4])  # no gaps, no CPU: `stalled` is not evaluable, and the others are clear
    result = step(opened(STALLED), blind, LATER + MINUTE)
    assert result.incident is not None
    assert result.incident.state is State.RESOLVED
    assert "can no longer be judged" in result.events[0].text


def test_a_snoozed_incident_is_open_again_when_the_time_is_over() -> None:
    snoozed = snooze(opened(), until=LATER + 60 * MINUTE, actor="bob", now=LATER).incident
    quiet = step(snoozed, IDLE, LATER + 59 * MINUTE)
    assert quiet.incident is not None
    assert (quiet.incident.state, quiet.events) == (State.SNOOZED, ())
    awake = step(snoozed, IDLE, LATER + 60 * MINUTE)
    assert awake.incident is not None
    assert (awake.incident.state, kinds(awake)) == (State.OPEN, [EventKind.SNOOZE_EXPIRED])
    assert awake.events[0].text == "the snooze has ended and the condition still holds"


@pytest.mark.parametrize("now", [evidence([None, None]), evidence([0.9, 0.9], gpu_fields=NO_GAPS)])
def test_of_what_is_not_known_to_hold_only_the_end_of_the_snooze_is_said(now: JobEvidence) -> None:
    snoozed = snooze(opened(), until=LATER + 60 * MINUTE, actor="bob", now=LATER).incident
    awake = step(snoozed, now, LATER + 60 * MINUTE)
    assert (awake.events[0].kind, awake.events[0].text) == (EventKind.SNOOZE_EXPIRED, "the snooze has ended")


@pytest.mark.parametrize(
    ("before", "now", "namespace", "user"),
    [
        ("", "alice", "", "alice"),
        ("team-a", "alice", "team-a", "alice"),
        ("alice", "", "team-a", "alice"),
        # The namespace stands in for a user that nobody tells just now.
        ("alice", "team-a", "team-a", "alice"),
        ("", "team-a", "team-a", "team-a"),
        # So does a number for a name.
        ("alice", "1001", "", "alice"),
        ("1001", "alice", "", "alice"),
    ],
)
def test_an_incident_is_of_the_user_that_is_known_by_now(before: str, now: str, namespace: str, user: str) -> None:
    incident = replace(opened(), user=before, account="lab")
    item = replace(IDLE, job=replace(IDLE.job, user=now, namespace=namespace, account=""))
    later = step(incident, item, LATER + MINUTE)
    assert later.incident is not None
    assert (later.incident.user, later.incident.account) == (user, "lab")
    assert kinds(later) == ([EventKind.OWNER_CHANGED] if user != before else [])
    assert kinds(step(later.incident, item, LATER + 2 * MINUTE)) == []


def test_an_incident_that_comes_back_is_of_the_user_that_is_known_by_then() -> None:
    cleared = step(opened(), evidence([0.9, 0.9], gpu_fields=NO_GAPS), LATER + MINUTE).incident
    item = replace(IDLE, job=replace(IDLE.job, user="bob"))
    again = step(cleared, item, LATER + 60 * MINUTE)
    assert again.incident is not None
    assert again.incident.user == "bob"
    assert kinds(again) == [EventKind.REOPENED, EventKind.OWNER_CHANGED]


@pytest.mark.parametrize("action", ["acknowledge", "snooze"])
def test_an_acknowledged_or_snoozed_incident_still_clears(action: str) -> None:
    incident = opened()
    if action == "acknowledge":
        changed = acknowledge(incident, actor="bob", now=LATER).incident
    else:
        changed = snooze(incident, until=LATER + 9999, actor="bob", now=LATER).incident
    result = step(changed, HEALTHY, LATER + MINUTE)
    assert result.incident is not None
    assert result.incident.state is State.RESOLVED


def test_a_resolved_incident_cannot_be_changed_by_hand() -> None:
    resolved = resolve(opened(), actor="bob", now=LATER).incident
    assert resolved is not None
    for change in (
        lambda: acknowledge(resolved, actor="bob", now=LATER),
        lambda: snooze(resolved, until=LATER + 1, actor="bob", now=LATER),
        lambda: resolve(resolved, actor="bob", now=LATER),
    ):
        with pytest.raises(TransitionError, match="is resolved"):
            change()


def test_a_snooze_into_the_past_is_refused() -> None:
    with pytest.raises(TransitionError, match="has passed"):
        snooze(opened(), until=LATER, actor="bob", now=LATER)


# Hangs


def test_a_hang_is_critical_once_counters_confirm_it() -> None:
    incident = opened(PERHAPS_HUNG)
    assert (incident.rule, incident.severity) == ("hung", Severity.WARNING)
    assert incident.started_at == LATER - 15 * MINUTE
    confirmed = step(incident, HUNG, LATER + MINUTE)
    assert confirmed.incident is not None
    assert confirmed.incident.severity is Severity.CRITICAL
    assert confirmed.incident.diagnosis.causes == (Cause.HANG,)
    assert kinds(confirmed) == [EventKind.SEVERITY_CHANGED, EventKind.CAUSE_FOUND]


def test_a_hang_takes_the_place_of_what_was_found_before_after_half_of_its_window() -> None:
    """Small kernels, and then a collective that never returns: the same incident, told anew."""
    incident = opened(SMALL_KERNELS)
    assert incident.rule == "low_sm_activity"
    joined = step(incident, HUNG_AND_SMALL, LATER + MINUTE).incident
    assert joined is not None
    assert [rule.rule for rule in joined.rules] == ["hung", "low_sm_activity"]
    assert joined.rule == "low_sm_activity"
    early = step(joined, HUNG_AND_SMALL, LATER + 8.4 * MINUTE).incident
    assert early is not None
    assert early.rule == "low_sm_activity"
    late = step(early, HUNG_AND_SMALL, LATER + 8.5 * MINUTE)
    assert late.incident is not None
    assert (late.incident.rule, late.incident.severity) == ("hung", Severity.CRITICAL)


def test_a_hang_of_which_nothing_spins_any_more_ends_and_returns_as_idling() -> None:
    incident = opened(HUNG)
    idle = evidence([0.0, 0.0], gpu_fields=NO_GAPS | at_power(70))
    cleared = step(incident, idle, LATER + 15 * MINUTE)
    assert cleared.incident is not None
    assert (cleared.incident.state, kinds(cleared)) == (
        State.RESOLVED,
        [EventKind.RULE_CLEARED, EventKind.RESOLVED],
    )
    again = step(cleared.incident, idle, LATER + 45 * MINUTE)
    assert again.incident is not None
    assert (again.incident.rule, kinds(again)) == ("idle", [EventKind.REOPENED])


def test_small_kernels_whose_counters_are_gone_count_as_not_firing() -> None:
    incident = opened(SMALL_KERNELS)
    result = step(incident, evidence([0.9, 0.9], gpu_fields=NO_GAPS), LATER + MINUTE)
    assert result.incident is not None
    assert result.incident.state is State.RESOLVED


def test_what_was_uneven_and_of_small_kernels_ends_where_nothing_works_any_more() -> None:
    """Of multiprocessors there is nothing to tell then: their rule must not take the place of the one that left."""
    incident = opened(evidence([0.9, 0.5], gpu_fields=NO_GAPS | counters(sm=0.05)))
    assert [rule.rule for rule in incident.rules] == ["uneven", "low_sm_activity"]
    stopped = evidence([0.0, 0.0], by_window={7200: [0.5, 0.5]}, gpu_fields=NO_GAPS | counters(sm=0.0))
    result = step(incident, stopped, LATER + 30 * MINUTE)
    assert result.incident is not None
    assert result.incident.resolution is Resolution.CLEARED
    assert kinds(step(result.incident, stopped, LATER + 60 * MINUTE)) == [EventKind.REOPENED]


# Whom it is for


@pytest.mark.parametrize(
    ("item", "whom"),
    [
        (IDLE, Audience.OWNER),
        (PERHAPS_HUNG, Audience.OPERATORS),
        (HUNG, Audience.OWNER),
        (STALLED, Audience.OWNER),
        # Idle GPUs beside one that perhaps hangs are the owner's all the same.
        (evidence([1.0, 0.0], gpu_fields=NO_GAPS | at_power(75)), Audience.OWNER),
    ],
)
def test_an_incident_is_for_its_owner_unless_it_is_a_hang_that_nothing_confirms(
    item: JobEvidence, whom: Audience
) -> None:
    incident = opened(item)
    assert audience(incident) is whom
    assert audience(replace(incident, rules=(), state=State.RESOLVED)) is (
        Audience.OPERATORS if incident.rule == "hung" and incident.severity is Severity.WARNING else Audience.OWNER
    )


def test_reports_are_for_nobody_and_devices_for_operators() -> None:
    incident = opened()
    assert audience(replace(incident, kind="report", severity=Severity.INFO)) is Audience.NOBODY
    assert audience(replace(incident, kind="fault", rule="gpu_fault", severity=Severity.CRITICAL)) is Audience.OPERATORS
    assert audience(replace(incident, kind="throttle", rule="throttled", severity=Severity.INFO)) is Audience.NOBODY


@pytest.mark.parametrize("resolution", [Resolution.CLEARED, Resolution.OPERATOR])
def test_what_cleared_while_the_clock_was_ahead_keeps_nothing_from_opening(resolution: Resolution) -> None:
    ahead = LATER + 86400
    over = replace(
        opened(at=ahead), state=State.RESOLVED, resolution=resolution, resolved_at=ahead, known_at=ahead, rules=()
    )
    found = step(over, IDLE, LATER + MINUTE).incident
    assert found is not None
    assert (found.state, found.known_at) == (State.OPEN, LATER + MINUTE)
