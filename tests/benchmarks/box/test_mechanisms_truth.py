"""What is true of jobs, by hand: which rule is there, whether it must be told, and why no signal tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.box.mechanisms import simulate
from benchmarks.box.model import Condition, Job
from benchmarks.box.played import whole_truth

from .mechanisms_at_work import BUSY, KERNELS, MINUTE, PERSON, SERVER, TINY, in_turn, job

LOADING, WAITING, SMALL = "data loading", "communication or straggler", "small work per step"
PAUSES = "checkpoint or evaluation pauses"


def conditions(one: Job) -> tuple[Condition, ...]:
    return simulate(one).truth.conditions


def must(one: Job) -> dict[str, set[str]]:
    return {condition.rule: set(condition.causes) for condition in conditions(one) if condition.must}


TOLD = [
    ("nothing was started", job("no process", 90), {"idle": {"no process"}}),
    ("read slowly", job(read_load=3.0), {"stalled": {LOADING}}),
    ("decoded slowly", job(workers=12, decode_load=1.2, cores_per_gpu=6), {"stalled": {LOADING}}),
    ("two workers, steps of 2 s", job(compute=2.0, workers=2, decode_load=2.5), {"stalled": {LOADING}}),
    ("preprocessed between steps of 1 s", job(host=1.5), {"stalled": {LOADING}}),
    (
        "one rank is waited for",
        job("slow rank", gpus=4, slowness=3.0),
        {"uneven": {WAITING}, "stalled": {WAITING}},
    ),
    (
        "one rank is hot",
        job("hot rank", gpus=4, slowness=5.0, thermal=0.5),
        {"uneven": {"throttling"}, "stalled": {"throttling"}},
    ),
    ("two of eight are used", job("over-request", gpus=8, used=0.25), {"partially_idle": {"over-request"}}),
    ("launches of 20 ms for 4 ms", job("tiny steps", **TINY), {"underused": {SMALL}}),
    ("small kernels", job("busy kernels", **{**BUSY, "sm": 0.1}), {"low_sm_activity": {SMALL}}),
    (
        "memory holds up few multiprocessors",
        job("busy kernels", **{**BUSY, "memory_bound": 1, "sm": 0.12, "dram": 0.8}),
        {"low_sm_activity": {"memory-bound"}},
    ),
    (
        "a collective hangs",
        job("hang", 90, gpus=4, lives=0.4, gives_up=1e9),
        {"hung": {"hang"}, "low_sm_activity": {"hang"}},
    ),
    ("a process died", job("died", lives=0.3), {"idle": {"no process"}}),
    ("everybody waits on the host", job("deadlock", lives=0.3), {"idle": {"hang"}}),
    (
        "the GPU is held for CPUs",
        job("cpu only", cores=4.0, context=1.0, memory=1.0),
        {"idle": {"CPU-only code"}},
    ),
    ("checkpoints take four fifths", job(checkpoint=240.0, checkpoint_every=50.0), {"underused": {PAUSES}}),
    (
        "a notebook was forgotten",
        job("person", 180, partition="interactive", **{**PERSON, "leaves": 0.1}),
        {"idle": {"idle notebook"}},
    ),
    (
        "kernels only look busy",
        job("keep-alive", 90, level=1.0, memory=2.0, power=0.03, sm=0.005),
        {"low_sm_activity": {SMALL}},
    ),
]


@pytest.mark.parametrize(("one", "expected"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD])
def test_what_must_be_told(one: Job, expected: dict[str, set[str]]) -> None:
    assert must(one) == expected


WELL = [
    ("fed", job(gpus=8, spin=1, checkpoint=20.0, evaluation=40.0)),
    ("short", job(minutes=8)),
    ("starts for 20 min", job(start_up=1200.0)),
    ("prepared for 15 min", job("prepared", prepare=900.0, prepare_cores=8.0)),
    ("rests for 8 min", job("rounds", work=2400.0, rest=480.0)),
    ("called server", job("server", 240, partition="serving", **SERVER)),
    ("somebody at work", job("person", 120, partition="interactive", **PERSON)),
    ("memory-bound and busy", job("busy kernels", **{**BUSY, "memory_bound": 1, "sm": 0.7, "dram": 0.85})),
]


@pytest.mark.parametrize("one", [row[1] for row in WELL], ids=[row[0] for row in WELL])
def test_what_is_well_has_no_condition(one: Job) -> None:
    assert conditions(one) == ()


@pytest.mark.parametrize(("minutes", "told"), [(48, {}), (51, {"stalled": {LOADING}})])
def test_what_loaded_for_25_min_must_be_told_as_stalled_only_once_a_window_has_nothing_of_that(
    minutes: float, told: dict[str, set[str]]
) -> None:
    assert must(job(minutes=minutes, start_up=1500.0, read_load=3.0)) == told


UNRULED = [
    (
        "two workers, steps of 0.2 s",
        job(compute=0.1, workers=2, decode_load=2.0),
        "stalled",
        "shorter than two samples",
    ),
    ("ranks spin", job("slow rank", gpus=4, spin=1, slowness=2.5), "uneven", "power alone differs"),
    ("launches of 4 ms for 4 ms", job("tiny steps", **{**TINY, "launch": 4}), "underused", "milliseconds"),
    ("checkpoints take half", job(checkpoint=200.0, checkpoint_every=200.0), "underused", "pauses of over 30 s"),
]


@pytest.mark.parametrize(("one", "rule", "why"), [row[1:] for row in UNRULED], ids=[row[0] for row in UNRULED])
def test_what_a_signal_shows_and_no_rule_is_for_is_named_with_that_signal(one: Job, rule: str, why: str) -> None:
    (found,) = conditions(one)
    assert (found.rule, found.must, found.silent, found.early) == (rule, False, "", "")
    assert why in found.unruled


HARDLY = {**BUSY, "resident": 0.4, "sm": 0.1}
SILENT = [
    ("small kernels on A100s", job("busy kernels", on="A100", **{**BUSY, "sm": 0.1})),
    ("small kernels for four tenths of the time on A100s", job("busy kernels", on="A100", **HARDLY)),
]


@pytest.mark.parametrize("one", [row[1] for row in SILENT], ids=[row[0] for row in SILENT])
def test_what_no_signal_of_a_node_can_tell_is_named_with_the_reason(one: Job) -> None:
    (found,) = conditions(one)
    assert (found.rule, found.must, found.early, found.unruled) == ("low_sm_activity", False, "", "")
    assert "GPM" in found.silent
    (newer,) = conditions(replace(one, model="H100"))
    assert newer.silent == ""
    assert newer.must or newer.unruled


EARLY = [
    (
        "a server that nobody calls",
        job("server", 240, partition="serving", **{**SERVER, "rate": 1e-9}),
        "idle",
        "24 hours",
    ),
    ("nothing was started, for half an hour", job("no process", 30), "idle", "before grace"),
    ("a collective hung for 11 min", job("hang", 31, gpus=2, lives=0.645, gives_up=1e9), "hung", "before grace"),
    (
        "kernels looked busy for 30 min",
        job("keep-alive", 30, level=0.9, memory=2.0, power=0.3, sm=0.005),
        "low_sm_activity",
        "before grace",
    ),
]


@pytest.mark.parametrize(("one", "rule", "why"), [row[1:] for row in EARLY], ids=[row[0] for row in EARLY])
def test_what_is_over_before_a_rule_is_asked_is_no_lack_of_a_signal(one: Job, rule: str, why: str) -> None:
    (found,) = conditions(one)
    assert (found.rule, found.must, found.silent, found.unruled) == (rule, False, "", "")
    assert why in found.early


def test_a_job_that_only_looks_busy_is_not_required_to_hang() -> None:
    one = job("keep-alive", 90, level=1.0, memory=2.0, power=0.03, sm=0.005)
    (hung,) = [condition for condition in conditions(one) if condition.rule == "hung"]
    assert (hung.must, hung.silent, hung.early) == (False, "", "")


def test_the_main_cause_is_one_of_the_causes() -> None:
    one = job("slow rank", gpus=2, slowness=2.0, read_load=2.6, decode_load=0.0)
    (stalled,) = [condition for condition in conditions(one) if condition.rule == "stalled"]
    assert stalled.main < stalled.causes


WASTE = [
    ("nothing was started", job("no process", 90), 1.0, 1.0),
    ("fed", job(), 0.0, 0.05),
    ("read slowly", job(read_load=3.0), 0.5, 0.8),
    ("ranks spin", job("slow rank", gpus=4, spin=1, slowness=2.5), 0.3, 0.6),
    ("a collective hangs", job("hang", 90, gpus=4, lives=0.4, gives_up=1e9), 0.5, 0.65),
    ("somebody at work", job("person", 120, partition="interactive", **PERSON), 0.0, 0.01),
    (
        "a notebook was forgotten",
        job("person", 180, partition="interactive", **{**PERSON, "leaves": 0.1}),
        0.8,
        0.95,
    ),
    ("called server", job("server", 240, partition="serving", **SERVER), 0.0, 0.01),
    ("small kernels, which are no wait", job("busy kernels", **{**BUSY, "sm": 0.1}), 0.0, 0.05),
]


@pytest.mark.parametrize(("one", "low", "high"), [row[1:] for row in WASTE], ids=[row[0] for row in WASTE])
def test_what_the_ledger_of_waits_calls_wasted(one: Job, low: float, high: float) -> None:
    truth = simulate(one).truth
    assert truth.wasted is not None
    assert low - 0.01 <= truth.wasted / sum(truth.spent.values()) <= high + 1e-6


NEAR = [
    ("utilization of 70 %", job(read_load=1.42, decode_load=0.0), "stalled"),
    ("a quarter computed", job("tiny steps", **{**TINY, "kernels": 5, "launch": 15}), "underused"),
    ("multiprocessors a quarter active", job("busy kernels", **{**BUSY, "sm": 0.25}), "low_sm_activity"),
    ("idle for about 30 min", job("no process", 42), "idle"),
]


@pytest.mark.parametrize(("one", "rule"), [row[1:] for row in NEAR], ids=[row[0] for row in NEAR])
def test_what_is_near_a_bound_may_be_told_and_need_not(one: Job, rule: str) -> None:
    found = conditions(one)
    assert rule in {condition.rule for condition in found}
    assert not any(one.must or one.silent or one.unruled or one.early for one in found)


def test_a_condition_begins_and_ends_with_its_mechanism() -> None:
    (found,) = [one for one in conditions(in_turn(job(minutes=240, read_load=4.0), job(), 0.5)) if one.must]
    assert found.rule == "stalled"
    assert found.since == pytest.approx(120)
    assert found.until == pytest.approx(120 * MINUTE)
    (later,) = [one for one in conditions(in_turn(job(minutes=240), job(read_load=4.0), 0.5)) if one.must]
    assert later.since == pytest.approx(120 * MINUTE)
    assert later.until == pytest.approx(240 * MINUTE)
    assert later.step == pytest.approx(4.3, rel=0.05)


def test_a_job_that_died_may_be_called_underused_before_it_is_idle() -> None:
    found = {one.rule: one for one in conditions(job("died", lives=0.5))}
    assert found["idle"].since == pytest.approx(60 * MINUTE)
    assert found["idle"].must
    assert not found["underused"].must


def test_both_causes_are_named_where_two_mechanisms_share_the_loss() -> None:
    one = job("slow rank", gpus=2, slowness=2.0, read_load=2.6, decode_load=0.0)
    assert must(one)["stalled"] == {LOADING, WAITING}


def test_where_cpu_only_code_has_no_context_there_is_no_process_either() -> None:
    one = job("cpu only", cores=4.0, context=0.0, memory=1.0)
    assert must(one) == {"idle": {"CPU-only code", "no process"}}


def test_a_wait_that_is_meant_may_be_told_and_need_not() -> None:
    times = {"simulate": 10.0, "update": 10.0, "sigma": 0.1, "cores": 0.9}
    (found,) = conditions(job("reinforcement", memory=10, start_up=60, **times, **KERNELS))
    assert (found.rule, found.must, found.silent) == ("stalled", False, "")


def test_an_interactive_job_is_left_alone_for_an_hour() -> None:
    gone = {**PERSON, "leaves": 0.02}
    (short,) = conditions(job("person", 85, partition="interactive", **gone))
    assert not short.must
    assert must(job("person", 110, partition="interactive", **gone)) == {"idle": {"idle notebook"}}


def test_conditions_do_not_depend_on_when_a_job_began() -> None:
    one = job(read_load=2.0, sigma=0.3)
    later = replace(one, start=one.start + 5000, end=one.end + 5000)
    assert conditions(one) == conditions(later)


def test_kernels_of_every_job_are_shares() -> None:
    assert all(0 <= value <= 1 for value in KERNELS.values())
    course = simulate(job("slow rank", gpus=4, spin=1, slowness=3.0)).course
    for phase in course:
        for load in phase.loads:
            assert np.all(np.array(load.activities) <= 1)


def test_ranks_that_wait_for_another_ranks_loader_wait_for_data() -> None:
    one = job(gpus=4, workers=2, decode_load=2.0, sigma=0.6)
    spent = simulate(one).truth.spent
    assert spent["collective"] > 0.2 * 4 * 7200
    assert must(one)["stalled"] == {LOADING}
    apart = [condition for condition in conditions(replace(one, seed=5)) if condition.rule == "uneven"]
    assert all(condition.causes == {LOADING, WAITING} for condition in apart)


def test_ranks_that_wait_for_one_that_evaluates_wait_for_an_evaluation() -> None:
    one = job(gpus=4, evaluation_alone=1.0, evaluation=400.0, evaluation_every=200.0)
    assert must(one)["uneven"] == {WAITING, PAUSES}


EXEMPT = [
    # What the table asks for to the letter, and the measure does not.
    ("what loads is at its start", job(minutes=48, start_up=1500.0, read_load=3.0), "stalled"),
    (
        "a wait that is meant",
        job(
            "reinforcement",
            memory=10,
            start_up=60,
            simulate=10.0,
            update=10.0,
            sigma=0.1,
            cores=0.98,
            **KERNELS,
        ),
        "stalled",
    ),
]


@pytest.mark.parametrize(("one", "rule"), [row[1:] for row in EXEMPT], ids=[row[0] for row in EXEMPT])
def test_what_is_exempt_from_the_table_is_known_by_it_all_the_same(one: Job, rule: str) -> None:
    (found,) = [condition for condition in conditions(one) if condition.rule == rule]
    assert (found.must, found.by_table) == (False, True)


def test_what_must_be_told_must_be_by_the_table_too() -> None:
    found = [condition for _, one, _ in TOLD for condition in conditions(one) if condition.must]
    assert found
    assert all(condition.by_table for condition in found)


def test_losses_are_what_the_ledger_calls_wasted_at_its_time() -> None:
    truth = whole_truth(in_turn(job(minutes=240), job(read_load=4.0), 0.5))
    assert sum(lost for _, _, lost in truth.losses) == pytest.approx(truth.wasted)
    late = sum(lost for since, _, lost in truth.losses if since >= 120 * MINUTE)
    assert late > 0.95 * truth.wasted


REPORTED = [
    ("little memory, and hardly used", job("tiny steps", **{**TINY, "memory": 10}), [True]),
    ("about a quarter of it", job("tiny steps", **{**TINY, "memory": 20}), [False]),
    ("much memory", job("tiny steps", **{**TINY, "memory": 40}), []),
    ("busy", job(memory=10.0), []),
    ("too short", job("tiny steps", 50, **{**TINY, "memory": 10}), []),
    ("somebody at work", job("person", 120, partition="interactive", **PERSON), []),
]


@pytest.mark.parametrize(("one", "must_be"), [row[1:] for row in REPORTED], ids=[row[0] for row in REPORTED])
def test_memory_that_is_hardly_used_is_for_a_report(one: Job, must_be: list[bool]) -> None:
    assert [(found.rule, found.must) for found in whole_truth(one).reports] == [
        ("memory_underused", each) for each in must_be
    ]
