"""Why a job does nothing: a batch job that stands still is no notebook, and what is not known is no evidence."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.diagnosis import diagnose
from tests.alerter.cases import SETTINGS
from tests.alerter.rules.timeline import EMPTY, NOTHING, UNKNOWN, WORKS, Does, Life

NO_PROCESS, NOTEBOOK, CPU_ONLY = Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY
HANG, LOADING = Cause.HANG, Cause.DATA_LOADING
QUIET, RESTING = HostUsage(cpu_cores=0.02), Does(0.3, gap_30to600=0.25)


def diagnosis(item: JobEvidence, rule: str = "idle") -> Diagnosis:
    judgement = judge(item, SETTINGS)
    assert judgement.verdict(rule).outcome is Outcome.FIRING
    return diagnose(judgement, rule, SETTINGS)


def life(before: Does, after: Does = NOTHING, *, worked: float = 40, host: HostUsage = QUIET, gpus: int = 1) -> Life:
    """Minutes of something, and then half an hour and more of nothing."""
    return Life([(worked, [before]), (45, [after])], gpus, host)


BATCH = [
    ("worked, and stopped at once", life(WORKS), [HANG]),
    ("so did every rank", life(WORKS, gpus=4), [HANG]),
    # Somebody may sit at it: pauses of minutes between pieces of work.
    ("worked with pauses", life(RESTING), [HANG, NOTEBOOK]),
    ("just under", life(Does(0.3, gap_30to600=0.199)), [HANG]),
    ("pauses that nobody measured", life(Does(0.8, gap_30to600=None)), [HANG, NOTEBOOK]),
    # Too little was seen of its work to tell whom it waited for.
    ("worked for a moment", life(WORKS, worked=9), [HANG, NOTEBOOK]),
    ("never worked", life(NOTHING), [NOTEBOOK]),
    ("no rank ever worked", life(NOTHING, gpus=2), [HANG, NOTEBOOK]),
    # 0.5 % is nothing before a window as well as in it.
    ("hardly anything", life(Does(0.005, gap_ge600=0.995)), [NOTEBOOK]),
    ("polls for another rank", life(WORKS, host=HostUsage(cpu_cores=1.2)), [CPU_ONLY, HANG]),
    ("computes on several cores", life(WORKS, host=HostUsage(cpu_cores=1.21)), [CPU_ONLY]),
    ("polls, a core for each rank", life(WORKS, host=HostUsage(cpu_cores=4.8), gpus=4), [CPU_ONLY, HANG]),
    ("has always computed on the CPU", life(NOTHING, host=HostUsage(cpu_cores=1.0)), [CPU_ONLY]),
    ("waits for storage", life(WORKS, host=HostUsage(cpu_cores=0.1, io_pressure=0.2)), [LOADING, HANG]),
    ("hardly waits for storage", life(WORKS, host=HostUsage(cpu_cores=0.1, io_pressure=0.19)), [HANG]),
    ("loads, and computes on it", life(NOTHING, host=HostUsage(cpu_cores=2.0, io_pressure=0.2)), [CPU_ONLY, LOADING]),
    (
        "worked, and now reads and polls",
        life(WORKS, host=HostUsage(cpu_cores=1.0, io_pressure=0.2)),
        [CPU_ONLY, LOADING, HANG],
    ),
    ("CPU use not measured", life(WORKS, host=HostUsage()), [HANG, NOTEBOOK, CPU_ONLY]),
    ("never worked, CPU use not measured", life(NOTHING, host=HostUsage()), [NOTEBOOK, CPU_ONLY]),
    ("its processes have ended", life(WORKS, EMPTY), [NO_PROCESS]),
    ("processes not known", life(WORKS, UNKNOWN), [NO_PROCESS, HANG, CPU_ONLY]),
    ("never worked, processes not known", life(UNKNOWN, UNKNOWN), [NO_PROCESS, NOTEBOOK, CPU_ONLY]),
]


@pytest.mark.parametrize(("item", "causes"), [case[1:] for case in BATCH], ids=[case[0] for case in BATCH])
def test_a_batch_job(item: Life, causes: list[Cause]) -> None:
    assert list(diagnosis(item.evidence()).causes) == causes


@pytest.mark.parametrize("kind", [JobKind.INTERACTIVE, JobKind.SERVING])
@pytest.mark.parametrize("before", [WORKS, RESTING, NOTHING])
@pytest.mark.parametrize(
    ("host", "causes"),
    [
        (QUIET, [NOTEBOOK]),
        (HostUsage(cpu_cores=0.02, io_pressure=0.9), [NOTEBOOK]),
        (HostUsage(cpu_cores=1.0), [CPU_ONLY]),
        (HostUsage(), [NOTEBOOK, CPU_ONLY]),
    ],
)
def test_who_waits_for_a_person_or_a_request_does_not_hang(
    kind: JobKind, before: Does, host: HostUsage, causes: list[Cause]
) -> None:
    day = 26 * 60
    item = Life([(80, [before]), (day, [NOTHING])], 1, host).evidence(kind=kind)
    assert list(diagnosis(item).causes) == causes


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({}, [NOTEBOOK]),
        # What was before it was watched may have been work, but for what a start takes.
        ({"watched": 75}, [NOTEBOOK]),
        ({"watched": 74}, [HANG, NOTEBOOK]),
        # It began before anybody saw it.
        ({"start_told": False}, [HANG, NOTEBOOK]),
        # Nothing but the window itself can be asked for.
        ({"longest": 1800.0}, [HANG, NOTEBOOK]),
    ],
)
def test_that_a_job_never_worked_is_known_only_where_all_of_its_life_is(
    change: dict[str, float], causes: list[Cause]
) -> None:
    assert list(diagnosis(life(NOTHING).evidence(**change)).causes) == causes  # type: ignore[arg-type]


def test_a_life_that_was_hardly_measured_is_not_known() -> None:
    item = life(NOTHING).evidence()

    def holes(length: float):  # type: ignore[no-untyped-def]
        found = item.window(length)
        (usage,) = found.gpus
        return replace(found, gpus=(replace(usage, observed=min(usage.observed, 2400.0)),))

    assert list(diagnosis(replace(item, window=holes)).causes) == [HANG, NOTEBOOK]


@pytest.mark.parametrize("idle", [120, 180])
def test_an_old_job_that_idles_for_hours_may_have_worked_before(idle: float) -> None:
    """Two hours are all that is looked at: a job that began earlier may have worked then."""
    item = Life([(20, [WORKS]), (idle, [NOTHING])], 1, QUIET).evidence()
    assert list(diagnosis(item).causes) == [HANG, NOTEBOOK]


def test_a_window_that_is_not_answered_says_nothing_of_what_was_before() -> None:
    item = life(WORKS).evidence()

    def failed(length: float):  # type: ignore[no-untyped-def]
        found = item.window(length)
        if length < 7200:
            return found
        return replace(found, gpus=tuple(replace(usage, observed=0.0, busy=0.0) for usage in found.gpus))

    assert list(diagnosis(replace(item, window=failed)).causes) == [HANG, NOTEBOOK]


def test_it_says_that_it_had_worked_and_who_is_gone() -> None:
    item = Life([(40, [WORKS]), (45, [NOTHING, EMPTY])], 2, QUIET).evidence()
    found = diagnosis(item)
    assert list(found.causes) == [HANG]
    assert "before that its GPUs worked, for 58 % of the time" in found.evidence
    assert "no process holds node0:1: a rank that ended there would keep the others waiting" in found.evidence
    assert any("py-spy dump" in command for command in found.commands)


def test_gpus_without_a_process_that_never_worked_are_no_rank_that_ended() -> None:
    item = Life([(40, [NOTHING, EMPTY]), (45, [NOTHING, EMPTY])], 2, QUIET).evidence()
    assert not any("no process holds" in line for line in diagnosis(item).evidence)


# A job that is underused because it stopped says the same as `idle` will.


@pytest.mark.parametrize(
    ("after", "host", "causes"),
    [
        (EMPTY, QUIET, [NO_PROCESS]),
        (NOTHING, QUIET, [HANG]),
        (NOTHING, HostUsage(cpu_cores=3.0), [CPU_ONLY]),
        # It still does a little: no stand.
        (Does(0.006, gap_ge600=0.99), QUIET, [Cause.OVER_REQUEST, Cause.CHECKPOINT]),
    ],
)
def test_underused_because_it_stopped(after: Does, host: HostUsage, causes: list[Cause]) -> None:
    item = Life([(60, [Does(0.4)]), (20, [after])], 1, host).evidence()
    found = diagnosis(item, "underused")
    assert list(found.causes) == causes
    stands = "its GPU at 0 % utilization over the last 50 % of that time"
    assert (stands in found.evidence) == (after.busy == 0)


def test_a_job_that_was_underused_before_it_stopped_is_both() -> None:
    item = Life([(60, [Does(0.1)]), (16, [EMPTY])], 1, QUIET).evidence()
    assert list(diagnosis(item, "underused").causes) == [Cause.SMALL_WORK, NO_PROCESS]


@pytest.mark.parametrize(
    ("before", "kind", "causes"),
    [
        ([WORKS, WORKS], JobKind.BATCH, [Cause.OVER_REQUEST, HANG]),
        ([WORKS, EMPTY], JobKind.BATCH, [Cause.OVER_REQUEST]),
        ([WORKS, Does(0.005, gap_ge600=0.9)], JobKind.BATCH, [Cause.OVER_REQUEST]),
        # Who tries things uses now one GPU and now two.
        ([WORKS, WORKS], JobKind.INTERACTIVE, [Cause.OVER_REQUEST]),
    ],
)
def test_an_idle_gpu_without_a_process_was_asked_for_too_much_or_lost_its_rank(
    before: list[Does], kind: JobKind, causes: list[Cause]
) -> None:
    item = Life([(70, before), (40, [WORKS, EMPTY])], 2, QUIET).evidence(kind=kind)
    assert list(diagnosis(item, "partially_idle").causes) == causes
