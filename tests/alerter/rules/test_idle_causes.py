"""Why a job does nothing: a batch job that stands still is no notebook, and what is not known is no evidence."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.diagnosis import diagnose
from tests.alerter.cases import SETTINGS
from tests.alerter.rules.timeline import EMPTY, NOTHING, UNKNOWN, WORKS, Does, Life

NO_PROCESS, NOTEBOOK, CPU_ONLY = Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY
HOST_WORK = Cause.HOST_WORK
HANG, LOADING = Cause.HANG, Cause.DATA_LOADING
HELD = 10.0 * 2**30
QUIET, RESTING = HostUsage(cpu_cores=0.02, io_pressure=0.0), Does(0.3, gap_30to600=0.25)


def diagnosis(item: JobEvidence, rule: str = "idle") -> Diagnosis:
    judgement = judge(item, SETTINGS)
    assert judgement.verdict(rule).outcome is Outcome.FIRING
    return diagnose(judgement, rule, SETTINGS)


def life(before: Does, after: Does = NOTHING, *, worked: float = 40, host: HostUsage = QUIET, gpus: int = 1) -> Life:
    """Minutes of something, and then half an hour and more of nothing."""
    return Life([(worked, [before]), (45, [after])], gpus, host)


BATCH = [
    # A cell of a notebook that has ended, or a program that is done and does not exit, looks the same.
    ("worked, and stopped at once", life(WORKS), [HANG, NOTEBOOK]),
    ("so did every rank", life(WORKS, gpus=4), [HANG, NOTEBOOK]),
    ("one GPU of it never worked", Life([(40, [WORKS, NOTHING]), (45, [NOTHING])], 2, QUIET), [HANG, NOTEBOOK]),
    ("one rank is gone", Life([(40, [WORKS]), (45, [NOTHING, EMPTY])], 2, QUIET), [HANG, NOTEBOOK]),
    # Two hours are all that is looked at: what it did before nobody knows.
    ("worked for hours", life(WORKS, worked=100, gpus=4), [HANG, NOTEBOOK]),
    # However short it was, and however long ago: it is as much as would have kept a window of the rule from being idle.
    ("worked for a moment", Life([(12, [NOTHING]), (0.5, [WORKS]), (95, [NOTHING])], 1, QUIET), [HANG, NOTEBOOK]),
    ("one of eight did", Life([(12, [WORKS, *[NOTHING] * 7]), (95, [NOTHING])], 8, QUIET), [HANG, NOTEBOOK]),
    ("never worked", life(NOTHING), [NOTEBOOK]),
    ("no rank ever worked", life(NOTHING, gpus=2), [HANG, NOTEBOOK]),
    # 0.5 % of its window is nothing before it as well as in it: 9 s.
    ("hardly anything", life(Does(0.006, gap_ge600=0.994), worked=25), [NOTEBOOK]),
    ("for longer", life(Does(0.006, gap_ge600=0.994), worked=40), [HANG, NOTEBOOK]),
    ("polls for another rank", life(WORKS, host=HostUsage(cpu_cores=1.2)), [HOST_WORK, HANG]),
    ("computes on several cores", life(WORKS, host=HostUsage(cpu_cores=1.21)), [HOST_WORK]),
    ("polls, a core for each rank", life(WORKS, host=HostUsage(cpu_cores=4.8), gpus=4), [HOST_WORK, HANG]),
    # A server that polls for requests looks the same.
    ("has always computed on the CPU", life(NOTHING, host=HostUsage(cpu_cores=1.0)), [HOST_WORK, NOTEBOOK]),
    # Eight of which each does next to nothing, or one of eight that computes.
    ("half a core for eight", life(WORKS, host=HostUsage(cpu_cores=0.5), gpus=8), [HANG, NOTEBOOK, HOST_WORK]),
    ("just under half for each", life(WORKS, host=HostUsage(cpu_cores=3.9), gpus=8), [HANG, NOTEBOOK, HOST_WORK]),
    ("half a core for each", life(WORKS, host=HostUsage(cpu_cores=4.0), gpus=8), [HOST_WORK, HANG]),
    ("waits for storage", life(WORKS, host=HostUsage(cpu_cores=0.1, io_pressure=0.2)), [LOADING, HANG]),
    ("hardly waits for storage", life(WORKS, host=HostUsage(cpu_cores=0.1, io_pressure=0.19)), [HANG, NOTEBOOK]),
    ("loads, and computes on it", life(NOTHING, host=HostUsage(cpu_cores=2.0, io_pressure=0.2)), [HOST_WORK, LOADING]),
    (
        "worked, and now reads and polls",
        life(WORKS, host=HostUsage(cpu_cores=1.0, io_pressure=0.2)),
        [HOST_WORK, LOADING, HANG],
    ),
    ("reads, CPU use not measured", life(WORKS, host=HostUsage(io_pressure=0.2)), [LOADING, HANG, HOST_WORK]),
    ("CPU use not measured", life(WORKS, host=HostUsage()), [HANG, NOTEBOOK, HOST_WORK]),
    ("never worked, CPU use not measured", life(NOTHING, host=HostUsage()), [NOTEBOOK, HOST_WORK]),
    ("its processes have ended", life(WORKS, EMPTY), [NO_PROCESS]),
    # They stood still for a while, and ended then.
    ("lately", Life([(10, [WORKS]), (6, [NOTHING]), (24, [EMPTY])], 4, QUIET), [NO_PROCESS]),
    ("processes not known", life(WORKS, UNKNOWN), [NO_PROCESS, HANG, NOTEBOOK]),
    ("nor CPU use", life(WORKS, UNKNOWN, host=HostUsage()), [NO_PROCESS, HANG, NOTEBOOK, CPU_ONLY]),
    (
        "processes not known, which use CPUs",
        life(WORKS, UNKNOWN, host=HostUsage(cpu_cores=9.0)),
        [NO_PROCESS, HANG, NOTEBOOK, CPU_ONLY],
    ),
    # Memory in use, or a process on one GPU, proves what holds them, whatever is not known of the others.
    ("no process is listed, memory is held", life(WORKS, replace(EMPTY, memory=HELD)), [HANG, NOTEBOOK]),
    ("nor are processes known", life(WORKS, replace(UNKNOWN, memory=HELD)), [HANG, NOTEBOOK]),
    ("hardly any memory is", life(WORKS, replace(UNKNOWN, memory=HELD / 100)), [NO_PROCESS, HANG, NOTEBOOK]),
    ("one of two is held", Life([(40, [WORKS]), (45, [NOTHING, UNKNOWN])], 2, QUIET), [HANG, NOTEBOOK]),
    ("one of two is free", Life([(40, [WORKS]), (45, [EMPTY, UNKNOWN])], 2, QUIET), [NO_PROCESS, HANG, NOTEBOOK]),
    (
        "one of two is held, and CPUs compute",
        Life([(40, [WORKS]), (45, [NOTHING, UNKNOWN])], 2, HostUsage(cpu_cores=12.0)),
        [HANG, NOTEBOOK, HOST_WORK],
    ),
    ("never worked, processes not known", life(UNKNOWN, UNKNOWN), [NO_PROCESS, NOTEBOOK]),
    ("the same of several GPUs", life(UNKNOWN, UNKNOWN, gpus=2), [NO_PROCESS, HANG, NOTEBOOK]),
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
        # One core of one process: it computes, or polls.
        (HostUsage(cpu_cores=1.0), [HOST_WORK, NOTEBOOK]),
        (HostUsage(cpu_cores=1.2), [HOST_WORK, NOTEBOOK]),
        (HostUsage(cpu_cores=1.21), [HOST_WORK]),
        (HostUsage(), [NOTEBOOK, HOST_WORK]),
    ],
)
def test_who_waits_for_a_person_or_a_request_does_not_hang(
    kind: JobKind, before: Does, host: HostUsage, causes: list[Cause]
) -> None:
    day = 26 * 60
    item = Life([(80, [before]), (day, [NOTHING])], 1, host).evidence(kind=kind)
    assert list(diagnosis(item).causes) == causes


@pytest.mark.parametrize(
    ("after", "host", "gpus", "causes"),
    [
        (NOTHING, HostUsage(cpu_cores=0.5), 2, [NOTEBOOK, HOST_WORK]),
        (NOTHING, HostUsage(cpu_cores=1.0), 2, [HOST_WORK, NOTEBOOK]),
        (NOTHING, HostUsage(cpu_cores=2.5), 2, [HOST_WORK]),
        (UNKNOWN, QUIET, 1, [NO_PROCESS, NOTEBOOK]),
        (UNKNOWN, HostUsage(cpu_cores=1.0), 1, [NO_PROCESS, NOTEBOOK, CPU_ONLY]),
        (UNKNOWN, HostUsage(), 1, [NO_PROCESS, NOTEBOOK, CPU_ONLY]),
    ],
)
def test_a_notebook_by_each_of_its_processes(after: Does, host: HostUsage, gpus: int, causes: list[Cause]) -> None:
    item = Life([(80, [WORKS]), (45, [after])], gpus, host).evidence(kind=JobKind.INTERACTIVE)
    assert list(diagnosis(item).causes) == causes


@pytest.mark.parametrize("cores", [0.5, 1.2])
def test_what_polls_may_hang_where_nobody_knows_what_was_before(cores: float) -> None:
    item = life(WORKS, host=HostUsage(cpu_cores=cores)).evidence(longest=1800.0)
    assert list(diagnosis(item).causes) == [HOST_WORK, HANG, NOTEBOOK]


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


def test_it_says_that_it_had_worked_for_how_long_and_who_is_gone() -> None:
    item = Life([(40, [WORKS]), (45, [NOTHING, EMPTY])], 2, QUIET).evidence()
    found = diagnosis(item)
    assert "mean utilization 58 % over the 55 min before that" in found.evidence
    assert "no process holds node0:1: a rank that ended there would keep the others waiting" in found.evidence
    assert any("py-spy dump" in command for command in found.commands)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ([NOTHING, NOTHING], "2 processes hold the GPUs"),
        ([replace(NOTHING, memory=HELD)] * 2, "2 processes hold the GPUs and 20.0 GiB of GPU memory"),
        ([NOTHING, UNKNOWN], "1 process holds 1 of 2 GPUs"),
        (
            [replace(EMPTY, memory=HELD), UNKNOWN],
            "10.0 GiB of GPU memory is in use on 1 of 2 GPUs, by processes that are not listed",
        ),
    ],
)
def test_it_says_what_is_known_to_hold_the_gpus(after: list[Does], said: str) -> None:
    assert said in diagnosis(Life([(40, [WORKS]), (45, after)], 2, QUIET).evidence()).evidence


@pytest.mark.parametrize(("time_scale", "span"), [(1.0, "55 min"), (60.0, "2 d 7 h")])
def test_what_was_before_is_told_in_time_as_people_count_it(time_scale: float, span: str) -> None:
    judgement = judge(life(WORKS).evidence(), SETTINGS)
    found = diagnose(judgement, "idle", SETTINGS, time_scale=time_scale)
    assert f"mean utilization 58 % over the {span} before that" in found.evidence


def test_gpus_without_a_process_that_never_worked_are_no_rank_that_ended() -> None:
    item = Life([(40, [NOTHING, EMPTY]), (45, [NOTHING, EMPTY])], 2, QUIET).evidence()
    assert not any("no process holds" in line for line in diagnosis(item).evidence)


@pytest.mark.parametrize(
    ("before", "known", "causes"),
    [
        ([WORKS, WORKS], {}, [Cause.OVER_REQUEST, HANG]),
        ([WORKS, EMPTY], {}, [Cause.OVER_REQUEST]),
        ([WORKS, Does(0.002, gap_ge600=0.9)], {}, [Cause.OVER_REQUEST]),
        ([WORKS, Does(0.01, gap_ge600=0.9)], {}, [Cause.OVER_REQUEST, HANG]),
        # Who tries things uses now one GPU and now two.
        ([WORKS, WORKS], {"kind": JobKind.INTERACTIVE}, [Cause.OVER_REQUEST]),
        # What nobody saw may have been work.
        ([WORKS, EMPTY], {"watched": 100.0}, [Cause.OVER_REQUEST]),
        ([WORKS, EMPTY], {"watched": 99.0}, [Cause.OVER_REQUEST, HANG]),
        ([WORKS, EMPTY], {"longest": 1800.0}, [Cause.OVER_REQUEST, HANG]),
        ([WORKS, EMPTY], {"start_told": False}, [Cause.OVER_REQUEST, HANG]),
    ],
)
def test_an_idle_gpu_without_a_process_was_asked_for_too_much_or_lost_its_rank(
    before: list[Does], known: dict[str, object], causes: list[Cause]
) -> None:
    item = Life([(70, before), (40, [WORKS, EMPTY])], 2, QUIET).evidence(**known)  # type: ignore[arg-type]
    assert list(diagnosis(item, "partially_idle").causes) == causes


def test_a_process_that_held_an_idle_gpu_and_has_ended_holds_it_no_more() -> None:
    """As of a job of which no GPU works: the most that held it within half an hour may be gone."""
    held, gone = [WORKS, NOTHING], [WORKS, EMPTY]
    for minutes, causes in ((20.0, (Cause.OVER_REQUEST, HANG)), (10.0, (Cause.OVER_REQUEST, Cause.COMMUNICATION))):
        found = diagnosis(Life([(70, [WORKS]), (40, held), (minutes, gone)], 2, QUIET).evidence(), "partially_idle")
        assert found.causes == causes
        assert ("no process has held the idle ones for 15 min or longer" in found.evidence) == (minutes > 15)


@pytest.mark.parametrize(
    ("before", "known", "said"),
    [
        (
            [WORKS, WORKS],
            {},
            (
                "the idle ones were at 70 % over the 1 h 20 min before that: "
                "what ran there has ended, and others may wait for it"
            ),
        ),
        ([WORKS, EMPTY], {"longest": 1800.0}, "it is not known whether they had worked before"),
    ],
)
def test_it_says_what_is_known_of_the_idle_gpus_before(before: list[Does], known: dict[str, float], said: str) -> None:
    item = Life([(70, before), (40, [WORKS, EMPTY])], 2, QUIET).evidence(**known)  # type: ignore[arg-type]
    found = diagnosis(item, "partially_idle").evidence
    assert said in found
    # The others work.
    assert not any("every hour" in line for line in found)


# Evidence that is lost, in whatever combination, leaves every cause that was possible with it.

_DOES = st.sampled_from([WORKS, RESTING, NOTHING, EMPTY, Does(0.0, gap_ge600=1.0, processes=3.0)])
_IDLE = st.sampled_from([NOTHING, EMPTY, Does(0.0, gap_ge600=1.0, processes=3.0)])


@given(
    before=st.lists(_DOES, min_size=2, max_size=2),
    after=st.lists(_IDLE, min_size=2, max_size=2),
    gpus=st.sampled_from([1, 2]),
    worked=st.sampled_from([9.0, 40.0, 100.0]),
    cores=st.sampled_from([0.02, 0.5, 0.9, 1.0, 2.0, 2.4, 9.0]),
    kind=st.sampled_from([JobKind.BATCH, JobKind.BATCH, JobKind.INTERACTIVE]),
    lost=st.sets(st.sampled_from(["processes", "cores", "gaps", "past", "watching", "beginning"]), min_size=1),
)
def test_evidence_that_is_lost_excludes_no_cause(
    before: list[Does], after: list[Does], gpus: int, worked: float, cores: float, kind: JobKind, lost: set[str]
) -> None:
    worked += 60 * (kind is JobKind.INTERACTIVE)
    item = Life([(worked, before), (45, after)], gpus, HostUsage(cpu_cores=cores, io_pressure=0.0)).evidence(kind=kind)
    unknown = {"gap_30to600": None, "gap_ge600": None} if "gaps" in lost else {}
    unknown |= {"processes": None} if "processes" in lost else {}

    def less(length: float):  # type: ignore[no-untyped-def]
        found = item.window(length)
        host = replace(found.host, cpu_cores=None) if "cores" in lost else found.host
        return replace(found, gpus=tuple(replace(usage, **unknown) for usage in found.gpus), host=host)  # type: ignore[arg-type]

    poorer = replace(item, window=less)
    if "past" in lost:
        poorer = replace(poorer, longest=1800.0)
    if "watching" in lost:
        poorer = replace(poorer, watched_from=item.at - 1800)
    if "beginning" in lost:
        poorer = replace(poorer, job=replace(item.job, start_told=False))
    if kind is JobKind.INTERACTIVE and "watching" in lost:
        poorer = replace(poorer, watched_from=item.watched_from)
    found, less_is_known = set(diagnosis(item).causes), set(diagnosis(poorer).causes)
    if CPU_ONLY in less_is_known:
        # Which of both computes on CPUs depends on whether a process holds the GPUs.
        found.discard(HOST_WORK)
    assert found <= less_is_known
