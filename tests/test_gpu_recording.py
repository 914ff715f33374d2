"""Recordings of a real GPU show what its programs did by CUDA's own clock, and the rules find what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dutycycle_alerter.analysis import Analysis, analyze
from dutycycle_alerter.recordings import Recording, load
from dutycycle_alerter.settings import Settings

FILES = [Path(__file__).parent / "data" / name for name in ("h200.csv.gz", "h200-again.csv.gz")]

# Of the GPU's time, by CUDA events (tests/data/README.md). Bound by launches, NVML sees more than events do: not here.
SHARES = {
    "slurm/1001": 0.9975,
    "slurm/1011": 0.1670,
    "slurm/1031": 0.9981,
    "slurm/1111": 0.9996,
    "slurm/1121": 0.0,
    "slurm/2001": 0.9967,
    "slurm/2011": 0.1670,
    "slurm/2021": 0.9996,
}
MULTIPROCESSORS = {
    "slurm/1041": 33 / 132,
    "slurm/1051": 66 / 132,
    "slurm/1061": 1.0,
    "slurm/1111": 1 / 132,
    "slurm/2021": 1 / 132,
}
FOUND = {
    "slurm/1011": ("stalled", ["data loading"]),
    "slurm/1021": ("underused", ["small work per step"]),
    "slurm/1101": ("underused", ["small work per step"]),
    "slurm/1111": ("low_sm_activity", ["small work per step"]),
    "slurm/1121": ("idle", ["idle notebook"]),
    "slurm/1131": ("stalled", ["data loading", "small work per step"]),
    "slurm/1132": ("stalled", ["data loading", "small work per step"]),
    "slurm/2011": ("stalled", ["data loading"]),
    "slurm/2021": ("low_sm_activity", ["small work per step"]),
    "slurm/2031": ("stalled", ["data loading", "small work per step"]),
    "slurm/2032": ("stalled", ["data loading", "small work per step"]),
}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return load(FILES)


@pytest.fixture(scope="module")
def analysis(recording: Recording) -> Analysis:
    return analyze(recording, Settings(time_scale=30))


def at_work(recording: Recording, workload: str, column: str) -> NDArray[np.float64]:
    """A column's rows of a job, without the time in which it starts and ends."""
    jobs = recording.texts["workload"]
    return recording.numbers[column][jobs.codes == jobs.names.index(workload)][12:-2]


@pytest.mark.parametrize(("workload", "share"), SHARES.items())
def test_the_duty_cycle_is_what_cuda_events_say_within_two_points(recording, workload, share):
    assert np.nanmean(at_work(recording, workload, "utilization_ratio")) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(("workload", "held"), MULTIPROCESSORS.items())
def test_multiprocessors_are_as_active_as_kernels_hold_them(recording, workload, held):
    active = at_work(recording, workload, "sm_active_ratio")
    busy = at_work(recording, workload, "utilization_ratio")
    assert np.nansum(active) / np.nansum(busy) == pytest.approx(held, rel=0.03)


def test_the_rules_find_the_mechanism_of_each_program_and_nothing_in_those_that_are_well(analysis):
    found = {f.subject: (f.rule, [str(cause) for cause in f.diagnosis.causes]) for f in analysis.findings}
    assert found == FOUND
    assert len(analysis.findings) == len(FOUND)


def test_every_row_is_read(recording):
    assert recording.skipped.count == 0
    assert len(recording) == 971 + 500
