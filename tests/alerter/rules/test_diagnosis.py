"""Which signal picks which cause, and where the evidence leaves a hesitation."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.incidents.reasons import REASONS, Reason, reasons
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind, WindowEvidence
from dutycycle_alerter.rules import Outcome, judge, sentences
from dutycycle_alerter.rules.advice import ADVICE, steps, tell_apart
from dutycycle_alerter.rules.diagnosis import diagnose
from dutycycle_alerter.settings import Judging
from tests.alerter.cases import SETTINGS, evidence
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_rules import NO_GAPS, gaps

GIB = 2.0**30
HELD: dict[str, object] = {"processes": 1.0, "memory_used": 20 * GIB, "memory_total": 141 * GIB}
PHASES = [Cause.CHECKPOINT, Cause.SMALL_WORK]
SPINS = at_power(75)
QUIET = counters(sm=0.1, tensor=0.0, dram=0.0, link=0.0)
HOT: dict[str, object] = {"throttle_thermal_share": 0.05}


def diagnosis(rule: str, item: JobEvidence, time_scale: float = 1.0) -> Diagnosis:
    judgement = judge(item, SETTINGS)
    assert judgement.verdict(rule).outcome is Outcome.FIRING
    return diagnose(judgement, rule, SETTINGS, time_scale=time_scale)


def gaps_but(unknown: str) -> dict[str, object]:
    return {name: share for name, share in NO_GAPS.items() if name != unknown}


def notebook(fields: dict[str, object], host: HostUsage) -> JobEvidence:
    """One that nobody uses."""
    return evidence([0.0], gpu_fields=fields, host=host, kind=JobKind.INTERACTIVE)


CASES: list[tuple[str, JobEvidence, list[Cause]]] = [
    ("hung", evidence([1.0, 1.0], gpu_fields=SPINS | QUIET), [Cause.HANG]),
    # A collective has peers; a tiny model on one GPU may live in its cache.
    ("hung", evidence([1.0], gpu_fields=SPINS | QUIET), [Cause.HANG, Cause.SMALL_WORK]),
    # A collective that spins keeps some multiprocessors; kernels that only look busy keep hardly any.
    ("hung", evidence([1.0] * 2, gpu_fields=SPINS | QUIET | counters(sm=0.021)), [Cause.HANG]),
    ("hung", evidence([1.0] * 2, gpu_fields=SPINS | QUIET | counters(sm=0.02)), [Cause.HANG, Cause.SMALL_WORK]),
    ("hung", evidence([1.0, 1.0], gpu_fields=SPINS), [Cause.HANG, Cause.COMMUNICATION, Cause.SMALL_WORK]),
    ("hung", evidence([1.0], gpu_fields=SPINS), [Cause.HANG, Cause.SMALL_WORK]),
    # Something still moves: slow peers, or a hang that began within the window.
    ("hung", evidence([1.0, 1.0], gpu_fields=SPINS | counters(link=1e9)), [Cause.COMMUNICATION, Cause.HANG]),
    ("hung", evidence([1.0], gpu_fields=SPINS | counters(tensor=0.1)), [Cause.SMALL_WORK, Cause.HANG]),
    # Clocks that are held down explain the low power, unless the counters say that nothing runs.
    ("hung", evidence([1.0, 1.0], gpu_fields=SPINS | HOT), [Cause.THROTTLING, Cause.HANG]),
    ("hung", evidence([1.0, 1.0], gpu_fields=SPINS | HOT | QUIET), [Cause.HANG]),
    ("idle", evidence([0.0], gpu_fields={"processes": 0.0}), [Cause.NO_PROCESS]),
    # What a batch job did before, and so whether it hangs, is in test_idle_causes.
    ("idle", notebook(HELD, HostUsage(cpu_cores=0.02)), [Cause.IDLE_NOTEBOOK]),
    ("idle", notebook(HELD, HostUsage(cpu_cores=0.49)), [Cause.IDLE_NOTEBOOK]),
    ("idle", notebook(HELD, HostUsage(cpu_cores=0.5)), [Cause.HOST_WORK, Cause.IDLE_NOTEBOOK]),
    ("idle", notebook(HELD, HostUsage(cpu_cores=1.3)), [Cause.HOST_WORK]),
    ("idle", notebook(HELD, HostUsage()), [Cause.IDLE_NOTEBOOK, Cause.HOST_WORK]),
    ("idle", notebook({}, HostUsage()), [Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY]),
    # Whether a rank worked on it, hours ago, is not known; where it is, is in test_idle_causes.
    ("partially_idle", evidence([0.9, 0.0], gpu_fields={"processes": 0.0}), [Cause.OVER_REQUEST, Cause.HANG]),
    ("partially_idle", evidence([0.9, 0.0], gpu_fields=HELD), [Cause.OVER_REQUEST, Cause.COMMUNICATION]),
    ("partially_idle", evidence([0.9, 0.0]), [Cause.OVER_REQUEST, Cause.COMMUNICATION]),
    # Data loading: I/O pressure, or CPU near its limit together with gaps; neither half of the latter alone.
    ("stalled", evidence([0.3], gpu_fields=NO_GAPS, host=HostUsage(io_pressure=0.2)), [Cause.DATA_LOADING]),
    ("stalled", evidence([0.3], gpu_fields=gaps(0.2), host=HostUsage(cpu_of_limit=0.9)), [Cause.DATA_LOADING]),
    (
        "stalled",
        evidence([0.3] * 2, gpu_fields=gaps(0.19), host=HostUsage(cpu_of_limit=0.9)),
        [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
    ),
    (
        "stalled",
        evidence([0.3] * 2, gpu_fields=gaps(0.5), host=HostUsage(cpu_of_limit=0.89)),
        [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
    ),
    # Waiting for a CPU is not waiting for data.
    (
        "stalled",
        evidence([0.3] * 2, gpu_fields=NO_GAPS, host=HostUsage(cpu_pressure=0.9, io_pressure=0.0)),
        [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
    ),
    ("uneven", evidence([0.9, 0.3]), [Cause.COMMUNICATION]),
    ("uneven", evidence([0.9, 0.3], gpu_fields=HOT), [Cause.THROTTLING, Cause.COMMUNICATION]),
    # Memory bandwidth is the limit from 60 % of the busy time on, where tensor cores hardly work.
    ("low_sm_activity", evidence([1.0], gpu_fields=counters(sm=0.2, tensor=0.1, dram=0.6)), [Cause.MEMORY_BOUND]),
    ("low_sm_activity", evidence([1.0], gpu_fields=counters(sm=0.2, tensor=0.1, dram=0.59)), [Cause.SMALL_WORK]),
    ("low_sm_activity", evidence([1.0], gpu_fields=counters(sm=0.2, tensor=0.11, dram=0.6)), [Cause.SMALL_WORK]),
    ("low_sm_activity", evidence([0.5], gpu_fields=counters(sm=0.1, tensor=0.05, dram=0.3)), [Cause.MEMORY_BOUND]),
    ("low_sm_activity", evidence([1.0], gpu_fields=counters(sm=0.2)), [Cause.SMALL_WORK]),
    # Collectives run on few multiprocessors too: links that are quiet rule them out, and so does the floor.
    ("low_sm_activity", evidence([1.0] * 2, gpu_fields=counters(sm=0.2, link=10e6)), [Cause.SMALL_WORK]),
    (
        "low_sm_activity",
        evidence([1.0] * 2, gpu_fields=counters(sm=0.2, link=10.1e6)),
        [Cause.SMALL_WORK, Cause.COMMUNICATION],
    ),
    (
        "low_sm_activity",
        evidence([1.0] * 2, gpu_fields=counters(sm=0.2)),
        [Cause.SMALL_WORK, Cause.COMMUNICATION],
    ),
    ("low_sm_activity", evidence([1.0] * 2, gpu_fields=counters(sm=0.02, link=1e9)), [Cause.SMALL_WORK]),
    ("underused", evidence([0.12], gpu_fields=NO_GAPS), [Cause.SMALL_WORK]),
    ("underused", evidence([0.12], gpu_fields=gaps(0.15)), [Cause.SMALL_WORK, Cause.DATA_LOADING]),
    # 80 % of the time in low samples, hence at most 12 % of work: 40 % in the rest.
    ("underused", evidence([0.201], gpu_fields=NO_GAPS | {"low_share": 0.8}), PHASES),
    ("underused", evidence([0.199], gpu_fields=NO_GAPS | {"low_share": 0.8}), [Cause.SMALL_WORK]),
    # All of it is low, or nearly: too little is left to say anything of it.
    ("underused", evidence([0.08], gpu_fields=NO_GAPS | {"low_share": 1.0}), [Cause.SMALL_WORK]),
    ("underused", evidence([0.142], gpu_fields=NO_GAPS | {"low_share": 0.9}), [Cause.SMALL_WORK]),
    ("underused", evidence([0.1519], gpu_fields=NO_GAPS | {"low_share": 0.999}), [Cause.SMALL_WORK]),
    ("underused", evidence([0.24] * 2, gpu_fields=NO_GAPS | {"low_share": 0.8}), PHASES),
    # Of a shared GPU low samples are what its holders do together; an instance has its own.
    ("underused", evidence([0.24], gpu_fields=NO_GAPS | {"low_share": 0.8, "share": 0.5}), [Cause.SMALL_WORK]),
    (
        "underused",
        evidence([0.24], mig="MIG-1", gpu_fields=NO_GAPS | {"low_share": 0.8, "share": 0.5}),
        PHASES,
    ),
    # Pauses are the cause only where the job would not be underused without them.
    ("underused", evidence([0.2], gpu_fields=NO_GAPS | {"gap_30to600_share": 0.2}), [Cause.CHECKPOINT]),
    (
        "underused",
        evidence([0.2], gpu_fields=NO_GAPS | {"gap_30to600_share": 0.19}),
        [Cause.SMALL_WORK, Cause.CHECKPOINT],
    ),
    (
        "underused",
        evidence([0.08], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.11}),
        [Cause.SMALL_WORK, Cause.OVER_REQUEST, Cause.CHECKPOINT],
    ),
    (
        "underused",
        evidence([0.2], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.6}),
        [Cause.OVER_REQUEST, Cause.CHECKPOINT],
    ),
    ("underused", evidence([0.12]), [Cause.SMALL_WORK, Cause.DATA_LOADING]),
    # Samples of up to 5 %, whole percents, read as idle: all of the time is one gap, and its GPU works in it.
    ("underused", evidence([0.0549], gpu_fields=NO_GAPS | {"gap_ge600_share": 1.0}), [Cause.SMALL_WORK]),
    ("underused", evidence([0.0251], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.98}), [Cause.SMALL_WORK]),
    # The rest of the time has room for all that was worked, or nobody knows how long the gaps are.
    (
        "underused",
        evidence([0.0249], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.98}),
        [Cause.OVER_REQUEST, Cause.CHECKPOINT],
    ),
    # More than what such samples can hold: the gaps began before the window, and are counted whole.
    (
        "underused",
        evidence([0.24], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.8}),
        [Cause.OVER_REQUEST, Cause.CHECKPOINT],
    ),
    ("underused", evidence([0.03], gpu_fields=gaps_but("gap_ge600_share")), [Cause.SMALL_WORK]),
]


@pytest.mark.parametrize(("rule", "item", "causes"), CASES)
def test_cause(rule: str, item: JobEvidence, causes: list[Cause]) -> None:
    found = diagnosis(rule, item)
    assert list(found.causes) == causes
    assert found.evidence
    assert found.advice
    assert bool(found.tell_apart) == (len(causes) > 1)
    # Each cause that it hesitates about has its advice and its sign.
    assert set(steps(causes, gpus=len(item.job.gpus))) <= set(found.advice)
    assert len(found.tell_apart.split("; ")) == max(1, len(causes))


def test_every_cause_can_be_named() -> None:
    named = {cause for _, _, causes in CASES for cause in causes}
    # A fault is the driver's to tell, on a GPU: the rules on GPUs name it.
    assert named == set(Cause) - {Cause.FAULT}


def test_every_cause_has_advice_a_sign_and_a_reason() -> None:
    assert set(ADVICE) == set(REASONS) == set(Cause)
    assert len(Cause) == 13
    assert set(REASONS.values()) == set(Reason)
    assert len(Reason) == 7
    assert all(len(tell_apart((cause, Cause.HANG)).split("; ")) == 2 for cause in Cause)


def test_the_causes_of_a_hesitation_that_are_one_reason_are_named_once() -> None:
    assert reasons((Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY)) == (
        "GPUs held and not used, CPU or data-loading bottleneck"
    )


def mixed(rule_item: JobEvidence, per_gpu: list[dict[str, object]]) -> JobEvidence:
    """The same evidence with fields of their own for each GPU, given as shares of the window."""

    def window(length: float) -> WindowEvidence:
        found = rule_item.window(length)
        usages = [
            replace(usage, **{name.removesuffix("_share"): value * length for name, value in fields.items()})  # type: ignore[arg-type, operator]
            for usage, fields in zip(found.gpus, per_gpu, strict=True)
        ]
        return replace(found, gpus=tuple(usages))

    return replace(rule_item, window=window)


@pytest.mark.parametrize(
    ("utilizations", "low"),
    [
        ([0.1, 0.1, 0.1, 0.6], (1.0, 1.0, 1.0, 0.0)),  # one works while the others do little
        ([0.24, 0.1], (0.8, 1.0)),  # one has phases, the other does little all the time
    ],
)
def test_there_are_no_phases_unless_every_gpu_has_them(utilizations: list[float], low: tuple[float, ...]) -> None:
    item = evidence(utilizations, gpu_fields=NO_GAPS, expect_uneven=True)
    found = diagnosis("underused", mixed(item, [{"low_share": share} for share in low]))
    assert list(found.causes) == [Cause.SMALL_WORK]


@pytest.mark.parametrize(("gaps_of", "causes"), [(0.09, [Cause.SMALL_WORK]), (0.08, PHASES)])
def test_what_is_low_only_while_it_is_idle_is_no_phase(gaps_of: float, causes: list[Cause]) -> None:
    """Under the usual bounds it is always more; a site may call more jobs underused."""
    item = evidence([0.45], gpu_fields=gaps(gaps_of) | {"low_share": 0.185})
    settings = Judging.model_validate({"rules": {"underused": {"below": 0.5, "clear_above": 0.6}}})
    judgement = judge(item, settings)
    assert judgement.verdict("underused").outcome is Outcome.FIRING
    assert list(diagnose(judgement, "underused", settings, time_scale=1.0).causes) == causes


def test_phases_are_told_by_what_is_certain_of_each_gpu() -> None:
    item = mixed(
        evidence([0.24, 0.22], gpu_fields=NO_GAPS),
        [{"low_share": 0.8, "gap_lt2_share": 0.1}, {"low_share": 0.75, "gap_lt2_share": 0.0}],
    )
    said = "70 % of the time or more at 5 to 15 %, and 43 % or more where it is above: there are two kinds of work"
    assert said in diagnosis("underused", item).evidence


@pytest.mark.parametrize(
    ("hot", "causes"),
    [
        ([0.0, 0.05, 0.0], [Cause.THROTTLING]),
        # Busy for longer because it is slowed down, and the others wait for it.
        ([0.05, 0.0, 0.05], [Cause.THROTTLING]),
        ([0.05, 0.05, 0.0], [Cause.THROTTLING, Cause.COMMUNICATION]),
        ([0.0, 0.0499, 0.0], [Cause.COMMUNICATION]),
    ],
)
def test_unevenness_is_throttling_where_both_draw_the_same_line(hot: list[float], causes: list[Cause]) -> None:
    item = mixed(evidence([0.9, 0.3, 0.9]), [{"throttle_thermal_share": share} for share in hot])
    assert list(diagnosis("uneven", item).causes) == causes


def test_throttling_is_named_beside_any_cause() -> None:
    found = diagnosis("stalled", evidence([0.3], gpu_fields=gaps(0.5) | HOT))
    assert Cause.THROTTLING not in found.causes
    assert "heat or the power brake held the clocks down for up to 5.0 % of the time" in found.evidence
    assert found.advice[-1] == ADVICE[Cause.THROTTLING][-1]
    cool = diagnosis("stalled", evidence([0.3], gpu_fields=gaps(0.5) | {"throttle_thermal_share": 0.0499}))
    assert not any("clocks" in sentence for sentence in cool.evidence)


def test_peers_that_spin_are_seen_to_wait_for_the_slowest() -> None:
    item = evidence([1.0, 1.0, 0.4], gpu_fields=SPINS)
    assert "2 GPUs spin near 100 % at hardly more than idle power: waiting for the slowest" in (
        diagnosis("uneven", item).evidence
    )
    works = evidence([1.0, 1.0, 0.4], gpu_fields=at_power(500))
    assert not any("spin" in sentence for sentence in diagnosis("uneven", works).evidence)


def test_a_hang_is_told_with_its_watts_and_counters() -> None:
    said = "; ".join(diagnosis("hung", evidence([1.0, 0.0], gpu_fields=SPINS | QUIET)).evidence)
    assert "1 of 2 GPUs spins at 95 % utilization or more over 15 min" in said
    assert "the others are at 0.5 % or less" in said
    assert "drawing at most 75 W, where idle is 70 W and the limit 670 W" in said
    assert "tensor cores at most 0 % active" in said
    assert "the links of a GPU carried under 1 MB/s" in said


@pytest.mark.parametrize(
    ("processes", "said"),
    [
        ([1.0, 0.0], ["no process holds node0:1: a rank that ended there would keep the others waiting"]),
        ([1.0, 1.0], []),
        # Unknown is not none.
        ([1.0, None], []),
        ([None, 0.0], []),
        ([0.0, 0.0], []),
    ],
)
def test_a_rank_that_ended_is_told_with_those_that_spin(processes: list[float | None], said: list[str]) -> None:
    item = evidence([1.0, 0.0], gpu_fields=SPINS | QUIET)

    def window(length: float) -> WindowEvidence:
        found = item.window(length)
        gpus = (replace(usage, processes=count) for usage, count in zip(found.gpus, processes, strict=True))
        return replace(found, gpus=tuple(gpus))

    found = diagnosis("hung", replace(item, window=window))
    assert [line for line in found.evidence if "no process holds" in line] == said


@pytest.mark.parametrize(
    ("utilizations", "said"),
    [
        ([0.0], "0 % utilization"),
        ([0.0, 0.0], "0 % utilization"),
        ([0.004], "0.4 % utilization"),
        ([0.004, 0.002], "0.4 % utilization or less"),
        ([0.0005, 0.0], "under 0.1 % utilization"),
        ([], "0 % utilization"),
    ],
)
def test_nothing_is_less_than_nothing(utilizations: list[float], said: str) -> None:
    assert sentences.at_most(utilizations) == said


@pytest.mark.parametrize(("time_scale", "span"), [(1.0, "30 min"), (30.0, "15 h")])
def test_the_evidence_names_the_window_as_people_count_it(time_scale: float, span: str) -> None:
    assert span in diagnosis("idle", evidence([0.0]), time_scale).evidence[0]


def test_a_stall_says_what_utilization_could_be() -> None:
    """Utilization ~ 1 - stall share: 30 % with half of the time in gaps is 60 % while it is fed."""
    assert "without them about 60 %" in " ".join(diagnosis("stalled", evidence([0.3], gpu_fields=gaps(0.5))).evidence)


def test_what_is_not_zero_does_not_read_as_zero() -> None:
    assert "under 0.1 %" in diagnosis("idle", evidence([0.0004])).evidence[0]


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_is_called_by_its_name_but_for_what_is_not_only_a_notebook(cause: Cause) -> None:
    other = cause is Cause.IDLE_NOTEBOOK
    assert cause.label == ("idle notebook or process holding memory" if other else cause.value)
    assert Diagnosis((cause,), (), ()).summary == cause.label


def test_a_hesitation_names_its_causes_as_people_read_them() -> None:
    assert Diagnosis((Cause.HANG, Cause.THROTTLING), (), ()).summary == "hang or throttling"
    assert Diagnosis((Cause.HANG, Cause.THROTTLING, Cause.CPU_ONLY), (), ()).summary == (
        "hang, throttling or CPU-only code"
    )


@pytest.mark.parametrize(
    ("causes", "summary"),
    [
        ((Cause.IDLE_NOTEBOOK,), "idle notebook or process holding memory"),
        ((Cause.HANG, Cause.IDLE_NOTEBOOK), "hang, or idle notebook or process holding memory"),
        (
            (Cause.HANG, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY),
            "hang, idle notebook or process holding memory, or CPU-only code",
        ),
        (
            (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK),
            "data loading, communication or straggler, or small work per step",
        ),
    ],
)
def test_a_cause_with_two_names_stands_apart_from_the_others(causes: tuple[Cause, ...], summary: str) -> None:
    assert Diagnosis(causes, (), ()).summary == summary
