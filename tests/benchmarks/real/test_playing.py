"""Recorded runs as jobs: each GPU is as busy as recorded, and no two runs are on one at a time."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.real.playing import GPUS, LOADING, MEMORY_STEP, REST, course, schedule
from benchmarks.real.runs import Row, Run, Track
from tests.fakes.nvml import H100

LEVELS = st.floats(0, 1)
MEMORY = st.floats(0, 80e9) | st.none()


@st.composite
def _tracks(draw: st.DrawFn) -> Track:
    interval = draw(st.sampled_from([10.0, 15.0, 30.0]))
    begin = draw(st.integers(0, 20)) * interval
    count = draw(st.integers(2, 40))
    rows = tuple(
        Row(begin + (n + 1) * interval, draw(LEVELS), draw(MEMORY), 80e9, draw(st.floats(0, 700)), 0.0)
        for n in range(count)
    )
    return Track("0", "H100", interval, rows)


def _run(tracks: list[Track], name: str = "r") -> Run:
    return Run(name, "ada", "n1", tuple(tracks))


@given(st.lists(_tracks(), min_size=1, max_size=3))
def test_every_gpu_is_as_busy_as_recorded(tracks: list[Track]) -> None:
    run = _run(tracks)
    phases = course(run)
    ends = [*(phase.at for phase in phases[1:]), run.length]
    assert phases[0].at == 0
    for place, track in enumerate(run.tracks):
        recorded = sum(row.utilization * track.interval for row in track.rows)
        played = sum(phase.loads[place].pattern.busy(end - phase.at) for phase, end in zip(phases, ends, strict=True))
        assert played == pytest.approx(recorded, abs=1e-6)


@given(st.lists(_tracks(), min_size=1, max_size=3))
def test_memory_grows_as_soon_as_it_did_while_it_may_move_grace(tracks: list[Track]) -> None:
    run = _run(tracks)
    phases = course(run)
    assert all(phase.at < LOADING for phase in phases)
    for place, track in enumerate(run.tracks):
        played = [(phase.at, phase.loads[place].processes[0].memory) for phase in phases]
        assert all(before <= after <= H100.memory for (_, before), (_, after) in pairwise(played))
        for row in track.rows:
            if row.memory_used is not None and row.t - run.start < LOADING:
                held = [memory for at, memory in played if at <= row.t - run.start + 1e-6][-1]
                assert held >= (min(0.98, row.memory_used / 80e9) - MEMORY_STEP) * H100.memory - 1


@given(st.lists(st.tuples(st.integers(1, GPUS), st.floats(60, 9000)), min_size=1, max_size=12), st.integers(1, 4))
def test_no_two_runs_are_on_a_gpu_at_a_time(sizes: list[tuple[int, float]], nodes: int) -> None:
    runs = [
        _run([Track(str(g), "", length / 2, (_at(length / 2), _at(length))) for g in range(gpus)], f"r{number}")
        for number, (gpus, length) in enumerate(sizes)
    ]
    jobs = schedule(runs, nodes).jobs
    assert sorted(job.mechanism for job in jobs) == sorted(run.workload for run in runs)
    for one, other in combinations(jobs, 2):
        if set(one.gpus) & set(other.gpus):
            assert other.start >= one.end + REST - 1e-6 or one.start >= other.end + REST - 1e-6


def _at(t: float) -> Row:
    return Row(t, 0.5, None, None, None, None)
