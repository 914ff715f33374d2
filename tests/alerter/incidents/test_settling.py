"""How the causes of an open incident settle: by what is known, and not by what is lost."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Cause, EventKind, Incident, Step
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind, WindowEvidence
from dutycycle_alerter.rules import judge
from tests.alerter.cases import LATER, SETTINGS, evidence
from tests.alerter.incidents.folding import MINUTE, STALLED, UNDERUSED, kinds, opened, step
from tests.alerter.rules.test_rules import NO_GAPS, gaps
from tests.alerter.rules.timeline import EMPTY, NOTHING, WORKS, Does, Life
from tests.alerter.rules.timeline import UNKNOWN as UNKNOWN_PROCESSES

QUIET = HostUsage(cpu_cores=0.02, io_pressure=0.0)


def at_its_own_time(incident: Incident | None, item: JobEvidence) -> Step:
    return advance(incident, judge(item, SETTINGS), SETTINGS)


def _with_host(item: JobEvidence, host: HostUsage) -> JobEvidence:
    def window(length: float) -> WindowEvidence:
        return replace(item.window(length), host=host)

    return replace(item, window=window)


def test_a_hesitation_ends_in_a_verdict_and_does_not_come_back() -> None:
    incident = opened(STALLED)
    assert len(incident.diagnosis.causes) == 3
    found = step(incident, _with_host(STALLED, HostUsage(io_pressure=0.5)), LATER + MINUTE)
    assert found.incident is not None
    assert (found.incident.diagnosis.causes, kinds(found)) == ((Cause.DATA_LOADING,), [EventKind.CAUSE_FOUND])
    assert step(found.incident, STALLED, LATER + 2 * MINUTE) == Step(
        replace(found.incident, known_at=LATER + 120, updated_at=LATER + 120)
    )


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


@pytest.mark.parametrize("every", [5, 10, 20, 29])
@pytest.mark.parametrize("kind", [JobKind.BATCH, JobKind.INTERACTIVE])
def test_what_is_started_again_and_again_is_told_once(kind: JobKind, every: int) -> None:
    """A loop that starts a program which ends at once: it holds the GPUs for a minute at a time."""
    pieces: list[tuple[float, list[Does]]] = [(100, [EMPTY])]
    told: Incident | None = None
    found = 0
    for minute in range(6 * 60):
        pieces.append((1, [NOTHING if minute % every == every - 1 else EMPTY]))
        result = at_its_own_time(told, Life(pieces, 1, QUIET).evidence(kind=kind))
        told, found = result.incident, found + kinds(result).count(EventKind.CAUSE_FOUND)
    assert told is not None
    assert Cause.NO_PROCESS not in told.diagnosis.causes
    assert found == 1


@pytest.mark.parametrize(("minutes", "causes"), [(29, (Cause.HANG, Cause.IDLE_NOTEBOOK)), (30, (Cause.NO_PROCESS,))])
def test_the_last_process_has_gone_once_it_stays_away(minutes: float, causes: tuple[Cause, ...]) -> None:
    told = at_its_own_time(None, Life([(40, [WORKS]), (31, [NOTHING])], 1, QUIET).evidence()).incident
    assert told is not None
    assert told.diagnosis.causes == (Cause.HANG, Cause.IDLE_NOTEBOOK)
    after = Life([(40, [WORKS]), (31, [NOTHING]), (minutes, [EMPTY])], 1, QUIET).evidence()
    later = at_its_own_time(told, after).incident
    assert later is not None
    assert later.diagnosis.causes == causes


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
HELD, WORKED = NO_GAPS | {"processes": 1.0}, {7200.0: [0.2]}
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
            evidence([0.0], by_window=WORKED, gpu_fields=HELD, host=READS_AND_POLLS),
            evidence([0.0], by_window=WORKED, gpu_fields=HELD, host=HostUsage(cpu_cores=1.0)),
            (Cause.HOST_WORK, Cause.DATA_LOADING, Cause.HANG),
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
    assert told.diagnosis.causes == later.diagnosis.causes == (Cause.HOST_WORK, Cause.HANG)


def test_a_hesitation_narrows_to_what_it_named_and_to_what_excludes_all_of_that() -> None:
    incident = opened(STALLED)
    three = incident.diagnosis.causes
    assert three == (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK)
    reads = _with_host(STALLED, HostUsage(io_pressure=0.5))

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
    changed = evidence([0.08], gpu_fields=gaps(0.15))
    assert opened(changed).diagnosis.causes == (Cause.SMALL_WORK, Cause.DATA_LOADING)
    found = step(incident, changed).incident
    assert found is not None
    assert found.diagnosis == incident.diagnosis


def test_code_for_cpus_becomes_host_work_once_a_process_is_known_to_hold_the_gpus() -> None:
    def found(after: Does) -> JobEvidence:
        return Life([(40, [WORKS]), (31, [after])], 4, HostUsage(cpu_cores=1.0, io_pressure=0.0)).evidence()

    told = at_its_own_time(None, found(UNKNOWN_PROCESSES)).incident
    assert told is not None
    assert told.diagnosis.causes == (Cause.NO_PROCESS, Cause.HANG, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY)
    later = at_its_own_time(told, found(NOTHING)).incident
    assert later is not None
    assert later.diagnosis.causes == (Cause.HANG, Cause.IDLE_NOTEBOOK, Cause.HOST_WORK)
