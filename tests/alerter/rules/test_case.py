"""A MIG instance that nothing measures is not evaluable; one that is not measured for a while is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.model import Gpu, JobEvidence, JobKind, Usage, WindowEvidence
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.case import UNMEASURABLE, occupied
from tests.alerter.cases import LATER, SETTINGS, START, evidence, job

CRITICAL = SETTINGS.rules.idle.critical_window
NEVER = evidence([None], mig="MIG-a")
MIXED = evidence(
    [0.5, None], the_job=replace(job(2), gpus=(Gpu("node0", "0", "GPU-0"), Gpu("node0", "1", "GPU-1", "MIG-a")))
)


def outcome(item: JobEvidence, rule: str = "idle") -> tuple[Outcome, str]:
    verdict = judge(item, SETTINGS).verdict(rule)
    return verdict.outcome, verdict.reason


@pytest.mark.parametrize("rule", ["hung", "idle", "stalled", "low_sm_activity", "underused"])
def test_an_instance_without_utilization_is_not_evaluable(rule: str) -> None:
    assert outcome(NEVER, rule) == (Outcome.NOT_EVALUABLE, UNMEASURABLE)


def test_beside_a_gpu_that_is_measured_too() -> None:
    assert outcome(MIXED, "underused") == (Outcome.NOT_EVALUABLE, UNMEASURABLE)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(evidence([None]), id="a whole GPU"),
        pytest.param(evidence([None], mig="MIG-a", by_window={CRITICAL: [0.2]}), id="it was measured before"),
        pytest.param(evidence([0.2], mig="MIG-a", coverage=0.3), id="measured for a part of the window"),
        pytest.param(evidence([None], mig="MIG-a", visible=False), id="its exporter does not answer"),
        pytest.param(evidence([0.2, None], mig="MIG-a", coverage=[0.3, 1.0]), id="one of them was"),
    ],
)
def test_an_instance_that_may_be_measured_again_is_unknown(item: JobEvidence) -> None:
    assert outcome(item)[0] is Outcome.UNKNOWN


def test_a_window_that_the_source_could_not_answer_says_nothing() -> None:
    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, (Usage(0.0 if length == CRITICAL else length, 0.0, 0.0),))

    assert outcome(replace(NEVER, window=window))[0] is Outcome.UNKNOWN
    assert outcome(replace(NEVER, window=window, longest=CRITICAL - 1))[0] is Outcome.NOT_EVALUABLE


def test_what_is_seen_of_an_instance_after_all_was_lost_is_too_little_to_say_that_nothing_measures_it() -> None:
    """An engine whose data were lost shows the allocation of a minute first, and what was measured in it later."""

    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, (Usage(60.0, 0.0, 0.0),))

    assert outcome(replace(NEVER, window=window))[0] is Outcome.UNKNOWN


def test_a_serving_jobs_whole_day_counts() -> None:
    day = SETTINGS.rules.idle.serving_window
    serving = replace(NEVER.job, kind=JobKind.SERVING, start=LATER - 2 * day, first_process=LATER - 2 * day)
    measured = evidence([None], the_job=serving, by_window={day: [0.2]}, coverage=0.1)
    assert outcome(measured)[0] is Outcome.UNKNOWN
    assert outcome(evidence([None], the_job=serving))[0] is Outcome.NOT_EVALUABLE


def test_before_its_window_has_passed_it_waits() -> None:
    assert outcome(evidence([None], mig="MIG-a", at=START + 60))[0] is Outcome.WAITING


def test_a_window_that_is_never_read_is_not_merely_measured_for_too_short() -> None:
    """No pass will ever know more: that a rule cannot be judged must not look like a gap that will close."""
    day = SETTINGS.rules.idle.serving_window
    serving = replace(job(1), kind=JobKind.SERVING, start=LATER - 2 * day, first_process=LATER - 2 * day)
    read = evidence([None], the_job=serving)
    assert outcome(read)[0] is Outcome.UNKNOWN
    reason = "the source of the evidence reads no window of 24 h"
    assert outcome(replace(read, longest=CRITICAL)) == (Outcome.NOT_EVALUABLE, reason)


MIB = 2.0**20


@pytest.mark.parametrize(
    ("fields", "mig", "holds"),
    [
        ({"processes": 1.0}, "", True),
        ({"processes": 0.0}, "", False),
        ({}, "", None),
        # Processes may be hidden, memory is not: 200 MiB over what a GPU without a process shows.
        ({"processes": 0.0, "memory_used": 751 * MIB, "memory_baseline": 551 * MIB}, "", False),
        ({"processes": 0.0, "memory_used": 752 * MIB, "memory_baseline": 551 * MIB}, "", True),
        # Where that is not known, 200 MiB over what the driver reserves at most: 5 %.
        ({"memory_used": 1200 * MIB, "memory_total": 20_000 * MIB}, "", None),
        ({"memory_used": 1201 * MIB, "memory_total": 20_000 * MIB}, "", True),
        ({"memory_used": 1201 * MIB}, "", None),
        # Memory of a shared GPU may be another job's; an instance has its own.
        ({"memory_used": 9999 * MIB, "memory_baseline": 0.0, "share": 0.5}, "", None),
        ({"memory_used": 9999 * MIB, "memory_baseline": 0.0, "share": 0.5}, "MIG-a", True),
        ({"processes": 1.0, "share": 0.5}, "", True),
    ],
)
def test_a_process_or_memory_in_use_holds_a_gpu(fields: dict[str, float], mig: str, *, holds: bool | None) -> None:
    assert occupied(Gpu("node0", "0", "GPU-0", mig), Usage(60.0, 60.0, 0.0, **fields)) is holds
