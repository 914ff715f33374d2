"""How incidents open, change, clear, return and end."""

from dataclasses import replace

import pytest

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.actions import acknowledge, resolve, snooze
from dutycycle_alerter.incidents.audience import Audience, audience
from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Cause, EventKind, Incident, Resolution, Severity, State, Step
from dutycycle_alerter.model import Consumption, HostUsage, JobEvidence, JobKind
from dutycycle_alerter.rules import Outcome, judge
from tests.alerter.cases import LATER, SETTINGS, START, evidence, moved
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_rules import NO_GAPS, gaps
from tests.alerter.rules.timeline import EMPTY, NOTHING, WORKS, Does, Life
from tests.alerter.rules.timeline import UNKNOWN as UNKNOWN_PROCESSES

MINUTE = 60.0
HEALTHY = evidence([0.95, 0.95], gpu_fields=NO_GAPS)
IDLE = evidence([0.0, 0.0], by_window={7200: [0.5, 0.5]}, gpu_fields=NO_GAPS | {"processes": 0.0})
STALLED = evidence([0.4, 0.4], gpu_fields=gaps(0.4))
STALLED_AND_LOW = evidence([0.28, 0.28], gpu_fields=gaps(0.4))
UNDERUSED = evidence([0.2, 0.2], gpu_fields=NO_GAPS)
PERHAPS_HUNG = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75))
HUNG = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(tensor=0.0, dram=0.0))
HUNG_AND_SMALL = evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(sm=0.1, tensor=0.0, dram=0.0))
SMALL_KERNELS = evidence([0.9, 0.9], gpu_fields=NO_GAPS | counters(sm=0.05))
UNKNOWN = evidence([0.0, 0.0], coverage=0.1)
QUIET = HostUsage(cpu_cores=0.02, io_pressure=0.0)


def step(incident: Incident | None, item: JobEvidence, at: float = LATER) -> Step:
    return advance(incident, judge(moved(item, at), SETTINGS), SETTINGS)


def opened(item: JobEvidence = IDLE, at: float = LATER) -> Incident:
    incident = step(None, item, at).incident
    assert incident is not None
    return replace(incident, id=1)


def kinds(result: Step) -> list[EventKind]:
    return [event.kind for event in result.events]


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
    recent = (Consumption("H200", 120, 100, 10, 500.0), Consumption("A100", 60, 60, 0, None))
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
    recovering = evidence([0.14, 0.14], by_window={900: [0.28, 0.28]}, gpu_fields=NO_GAPS)
    assert judge(recovering, SETTINGS).verdict("underused").outcome is Outcome.FIRING
    cleared = step(opened(), recovering, LATER + MINUTE)
    assert kinds(cleared) == [EventKind.RULE_CLEARED, EventKind.RESOLVED]
    assert step(cleared.incident, recovering, LATER + 2 * MINUTE).events == ()
    # If it is still low when the whole window lies after the clearing, it is underused.
    late = step(cleared.incident, recovering, LATER + 31 * MINUTE)
    assert late.incident is not None
    assert (late.incident.rule, kinds(late)) == ("underused", [EventKind.REOPENED])


def test_no_rule_joins_in_the_pass_in_which_another_clears() -> None:
    """Two idle GPUs of four go to work: over 30 min they are no longer idle, but of course far behind the others."""
    incident = opened(evidence([0.9, 0.0], gpu_fields=NO_GAPS))
    recovering = evidence([0.9, 0.03], gpu_fields=NO_GAPS)
    assert judge(recovering, SETTINGS).verdict("uneven").outcome is Outcome.FIRING
    result = step(incident, recovering, LATER + MINUTE)
    assert kinds(result) == [EventKind.RULE_CLEARED, EventKind.RESOLVED]
    assert step(result.incident, recovering, LATER + 2 * MINUTE).events == ()


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
    assert kinds(step(cleared.incident, IDLE, LATER + 3 * MINUTE)) == [EventKind.OPENED]


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


def test_a_hesitation_ends_in_a_verdict_and_does_not_come_back() -> None:
    incident = opened(STALLED)
    assert len(incident.diagnosis.causes) == 3
    found = step(incident, replace(STALLED, window=_with_host(STALLED, HostUsage(io_pressure=0.5))), LATER + MINUTE)
    assert found.incident is not None
    assert (found.incident.diagnosis.causes, kinds(found)) == ((Cause.DATA_LOADING,), [EventKind.CAUSE_FOUND])
    assert step(found.incident, STALLED, LATER + 2 * MINUTE) == Step(
        replace(found.incident, known_at=LATER + 120, updated_at=LATER + 120)
    )


RESTED = Life([(60, [Does(0.4)]), (20, [NOTHING])], 1, QUIET)
AGAIN = Life([(60, [Does(0.4)]), (20, [NOTHING]), (6, [Does(0.4)])], 1, QUIET)


