"""Steps and costs with a job's own numbers."""

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import HostUsage, JobEvidence
from tests.alerter.cases import evidence
from tests.alerter.rules.test_diagnosis import GIB, HELD, SPINS, diagnosis
from tests.alerter.rules.test_rules import NO_GAPS, gaps


@pytest.mark.parametrize(
    ("rule", "item", "step"),
    [
        ("partially_idle", evidence([0.9] + [0.0] * 7), "Ask for 1 GPU instead of 8: 7 did nothing over 30 min, 3.5"),
        ("partially_idle", evidence([0.9] * 3 + [0.0]), "Ask for 3 GPUs instead of 4: 1 did nothing over 30 min, 0.50"),
        (
            "stalled",
            evidence([0.7 - 1e-9] * 2, gpu_fields=gaps(0.21), host=HostUsage(cpu_cores=3.9), cpus=4.0),
            "The job has 4 CPU cores for 2 GPUs and uses 3.9 of them: ask for more of them per GPU.",
        ),
        (
            "stalled",
            evidence([0.3], gpu_fields=gaps(0.5), host=HostUsage(cpu_cores=2.0, cpu_of_limit=0.25, io_pressure=0.9)),
            "The job has 8 CPU cores for 1 GPU and uses 2.0 of them: 6 more can load data.",
        ),
        (
            "underused",
            evidence([0.1], gpu_fields=NO_GAPS | HELD),
            "At most 14 % of GPU memory is in use: there is room for a batch about 6 times as large. Raise it",
        ),
        (
            "underused",
            evidence([0.2], gpu_fields=NO_GAPS),
            "At 20 % utilization about 4 such jobs fit on one GPU, where their memory does.",
        ),
        (
            "underused",
            evidence([0.2] * 8, gpu_fields=NO_GAPS),
            "The 8 GPUs together do the work of 1.6: ask for 2 if the program allows it.",
        ),
    ],
)
def test_advice_has_the_jobs_own_numbers(rule: str, item: JobEvidence, step: str) -> None:
    assert any(found.startswith(step) for found in diagnosis(rule, item).advice), diagnosis(rule, item).advice


@pytest.mark.parametrize(
    ("rule", "item", "said"),
    [
        ("idle", evidence([0.0] * 4), "every hour like this wastes 4 GPU-hours"),
        (
            "idle",
            evidence([0.0] * 4, time_limit=24 * 3600.0),
            "every hour like this wastes 4 GPU-hours: 56.0 until the time limit, 14 h from now",
        ),
        ("idle", evidence([0.0] * 4, time_limit=3600.0), "every hour like this wastes 4 GPU-hours"),
        ("hung", evidence([1.0] * 2, gpu_fields=SPINS), "every hour like this wastes 2 GPU-hours"),
        ("underused", evidence([0.1], gpu_fields=NO_GAPS | HELD), ""),
        ("partially_idle", evidence([0.9] * 3 + [0.0]), ""),
    ],
)
def test_what_going_on_like_this_wastes_is_evidence_and_no_step(rule: str, item: JobEvidence, said: str) -> None:
    found = diagnosis(rule, item)
    assert [line for line in found.evidence if "every hour" in line] == ([said] if said else [])
    assert not any("very hour" in step for step in found.advice)


@pytest.mark.parametrize(
    ("rule", "item", "said"),
    [
        ("stalled", evidence([0.7 - 1e-9] * 2, gpu_fields=gaps(0.21)), "without them about 89 %"),
        (
            "underused",
            evidence([0.2], gpu_fields=NO_GAPS | {"gap_30to600_share": 0.5}),
            "utilization without the pauses: about 40 %",
        ),
        ("underused", evidence([0.12], gpu_fields=gaps(0.15)), "utilization without the short gaps: about 14 %"),
        ("uneven", evidence([0.9, 0.3]), "all as busy as the busiest would have worked 0.30 GPU-hours more"),
    ],
)
def test_what_could_be_is_evidence_and_no_step(rule: str, item: JobEvidence, said: str) -> None:
    """A step says what to do; what it would bring is what speaks for it."""
    found = diagnosis(rule, item)
    assert [line for line in found.evidence if said in line]
    assert not any(word in step for step in found.advice for word in ("without them", "without the", "would have"))


def test_figures_that_are_not_known_are_not_in_the_advice() -> None:
    """Without CPU, memory and gaps only the general steps are left."""
    found = diagnosis("underused", evidence([0.2] * 2))
    assert not any("CPU cores" in step and "has" in step for step in found.advice)
    assert not any("of GPU memory is in use" in step for step in found.advice)


def test_spans_and_waste_in_the_words_are_as_people_count_them() -> None:
    uneven = diagnosis("uneven", evidence([0.9, 0.3]), 60.0).evidence
    assert "all as busy as the busiest would have worked 18.0 GPU-hours more over 30 h" in uneven
    steps = diagnosis("partially_idle", evidence([0.9, 0.0]), 60.0).advice
    assert "Ask for 1 GPU instead of 2: 1 did nothing over 30 h, 30.0 GPU-hours." in steps


@pytest.mark.parametrize(
    ("used", "room"),
    [(0.1124, "a batch about 8 times as large"), (0.099, "a much larger batch"), (0.006, "a much larger batch")],
)
def test_how_far_a_batch_may_grow_is_not_promised(used: float, room: str) -> None:
    """Of a hundredth in use most may be the framework's own; and what a larger batch does to the training is said."""
    memory = {"memory_used": used * 80 * GIB, "memory_total": 80 * GIB}
    (step,) = [s for s in diagnosis("underused", evidence([0.1], gpu_fields=NO_GAPS | memory)).advice if "At most" in s]
    assert f": there is room for {room}. Raise it step by step while throughput rises" in step
    assert "adapt the learning rate" in step


def test_what_divides_by_next_to_nothing_is_not_counted() -> None:
    least = 5e-324
    host = HostUsage(cpu_cores=2.0, cpu_of_limit=least, io_pressure=0.9)
    assert not any("CPU cores" in s and "has" in s for s in diagnosis("stalled", evidence([0.3], host=host)).advice)
    memory = {"memory_used": least, "memory_total": 1.0}
    steps = diagnosis("underused", evidence([0.1], gpu_fields=NO_GAPS | memory)).advice
    assert "room for a much larger batch" in steps[0]


def test_large_numbers_read_as_people_write_them() -> None:
    idle = diagnosis("idle", evidence([0.0] * 1024, nodes=128))
    assert "every hour like this wastes 1,024 GPU-hours" in idle.evidence
    fed = {"host": HostUsage(cpu_cores=1500.5), "cpus": 2048.0, "nodes": 16}
    steps = diagnosis("stalled", evidence([0.3] * 128, gpu_fields=gaps(0.5), **fed)).advice  # type: ignore[arg-type]
    assert "The job has 2,048 CPU cores for 128 GPUs and uses 1,500.5 of them: 547 more can load data." in steps


def test_every_step_with_the_jobs_own_numbers_has_its_cause() -> None:
    """Those that are only about one cause of several are told as that."""
    found = diagnosis("partially_idle", evidence([0.9] + [0.0] * 7))
    (own,) = found.own_steps
    assert own == (Cause.OVER_REQUEST, found.advice[0])
    small = diagnosis("underused", evidence([0.1] * 8, gpu_fields=gaps(0.15) | HELD))
    assert [cause for cause, _ in small.own_steps] == [Cause.SMALL_WORK] * 2
    assert small.advice[:2] == tuple(step for _, step in small.own_steps)
