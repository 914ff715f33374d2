"""What incidents say that was wasted while they were open, beside what was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.model import SeenIncident
from benchmarks.box.scoring import figures, score, wasted
from tests.benchmarks.box.scored import (
    HOUR,
    JOB,
    LENGTH,
    fleet,
    incident,
    job,
    observed,
    perfect,
    scenario,
    told,
    truth,
)

BEGIN = JOB.start
# Two GPUs, each busy for half of the time: as many GPU-seconds are wasted as seconds pass.
CASES: dict[str, tuple[SeenIncident, float | None]] = {
    "from the beginning of its window on": (incident(BEGIN + HOUR, BEGIN + 2 * HOUR, started=BEGIN + HOUR / 2), 1.5),
    "until the job's end": (incident(JOB.end - HOUR, JOB.end + 60, started=JOB.end - 2 * HOUR), 2.0),
    "not before the job's beginning": (incident(BEGIN + HOUR, BEGIN + 2 * HOUR, started=BEGIN - HOUR), 2.0),
    "still open as the run ends": (incident(BEGIN + HOUR, None, started=BEGIN + HOUR), 7.0),
    "not while it was resolved": (
        incident(
            BEGIN + HOUR,
            BEGIN + 6 * HOUR,
            told=(
                told(BEGIN + HOUR, "opened", "idle"),
                told(BEGIN + 2 * HOUR, "resolved"),
                told(BEGIN + 5 * HOUR, "reopened", "idle"),
                told(BEGIN + 6 * HOUR, "resolved"),
            ),
            started=BEGIN + HOUR / 2,
        ),
        2.5,
    ),
    "its beginning was not kept": (incident(BEGIN + HOUR, BEGIN + 2 * HOUR), None),
}


@pytest.mark.parametrize("case", CASES)
def test_an_incident_wastes_what_its_job_did_not_use_while_it_was_open(case: str) -> None:
    seen, hours = CASES[case]
    found = score(scenario([JOB]), {1: truth(JOB)}, observed([seen]))
    (record,) = found.incidents
    assert record.truly_wasted == (None if hours is None else pytest.approx(hours * HOUR))


def test_what_is_wasted_follows_the_truth_through_time() -> None:
    """Idle for an hour, and busy from then on."""
    one = job(end=JOB.start + 8 * HOUR)
    curve = ((0.0, HOUR, 8 * HOUR), (0.0, 0.0, 2 * 7 * HOUR))
    seen = incident(one.start + 1800, one.start + 3 * HOUR, started=one.start + 600)
    found = score(scenario([one]), {1: replace(truth(one), worked=curve)}, observed([seen]))
    assert found.incidents[0].truly_wasted == pytest.approx(2 * (HOUR - 600))


def test_errors_are_shares_of_what_was_truly_wasted() -> None:
    seen = [
        incident(BEGIN + HOUR, BEGIN + 3 * HOUR, started=BEGIN + HOUR, wasted=2.2 * HOUR),
        incident(BEGIN + 4 * HOUR, BEGIN + 5 * HOUR, started=BEGIN + 4 * HOUR, wasted=0.9 * HOUR, id=2),
        incident(BEGIN + 6 * HOUR, LENGTH, started=BEGIN + 6 * HOUR, id=3),
    ]
    total = wasted.of_incidents(score(scenario([JOB]), {1: truth(JOB)}, observed(seen)).incidents)
    assert (total.true, total.seen) == pytest.approx((3 * HOUR, 3.1 * HOUR))
    assert total.errors == pytest.approx((0.1, -0.1))


def test_a_perfect_observer_is_not_out() -> None:
    total = wasted.of_incidents(figures.efficiency(score(*fleet(), perfect())).incidents)
    assert total.errors == pytest.approx((0.0, 0.0))