def at_its_own_time(incident: Incident | None, item: JobEvidence) -> Step:
    return advance(incident, judge(item, SETTINGS), SETTINGS)


def test_what_stood_still_is_not_told_to_hang_once_it_works_again() -> None:
    told = at_its_own_time(None, RESTED.evidence()).incident
    assert told is not None
    assert (told.rule, told.diagnosis.causes) == ("underused", (Cause.HANG, Cause.IDLE_NOTEBOOK))
    again = at_its_own_time(told, AGAIN.evidence())
    assert again.incident is not None
    assert again.incident.rule == "underused"
    assert not {Cause.HANG, Cause.IDLE_NOTEBOOK} & set(again.incident.diagnosis.causes)
    assert kinds(again) == [EventKind.CAUSE_FOUND]
    assert again.events[0].text.endswith(", no longer hang, or idle notebook or process holding memory")


def test_what_was_told_of_a_rest_beside_another_cause_goes_with_it() -> None:
    told = at_its_own_time(None, RESTED.evidence()).incident
    assert told is not None
    both = replace(told, diagnosis=replace(told.diagnosis, causes=(Cause.SMALL_WORK, Cause.NO_PROCESS)))
    again = at_its_own_time(both, AGAIN.evidence()).incident
    assert again is not None
    assert Cause.NO_PROCESS not in again.diagnosis.causes


def test_that_it_works_again_must_be_seen() -> None:
    """Its last minutes are hardly measured: for all that is known it stands still."""
    told = at_its_own_time(None, RESTED.evidence()).incident
    item = AGAIN.evidence()

    def holes(length: float) -> object:
        found = item.window(length)
        usages = [replace(usage, observed=usage.observed - 0.21 * 900) for usage in found.gpus]
        return replace(found, gpus=tuple(usages))

    again = at_its_own_time(told, replace(item, window=holes)).incident  # type: ignore[arg-type]
    assert told is not None
    assert again is not None
    assert again.diagnosis == told.diagnosis


@pytest.mark.parametrize(("measured", "causes"), [(0.79, (Cause.SMALL_WORK, Cause.HANG)), (0.8, (Cause.SMALL_WORK,))])
def test_nor_is_a_rest_ruled_out_by_minutes_that_nobody_measured(measured: float, causes: tuple[Cause, ...]) -> None:
    incident = opened(UNDERUSED)
    both = replace(incident, diagnosis=replace(incident.diagnosis, causes=(Cause.SMALL_WORK, Cause.HANG)))

    def holes(length: float) -> object:
        found = UNDERUSED.window(length)
        share = measured if length == 900 else 1.0
        usages = (replace(one, observed=one.observed * share, busy=one.busy * share) for one in found.gpus)
        return replace(found, gpus=tuple(usages))

    again = step(both, replace(UNDERUSED, window=holes)).incident  # type: ignore[arg-type]
    assert again is not None
    assert again.diagnosis.causes == causes


def test_a_job_in_which_nothing_ran_is_told_anew_once_something_holds_its_gpus() -> None:
    told = at_its_own_time(None, Life([(60, [EMPTY])], 1, QUIET).evidence()).incident
    assert told is not None
    assert told.diagnosis.causes == (Cause.NO_PROCESS,)
    held = at_its_own_time(told, Life([(60, [EMPTY]), (5, [NOTHING])], 1, QUIET).evidence())
    assert held.incident is not None
    assert held.incident.diagnosis.causes == (Cause.IDLE_NOTEBOOK,)
    ended = at_its_own_time(held.incident, Life([(60, [EMPTY]), (5, [NOTHING]), (31, [EMPTY])], 1, QUIET).evidence())
    assert ended.incident is not None
    assert ended.incident.diagnosis.causes == (Cause.NO_PROCESS,)


@pytest.mark.parametrize("lost", [UNKNOWN_PROCESSES, NOTHING])
def test_evidence_that_is_lost_changes_no_cause(lost: Does) -> None:
    """Once the longest window has nothing but rest, or nobody knows of processes, what was told stays."""
    told = at_its_own_time(None, Life([(40, [WORKS]), (31, [NOTHING])], 4, QUIET).evidence()).incident
    assert told is not None
    assert told.diagnosis.causes == (Cause.HANG, Cause.IDLE_NOTEBOOK)
    later = Life([(40, [WORKS]), (31, [NOTHING]), (90, [lost])], 4, QUIET).evidence()
    step = at_its_own_time(told, later)
    assert step.incident is not None
    assert step.incident.diagnosis == told.diagnosis
    assert EventKind.CAUSE_FOUND not in kinds(step)


HOT = {"throttle_thermal_share": 0.05}
READS_AND_POLLS = HostUsage(cpu_cores=1.0, io_pressure=0.5)


