"""A slice with readings is compared with those without on either side of it, beside an exporter on the NVML double."""

from __future__ import annotations

import time

import pytest

from benchmarks.gpu import overhead
from benchmarks.gpu.overhead import compare, middle, told, verdict

SLICES = 7
LENGTH = 1.5
"""Seconds in which the exporter reads some times."""


def test_what_the_exporter_costs_is_found_beside_a_drift_that_is_larger():
    steps = [[(0.02 + 0.001 * place) * (1.001 if place % 2 else 1)] * 5 for place in range(SLICES)]
    assert compare(steps) == [pytest.approx(0.001)] * 3


def test_a_median_does_not_see_a_slice_that_something_else_held_up():
    steps = [[0.02] * 9 for _ in range(SLICES)]
    steps[1] = [0.02] * 8 + [2.0]
    assert compare(steps)[0] > 1
    assert "median +0.000 %" in told(steps)
    assert middle(steps) == 0.02


@pytest.mark.parametrize(
    ("mean", "error", "said"),
    [
        (0.0002, 0.0003, "met even by all of them"),
        (0.0006, 0.0003, "not told by this"),
        (0.0015, 0.0003, "not told by this"),
        (0.0015, 0.0002, "missed by all of them"),
    ],
)
def test_the_aim_is_met_or_missed_by_two_standard_errors(mean, error, said):
    assert verdict(mean, error) == said


@pytest.fixture
def beside(nvml_driver, monkeypatch):
    """On the NVML double, and without warming up."""
    driver = nvml_driver()
    driver.add_gpu()
    for name, value in driver.start().environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(overhead, "WARM", 0.0)
    return driver


def test_the_exporter_reads_in_every_other_slice_and_stands_still_in_those_between(beside, monkeypatch):
    reads = []
    run = overhead._run

    def calls():
        return beside.state.calls("nvmlDeviceGetUtilizationRates")

    def counted(step, length):
        before = calls()
        found = run(step, length)
        if length == LENGTH:
            # Where the machine is busy, the exporter may read later than that.
            deadline = time.monotonic() + 60
            while len(reads) % 2 and calls() == before and time.monotonic() < deadline:
                found += run(step, length)
            reads.append(calls() - before)
        return found

    monkeypatch.setattr(overhead, "_run", counted)
    found = overhead.slices(lambda: time.sleep(0.01), cycles=2, length=LENGTH)
    assert [count > 0 for count in reads] == [False, True, False, True, False]
    assert len(found.steps) == 5
    assert found.cpu > 0


def test_an_exporter_whose_child_was_replaced_meanwhile_is_no_measurement(beside, monkeypatch):
    pids = iter([(1, 2), (1, 3)])
    monkeypatch.setattr(overhead, "_pids", lambda _: next(pids))
    for name, answer in (("_signal", None), ("_cpu", 0.0)):
        monkeypatch.setattr(overhead, name, lambda *_, answer=answer: answer)
    with pytest.raises(RuntimeError, match=r"were \(1, 2\) and are \(1, 3\): it began anew"):
        overhead.slices(lambda: time.sleep(0.01), cycles=1, length=0.1)
