"""The rules on GPUs and nodes, on both sides of every bound; and what must hold for any evidence at all."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import DeviceWindow, Gpu, GpuEvidence, NodeEvidence
from dutycycle_alerter.rules import Outcome
from dutycycle_alerter.rules.device_fault import is_news, judge_gpu_fault, judge_node_fault
from dutycycle_alerter.rules.device_memory import judge_leaked_memory
from dutycycle_alerter.rules.device_throttled import judge_throttled
from dutycycle_alerter.settings import Judging
from tests.alerter.cases import LATER, SETTINGS, START
from tests.alerter.devices import BASELINE, GIB, GPU, INSTANCE, MIB, device

FIRING, CLEAR, HOLDING = Outcome.FIRING, Outcome.CLEAR, Outcome.HOLDING
UNKNOWN, WAITING, EXEMPT = Outcome.UNKNOWN, Outcome.WAITING, Outcome.NOT_APPLICABLE
QUIET = SETTINGS.rules.gpu_fault.quiet
ABOVE = BASELINE + 500 * MIB
CLEARING = BASELINE + 250 * MIB

# gpu_fault


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (device(), CLEAR),
        (device(recovery_action=0.0, remap_failed=False), CLEAR),
        *((device(xids={xid: LATER - 1}), FIRING) for xid in (48, 62, 64, 74, 79, 95, 119, 120)),
        *((device(xids={xid: LATER - 1}), CLEAR) for xid in (13, 31, 43, 63, 94, 154)),
        (device(xids={48: LATER - QUIET + 1}), FIRING),
        (device(xids={48: LATER - QUIET}), CLEAR),
        (device(xids={48: LATER - 2 * QUIET, 79: LATER - 5}), FIRING),
        (device(xids={48: LATER + 3600}), FIRING),
        *((device(recovery_action=action), FIRING) for action in (1.0, 2.0, 3.0, 4.0)),
        (device(remap_failed=True), FIRING),
        (device(visible=False), UNKNOWN),
        (device(visible=False, xids={79: LATER - 5}), FIRING),
        (device(visible=False, xids={79: LATER - QUIET}), UNKNOWN),
        (device(INSTANCE, recovery_action=1.0), EXEMPT),
    ],
)
def test_gpu_fault(evidence: GpuEvidence, outcome: Outcome) -> None:
    assert judge_gpu_fault(evidence, SETTINGS).outcome is outcome


def test_a_fault_says_what_was_reported() -> None:
    found = judge_gpu_fault(
        device(xids={48: LATER - 60, 95: LATER - 30, 13: LATER}, recovery_action=1.0, remap_failed=True), SETTINGS
    )
    assert found.figures == {"xid": 95, "xid_at": LATER - 30, "recovery_action": 1, "remap_failed": 1}
    assert (found.gpus, found.severity) == ((GPU,), Severity.WARNING)


def test_a_faulty_gpu_that_a_job_holds_is_critical() -> None:
    assert judge_gpu_fault(device(remap_failed=True, jobs=("slurm/1",)), SETTINGS).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("evidence", "opened_on", "outcome"),
    [
        # An exporter that started again has forgotten the XID: the incident has not.
        (device(), {"xid": 48, "xid_at": LATER - 60}, FIRING),
        (device(), {"xid": 48, "xid_at": LATER - QUIET}, CLEAR),
        # What the driver no longer tells is not well.
        (device(), {"recovery_action": 1}, UNKNOWN),
        (device(recovery_action=0.0), {"recovery_action": 1}, CLEAR),
        (device(), {"remap_failed": 1}, UNKNOWN),
        (device(remap_failed=False), {"remap_failed": 1}, CLEAR),
        (device(recovery_action=0.0), {"recovery_action": 1, "remap_failed": 1}, UNKNOWN),
        (device(recovery_action=0.0, visible=False), {"recovery_action": 1}, UNKNOWN),
    ],
)
def test_what_opened_a_fault_must_be_known_to_be_over(
    evidence: GpuEvidence, opened_on: Mapping[str, float], outcome: Outcome
) -> None:
    assert judge_gpu_fault(evidence, SETTINGS, opened_on).outcome is outcome


def test_a_state_that_is_not_told_just_now_stays_noted_while_something_else_fires() -> None:
    found = judge_gpu_fault(device(xids={48: LATER}), SETTINGS, {"recovery_action": 1})
    assert found.figures == {"xid": 48, "xid_at": LATER, "recovery_action": 1}


def test_a_report_of_a_node_whose_clock_is_ahead_is_the_same_in_every_pass() -> None:
    ahead = LATER + 600
    first, then = (judge_gpu_fault(device(at=at, xids={48: ahead}), SETTINGS) for at in (LATER, LATER + 30))
    assert first.figures == then.figures == {"xid": 48, "xid_at": ahead}
    assert first.outcome is FIRING
    # Its clock was set right since.
    right = judge_gpu_fault(device(at=LATER + 60, xids={48: LATER - 5}), SETTINGS, first.figures)
    assert right.figures == {"xid": 48, "xid_at": LATER - 5}


# Nodes that lose GPUs


@pytest.mark.parametrize(
    ("expected", "visible", "opened_on", "outcome"),
    [
        (8, 8, {}, CLEAR),
        (8, 7, {}, FIRING),
        (8, 0, {}, FIRING),
        (7, 8, {}, CLEAR),  # a bus that cannot be read whole is no loss
        (None, 8, {}, UNKNOWN),
        (8, None, {}, UNKNOWN),
        (None, None, {"expected": 8, "visible": 7}, UNKNOWN),
        # It has left the bus as well.
        (7, 7, {"expected": 8, "visible": 7}, FIRING),
        (8, 8, {"expected": 8, "visible": 7}, CLEAR),
    ],
)
def test_node_fault(
    expected: float | None, visible: float | None, opened_on: Mapping[str, float], outcome: Outcome
) -> None:
    assert judge_node_fault(NodeEvidence("node0", LATER, expected, visible), SETTINGS, opened_on).outcome is outcome


def test_a_node_on_which_jobs_run_is_critical() -> None:
    lost = NodeEvidence("node0", LATER, 8, 7)
    assert judge_node_fault(lost, SETTINGS).severity is Severity.WARNING
    assert judge_node_fault(lost, SETTINGS, jobs=("slurm/1",)).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("figures", "closed_on", "news"),
    [
        ({"xid": 48, "xid_at": 90.0}, {"xid": 48, "xid_at": 90.0}, False),
        ({"xid": 48, "xid_at": 100.0}, {"xid": 48, "xid_at": 90.0}, False),
        ({"xid": 48, "xid_at": 101.0}, {"xid": 48, "xid_at": 90.0}, True),
        ({"recovery_action": 2.0}, {"recovery_action": 1.0}, False),
        ({"recovery_action": 2.0}, {"xid": 48, "xid_at": 90.0}, True),
        ({"remap_failed": 1.0}, {"recovery_action": 1.0}, True),
        ({"expected": 8.0, "visible": 7.0}, {"expected": 8.0, "visible": 7.0}, False),
        ({"expected": 8.0, "visible": 6.0}, {"expected": 8.0, "visible": 7.0}, True),
        ({"thermal": 0.9}, {"thermal": 0.1}, False),
    ],
)
def test_only_something_new_speaks_after_a_person_closed_it(
    figures: Mapping[str, float], closed_on: Mapping[str, float], news: bool
) -> None:
    assert is_news(figures, closed_on, 100.0) is news


# leaked_memory


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (device(), CLEAR),
        (device(memory=CLEARING - 1), CLEAR),
        (device(memory=CLEARING), HOLDING),
        (device(memory=ABOVE - 1), HOLDING),
        (device(memory=ABOVE), FIRING),
        (device(memory=140 * GIB), FIRING),
        (device(INSTANCE, memory=ABOVE), FIRING),
        (device(memory=ABOVE, processes=1.0), HOLDING),
        (device(memory=ABOVE, allocated=True), HOLDING),
        # A GPU that works without a process hides its processes.
        (device(memory=ABOVE, utilization=0.99), UNKNOWN),
        (device(memory=ABOVE, utilization=0.0051), UNKNOWN),
        (device(memory=ABOVE, utilization=0.005), FIRING),
        (device(memory=ABOVE, utilization=None), UNKNOWN),
        # Freed is freed, whoever holds the GPU now, and however short it was watched.
        (device(memory=ABOVE, now=BASELINE), CLEAR),
        (device(memory=ABOVE, now=BASELINE, allocated=True, watched_from=LATER), CLEAR),
        (device(memory=ABOVE, now=BASELINE, visible=False), UNKNOWN),
        (device(memory=ABOVE, watched_from=LATER - 899), WAITING),
        (device(memory=ABOVE, watched_from=LATER - 900), FIRING),
        (device(memory=None), UNKNOWN),
        (device(memory=ABOVE, processes=None), UNKNOWN),
        (device(memory=ABOVE, allocated=None), UNKNOWN),
        (device(memory=ABOVE, memory_baseline=None), UNKNOWN),
        (device(memory=ABOVE, visible=False), UNKNOWN),
        (device(memory=ABOVE, now=0.0, memory_baseline=None), UNKNOWN),
    ],
)
def test_leaked_memory(evidence: GpuEvidence, outcome: Outcome) -> None:
    assert judge_leaked_memory(evidence, SETTINGS).outcome is outcome


def test_a_leak_says_how_much_over_what() -> None:
    found = judge_leaked_memory(device(memory=9 * GIB, now=10 * GIB), SETTINGS)
    assert found.figures == {"memory_used": 9 * GIB, "memory_baseline": BASELINE}
    assert (found.gpus, found.severity, found.window) == ((GPU,), Severity.WARNING, 900)


def test_while_it_waits_it_says_until_when() -> None:
    assert judge_leaked_memory(device(memory=ABOVE, watched_from=LATER - 300), SETTINGS).until == LATER + 600


# throttled


@pytest.mark.parametrize(
    ("thermal", "power_cap", "opened_on", "outcome", "severity"),
    [
        (0.0, 0.0, {}, CLEAR, None),
        (0.0199, 0.0, {}, CLEAR, None),
        (0.02, 0.0, {}, HOLDING, None),
        (0.0499, 0.0, {}, HOLDING, None),
        (0.05, 0.0, {}, FIRING, Severity.WARNING),
        (1.0, 1.0, {}, FIRING, Severity.WARNING),
        (0.0, 0.499, {}, HOLDING, None),
        (0.0, 0.5, {}, FIRING, Severity.INFO),
        (0.0499, 0.5, {}, FIRING, Severity.INFO),
        (0.0, 0.40, {}, HOLDING, None),
        (0.0, 0.399, {}, CLEAR, None),
        (None, None, {}, UNKNOWN, None),
        (None, 0.1, {}, UNKNOWN, None),
        (None, 0.6, {}, FIRING, Severity.INFO),
        (0.0, None, {}, CLEAR, None),
        (0.0, None, {"thermal": 0.3}, CLEAR, None),
        (0.0, None, {"thermal": 0.0, "power_cap": 0.6}, UNKNOWN, None),
        (0.3, None, {"power_cap": 0.6}, FIRING, Severity.WARNING),
    ],
)
def test_throttled(
    thermal: float | None,
    power_cap: float | None,
    opened_on: Mapping[str, float],
    outcome: Outcome,
    severity: Severity | None,
) -> None:
    found = judge_throttled(device(thermal=thermal, power_cap=power_cap), SETTINGS, opened_on)
    assert found.outcome is outcome
    if severity is not None:
        assert (found.severity, found.gpus) == (severity, (GPU,))


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (device(thermal=0.5, visible=False), UNKNOWN),
        (device(thermal=0.5, watched_from=LATER - 899), WAITING),
        (device(thermal=0.0, watched_from=LATER - 899), WAITING),
        (device(thermal=0.5, watched_from=LATER - 900), FIRING),
        (device(INSTANCE, thermal=0.5), EXEMPT),
    ],
)
def test_throttling_is_judged_on_a_whole_window_of_a_whole_gpu(evidence: GpuEvidence, outcome: Outcome) -> None:
    assert judge_throttled(evidence, SETTINGS).outcome is outcome


@pytest.mark.parametrize("rule", ["gpu_fault", "leaked_memory", "throttled"])
def test_a_rule_that_is_switched_off_says_nothing(rule: str) -> None:
    off = Judging.model_validate({"rules": {rule: {"enabled": False}}})
    everything = device(memory=ABOVE, thermal=1.0, remap_failed=True)
    judges = {"gpu_fault": judge_gpu_fault, "leaked_memory": judge_leaked_memory, "throttled": judge_throttled}
    assert judges[rule](everything, off).outcome is EXEMPT
    if rule == "gpu_fault":
        assert judge_node_fault(NodeEvidence("node0", LATER, 8, 7), off).outcome is EXEMPT


# What must hold for any evidence

RATIO = st.none() | st.floats(0, 1)
BYTES = st.none() | st.floats(0, 141 * GIB)
OPENED_ON = st.dictionaries(
    st.sampled_from(["xid", "xid_at", "recovery_action", "remap_failed", "thermal", "power_cap"]),
    st.floats(0, 2 * LATER),
)


@st.composite
def devices(draw: st.DrawFn) -> GpuEvidence:
    window = DeviceWindow(
        900,
        draw(BYTES),
        draw(st.none() | st.integers(0, 3).map(float)),
        draw(st.none() | st.booleans()),
        draw(RATIO),
        draw(RATIO),
        draw(RATIO),
    )
    return GpuEvidence(
        gpu=GPU,
        at=LATER,
        window=lambda _: window,
        visible=draw(st.booleans()),
        watched_from=draw(st.floats(START, LATER)),
        xids=draw(st.dictionaries(st.sampled_from([13, 48, 79, 94]), st.floats(0, 2 * LATER), max_size=3)),
        recovery_action=draw(st.none() | st.integers(0, 4).map(float)),
        remap_failed=draw(st.none() | st.booleans()),
        memory_used=draw(BYTES),
        memory_baseline=draw(BYTES),
        jobs=draw(st.sampled_from([(), ("slurm/1",)])),
    )


def outcomes(item: GpuEvidence, opened_on: Mapping[str, float] | None = None) -> list[Outcome]:
    before = opened_on or {}
    return [
        judge_gpu_fault(item, SETTINGS, before).outcome,
        judge_leaked_memory(item, SETTINGS).outcome,
        judge_throttled(item, SETTINGS, before).outcome,
    ]


@given(devices(), OPENED_ON)
def test_a_gpu_of_which_nothing_is_known_neither_fires_nor_clears(
    item: GpuEvidence, opened_on: Mapping[str, float]
) -> None:
    dark = replace(item, visible=False, xids={}, recovery_action=None, remap_failed=None, window=DeviceWindow)
    fault, *others = outcomes(dark, opened_on)
    assert not fault.closes
    assert set(others) == {UNKNOWN}
    assert FIRING not in outcomes(dark)


@given(devices(), OPENED_ON)
def test_forgetting_any_part_of_the_evidence_clears_nothing_that_was_open(
    item: GpuEvidence, opened_on: Mapping[str, float]
) -> None:
    """A reading that fails must not look like health."""
    for name, blank in (("recovery_action", None), ("remap_failed", None), ("memory_used", None), ("visible", False)):
        without = outcomes(replace(item, **{name: blank}), opened_on)
        for verdict, dark in zip(outcomes(item, opened_on), without, strict=True):
            # What fires on what is forgotten was noted when it opened.
            noted = name not in ("recovery_action", "remap_failed") or name in opened_on
            assert not (verdict is FIRING and dark.closes and noted)


@given(devices(), OPENED_ON, st.text(), st.text(), st.text())
def test_names_change_nothing(
    item: GpuEvidence, opened_on: Mapping[str, float], node: str, uuid: str, model: str
) -> None:
    named = replace(item, gpu=Gpu(node, "0", uuid, "", model))
    assert outcomes(named, opened_on) == outcomes(item, opened_on)


@given(devices(), OPENED_ON)
def test_judging_twice_changes_nothing(item: GpuEvidence, opened_on: Mapping[str, float]) -> None:
    for judge in (judge_gpu_fault, judge_throttled):
        assert judge(item, SETTINGS, opened_on) == judge(item, SETTINGS, opened_on)
    assert judge_leaked_memory(item, SETTINGS) == judge_leaked_memory(item, SETTINGS)


@given(devices())
def test_what_fires_goes_on_firing_on_what_it_opened_with(item: GpuEvidence) -> None:
    """The figures of an incident never close it by themselves."""
    for judge in (judge_gpu_fault, judge_throttled):
        found = judge(item, SETTINGS)
        if found.outcome is FIRING:
            assert judge(item, SETTINGS, found.figures) == found


@given(st.none() | st.integers(0, 16), st.none() | st.integers(0, 16))
def test_a_node_fires_only_on_known_numbers(expected: int | None, visible: int | None) -> None:
    found = judge_node_fault(NodeEvidence("n", LATER, expected, visible), SETTINGS).outcome
    known = expected is not None and visible is not None
    assert (found is FIRING) == (known and visible < expected)  # type: ignore[operator]
    assert (found is UNKNOWN) == (not known)