@pytest.mark.parametrize(
    ("item", "poorer", "causes"),
    [
        (
            evidence([0.9, 0.3], gpu_fields=NO_GAPS | HOT),
            evidence([0.9, 0.3], gpu_fields=NO_GAPS),
            (Cause.THROTTLING, Cause.COMMUNICATION),
        ),
        (
            evidence([0.29, 0.17], gpu_fields=gaps(0.15)),
            evidence([0.29, 0.17]),
            (Cause.COMMUNICATION, Cause.SMALL_WORK, Cause.DATA_LOADING),
        ),
        (
            evidence([0.0], gpu_fields=NO_GAPS | {"processes": 1.0}, host=READS_AND_POLLS),
            evidence([0.0], gpu_fields=NO_GAPS | {"processes": 1.0}, host=HostUsage(cpu_cores=1.0)),
            (Cause.CPU_ONLY, Cause.DATA_LOADING, Cause.HANG),
        ),
    ],
)
def test_what_is_not_measured_any_more_settles_no_hesitation(
    item: JobEvidence, poorer: JobEvidence, causes: tuple[Cause, ...]
) -> None:
    told = opened(item)
    assert told.diagnosis.causes == causes
    found = step(told, poorer, LATER + MINUTE)
    assert found.incident is not None
    assert found.incident.diagnosis == told.diagnosis
    assert EventKind.CAUSE_FOUND not in kinds(found)
    # It alone would have found fewer.
    assert set(opened(poorer).diagnosis.causes) < set(causes)


def test_what_polls_is_not_only_code_for_cpus_once_its_past_is_out_of_sight() -> None:
    polling = HostUsage(cpu_cores=1.0, io_pressure=0.0)
    told = at_its_own_time(None, Life([(40, [WORKS]), (31, [NOTHING])], 1, polling).evidence()).incident
    assert told is not None
    later = at_its_own_time(told, Life([(40, [WORKS]), (125, [NOTHING])], 1, polling).evidence()).incident
    assert later is not None
    assert told.diagnosis.causes == later.diagnosis.causes == (Cause.CPU_ONLY, Cause.HANG)


def test_a_hesitation_narrows_to_what_it_named_and_to_what_excludes_all_of_that() -> None:
    incident = opened(STALLED)
    three = incident.diagnosis.causes
    assert three == (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK)
    reads = replace(STALLED, window=_with_host(STALLED, HostUsage(io_pressure=0.5)))

    def told(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
        found = step(replace(incident, diagnosis=replace(incident.diagnosis, causes=causes)), reads).incident
        assert found is not None
        return found.diagnosis.causes

    assert told((Cause.DATA_LOADING, Cause.SMALL_WORK)) == (Cause.DATA_LOADING,)
    assert told((Cause.THROTTLING, Cause.COMMUNICATION)) == (Cause.DATA_LOADING,)
    # A verdict of degree stays as it was told first.
    assert told((Cause.COMMUNICATION,)) == (Cause.COMMUNICATION,)


def test_what_was_told_of_gpus_that_still_do_nothing_does_not_follow_cores_around_a_bound() -> None:
    def notebook(cores: float) -> JobEvidence:
        return Life([(120, [NOTHING])], 1, HostUsage(cpu_cores=cores)).evidence(kind=JobKind.INTERACTIVE)

    told = at_its_own_time(None, notebook(0.4)).incident
    assert told is not None
    assert told.diagnosis.causes == (Cause.IDLE_NOTEBOOK,)
    assert at_its_own_time(told, notebook(0.6)) == Step(told)


def test_fewer_causes_of_which_some_are_new_are_no_narrowing() -> None:
    incident = opened(evidence([0.08], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.11}))
    assert incident.diagnosis.causes == (Cause.SMALL_WORK, Cause.OVER_REQUEST, Cause.CHECKPOINT)
    blind = step(incident, evidence([0.08])).incident  # the lengths of its gaps are no longer measured
    assert blind is not None
    assert blind.diagnosis == incident.diagnosis


def _with_host(item: JobEvidence, host: HostUsage) -> object:
    return lambda length: replace(item.window(length), host=host)


def test_a_snoozed_incident_is_open_again_when_the_time_is_over() -> None:
    snoozed = snooze(opened(), until=LATER + 60 * MINUTE, actor="bob", now=LATER).incident
    quiet = step(snoozed, IDLE, LATER + 59 * MINUTE)
    assert quiet.incident is not None
    assert (quiet.incident.state, quiet.events) == (State.SNOOZED, ())
    awake = step(snoozed, IDLE, LATER + 60 * MINUTE)
    assert awake.incident is not None
    assert (awake.incident.state, kinds(awake)) == (State.OPEN, [EventKind.SNOOZE_EXPIRED])


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
