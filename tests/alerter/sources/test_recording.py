"""A recording as evidence: at every instant what the alerter would have known then, and nothing of what came later."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter import history
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.recordings.tracks import tracks
from dutycycle_alerter.settings import JobMatch, KindMatch, Settings
from dutycycle_alerter.sources.recording import RecordedJob, recorded_jobs
from dutycycle_alerter.window_usage import memory_grew_at
from tests.alerter.recordings.rows import START, recording, steady

LOADING = Settings().judging.grace.longest_loading


def jobs(rows, **configured) -> list[RecordedJob]:
    made = recording(rows)
    return list(recorded_jobs(made, tracks(made), Settings(**configured)))


def only(rows, **configured) -> RecordedJob:
    (job,) = jobs(rows, **configured)
    return job


def test_a_job_lives_from_the_start_of_its_first_row_to_the_end_of_its_last():
    job = only(steady(0.5, 5))
    assert (job.start, job.end) == (START, START + 300)
    assert job.passes(60) == [START + 60 * i for i in range(1, 6)]


def test_a_row_counts_for_the_interval_that_ends_at_its_time():
    rows = [{"t": START + 10 * (i + 1), "utilization_ratio": i / 10} for i in range(11)]
    (usage,) = only(rows).evidence(START + 70).window(20).gpus
    assert (usage.allocated, usage.observed) == (20.0, 20.0)
    assert usage.busy == pytest.approx(10 * 0.5 + 10 * 0.6)


def test_a_gap_between_rows_is_allocated_and_not_observed():
    rows = [*steady(1.0, 10), *steady(1.0, 10, start=START + 1200)]
    job = only(rows)
    (inside,) = job.evidence(START + 1200).window(600).gpus
    assert (inside.allocated, inside.observed, inside.busy) == (600.0, pytest.approx(5), pytest.approx(5))
    (across,) = job.evidence(START + 1500).window(1200).gpus
    assert (across.allocated, across.observed, across.busy) == (1200.0, pytest.approx(605), pytest.approx(605))


def test_a_row_without_utilization_is_not_observed_and_never_idle():
    job = only([*steady(1.0, 5), *steady(None, 5, start=START + 300)])
    (usage,) = job.evidence(START + 600).window(600).gpus
    assert (usage.observed, usage.busy) == (pytest.approx(300), pytest.approx(300))
    assert usage.utilization == pytest.approx(1.0)


def test_jitter_loses_no_time():
    times = [START]
    for i in range(200):
        times.append(times[-1] + 10 + (0.4 if i % 2 else -0.4))
    job = only([{"t": t, "utilization_ratio": 0.5} for t in times])
    (usage,) = job.evidence(job.end).window(10_000).gpus
    assert usage.observed == pytest.approx(usage.allocated, rel=0.01)


def test_energy_is_power_times_time_and_none_where_it_is_nowhere_known():
    job = only([*steady(0.5, 10, power_watts=300.0), *steady(0.5, 10, gpu="1")])
    with_power, without = job.evidence(START + 600).window(600).gpus
    assert with_power.energy == pytest.approx(300 * 600)
    assert without.energy is None


def test_gaps_are_seconds_by_their_length():
    job = only(steady(0.5, 10, idle_gap_lt2_ratio=0.1, idle_gap_2to30_ratio=0.3))
    (usage,) = job.evidence(START + 600).window(300).gpus
    assert (usage.gap_lt2, usage.gap_2to30) == (pytest.approx(30), pytest.approx(90))
    assert (usage.gap_30to600, usage.gap_ge600) == (0.0, 0.0)


def test_without_columns_of_gaps_none_is_known():
    (usage,) = only(steady(0.0, 10)).evidence(START + 600).window(300).gpus
    assert (usage.gap_lt2, usage.gap_2to30, usage.gap_30to600, usage.gap_ge600) == (None, None, None, None)


def test_low_time_is_that_of_rows_up_to_15_percent():
    """Idle ones are low as well; what was not measured is neither."""
    values = [0.0, 0.15, 0.16, None, 0.9]
    rows = [{"t": START + 60 * (i + 1), "utilization_ratio": value} for i, value in enumerate(values)]
    (usage,) = only(rows).evidence(START + 300).window(300).gpus
    assert (usage.low, usage.observed) == (pytest.approx(120), pytest.approx(240))


def test_gaps_longer_than_a_row_are_seen_in_the_rows():
    """A pause of a minute every ten, and at the end half an hour of nothing."""
    no_gaps = {"idle_gap_lt2_ratio": 0.0, "idle_gap_2to30_ratio": 0.0}
    rows = [
        {
            "t": START + 10 * (i + 1),
            "utilization_ratio": 0.0 if (i % 60 < 6 and i < 240) or i >= 300 else 0.9,
            **no_gaps,
        }
        for i in range(480)
    ]
    job = only(rows)
    (first,) = job.evidence(START + 2400).window(2400).gpus
    assert (first.gap_30to600, first.gap_ge600) == (pytest.approx(240), 0.0)
    (last,) = job.evidence(START + 4800).window(1200).gpus
    assert (last.gap_30to600, last.gap_ge600) == (0.0, pytest.approx(1200))


def test_memory_and_processes_are_the_windows_highest():
    rows = steady(0.5, 5, memory_used_bytes=5.0, memory_total_bytes=9.0, processes=1.0)
    rows += steady(0.5, 5, start=START + 300, memory_used_bytes=7.0, processes=3.0)
    (usage,) = only(rows).evidence(START + 600).window(300).gpus
    assert (usage.memory_used, usage.memory_total, usage.processes) == (7.0, 9.0, 3.0)
    (later,) = only(rows).evidence(START + 300).window(300).gpus
    assert (later.memory_used, later.processes) == (5.0, 1.0)


@pytest.mark.parametrize("walked", [0, 10_000])
def test_the_highest_reading_is_that_of_the_window_alone(walked: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "_MOST_WALKED", walked)
    rows = [
        {"t": START + 60 * (i + 1), "utilization_ratio": 0.5, "processes": value}
        for i, value in enumerate([3.0, None, 1.0, 2.0, 4.0])
    ]
    job = only(rows)
    for length, most in ((60, 2.0), (120, 2.0), (180, 2.0), (240, 3.0), (1000, 3.0)):
        (usage,) = job.evidence(START + 240).window(length).gpus
        assert usage.processes == most


@pytest.mark.parametrize(
    ("utilization", "baseline"),
    [
        (0.0, 578e6),
        # A GPU that works without a process hides its processes.
        (0.9, None),
    ],
)
def test_what_a_gpu_holds_without_a_process_is_learned_by_model(utilization: float, baseline: float | None):
    free = {"processes": 0.0, "workload": "other", "model": "H100"}
    rows = steady(0.5, 5, memory_used_bytes=7e9, processes=1.0, model="H100")
    rows += steady(utilization, 5, gpu="1", memory_used_bytes=578e6, **free)
    rows += steady(utilization, 5, gpu="2", memory_used_bytes=600e6, **free)
    mine = next(job for job in jobs(rows) if job.job.id == "job")
    (usage,) = mine.evidence(START + 300).window(300).gpus
    assert usage.memory_baseline == baseline


def test_cpu_and_pressure_are_the_nodes_and_not_counted_once_per_gpu():
    host = {"cpu_cores": 6.0, "cpu_limit_cores": 8.0, "io_pressure_ratio": 0.25}
    rows = [row for gpu in "01" for row in steady(0.5, 10, gpu=gpu, **host)]
    rows += [row for gpu in "01" for row in steady(0.5, 10, gpu=gpu, node="n2", cpu_cores=2.0, cpu_limit_cores=8.0)]
    usage = only(rows).evidence(START + 600).window(300).host
    assert usage.cpu_cores == pytest.approx(8.0)
    assert usage.cpu_of_limit == pytest.approx(0.75)
    assert usage.io_pressure == pytest.approx(0.25)
    assert usage.cpu_pressure is None


def test_the_cores_of_a_job_are_not_known_where_those_on_one_of_its_nodes_are_not() -> None:
    rows = [row for gpu in "01" for row in steady(0.5, 10, gpu=gpu, cpu_cores=6.0, cpu_limit_cores=8.0)]
    rows += [row for gpu in "01" for row in steady(0.5, 10, gpu=gpu, node="n2")]
    usage = only(rows).evidence(START + 600).window(300).host
    assert (usage.cpu_cores, usage.cpu_of_limit) == (None, pytest.approx(0.75))


def test_gpus_are_in_the_order_of_nodes_and_numbers():
    rows = [row for gpu in ("10", "2", "1") for row in steady(0.5, 5, gpu=gpu)]
    assert [gpu.index for gpu in only(rows).evidence(START + 60).job.gpus] == ["1", "2", "10"]


def test_a_gpu_is_of_the_job_only_while_it_is_allocated():
    """One that joined later is not there before; one that left is not judged as idle."""
    rows = [*steady(0.5, 30), *steady(0.5, 10, gpu="1"), *steady(0.5, 10, gpu="2", start=START + 1200)]
    job = only(rows)
    present = {minute: [gpu.index for gpu in job.evidence(START + 60 * minute).job.gpus] for minute in (5, 15, 25)}
    assert present == {5: ["0", "1"], 15: ["0"], 25: ["0", "2"]}


def test_the_last_seconds_of_a_job_are_judged_on_all_its_gpus():
    """Rows of several GPUs do not end at the same instant."""
    rows = [*steady(0.0, 30), *steady(0.9, 30, gpu="1", start=START - 7)]
    job = only(rows)
    assert len(job.evidence(START + 1800).job.gpus) == 2


def test_nothing_of_the_future_is_known():
    rows = [*steady(0.0, 30, processes=0.0), *steady(0.5, 30, start=START + 1800, processes=1.0)]
    job = only(rows)
    assert job.evidence(START + 1700).job.first_process is None
    assert job.evidence(START + 1860).job.first_process == START + 1800


def test_without_a_column_of_processes_none_is_known():
    job = only(steady(0.5, 5))
    assert job.evidence(START + 60).job.first_process is None
    assert job.evidence(START + 60).window(60).gpus[0].processes is None


def test_consumption_since_a_pass_is_by_model():
    rows = [*steady(0.5, 10, model="A", power_watts=100.0), *steady(0.25, 10, gpu="1", model="B")]
    a, b = only(rows).evidence(START + 600, since=START + 300).recent
    assert (a.model, a.observed, a.busy, a.energy) == ("A", 300.0, pytest.approx(150), pytest.approx(30_000))
    assert (b.model, b.wasted, b.energy) == ("B", pytest.approx(225), None)


def test_idle_is_counted_gpu_by_gpu():
    rows = [*steady(0.9, 10), *steady(0.002, 10, gpu="1")]
    (used,) = only(rows).evidence(START + 600, since=START + 300).recent
    assert used.idle == pytest.approx(0.998 * 300)


def test_kinds_and_uneven_jobs_are_configured():
    rows = [*steady(0.5, 5, workload="jupyter-ann"), *steady(0.5, 5, workload="moe", gpu="1")]
    notebook, moe = jobs(
        rows,
        kinds=(KindMatch(workload="jupyter-*", kind=JobKind.INTERACTIVE),),
        uneven_by_design=(JobMatch(workload="moe"),),
    )
    assert (notebook.job.kind, notebook.job.expect_uneven) == (JobKind.INTERACTIVE, False)
    assert (moe.job.kind, moe.job.expect_uneven) == (JobKind.BATCH, True)


def test_kinds_may_be_told_by_the_model_of_a_recorded_gpu_and_not_by_labels_that_no_recording_has():
    rows = [*steady(0.5, 5, workload="a", model="NVIDIA H100"), *steady(0.5, 5, workload="b", gpu="1", model="L4")]
    labelled = KindMatch(label="team=*", kind=JobKind.INTERACTIVE)
    large, small = jobs(
        rows,
        kinds=(labelled, KindMatch(model="*H100*", kind=JobKind.SERVING)),
        uneven_by_design=(JobMatch(label="team=*"), JobMatch(model="L4")),
    )
    assert (large.job.kind, large.job.expect_uneven) == (JobKind.SERVING, False)
    assert (small.job.kind, small.job.expect_uneven) == (JobKind.BATCH, True)


def test_a_workload_of_single_rows_has_no_life_to_judge():
    assert jobs([{"t": START}, {"t": START, "gpu": "1"}]) == []


def test_passes_are_made_only_where_something_new_is_known():
    """A time stamp in the far future must not cost a pass for every minute until then."""
    job = only([*steady(0.5, 5), {"t": START + 10**9, "utilization_ratio": 0.5}])
    assert len(job.passes(60)) <= 6


def test_the_last_row_is_judged_as_it_ends():
    """Of rows that stand for a quarter of an hour the last is a large part of a short run."""
    job = only([{"t": START + 900 * n, "utilization_ratio": 0.5} for n in (1, 2)] + [{"t": START + 2500}])
    assert job.passes(60)[-1] == job.end == START + 2500


SPANS = st.lists(
    st.tuples(st.floats(1, 400), st.none() | st.floats(0, 1), st.none() | st.floats(0, 100)), min_size=2, max_size=40
)


def _rows(spans):
    t, rows = START, []
    for gap, utilization, memory in spans:
        t += gap
        rows.append({"t": t, "utilization_ratio": utilization, "memory_used_bytes": memory})
    return rows


@given(SPANS)
def test_all_windows_together_hold_what_the_rows_hold(spans):
    rows = _rows(spans)
    made = recording(rows)
    found = tracks(made)
    (job,) = recorded_jobs(made, found, Settings())
    edges = [job.start, *job.passes(60), job.end]
    parts = [job.evidence(b).window(b - a).gpus[0] for a, b in pairwise(edges) if b > a]
    pairs = zip(rows, found.weights.tolist(), strict=True)
    known = [(row["utilization_ratio"], weight) for row, weight in pairs if row["utilization_ratio"] is not None]
    assert sum(part.observed for part in parts) == pytest.approx(sum(weight for _, weight in known), abs=1e-3)
    assert sum(part.busy for part in parts) == pytest.approx(sum(used * weight for used, weight in known), abs=1e-3)
    assert sum(part.allocated for part in parts) == pytest.approx(job.end - job.start, abs=1e-3)


@given(SPANS)
def test_memory_growth_is_what_the_running_alerter_would_have_seen(spans):
    job = only(_rows(spans))
    for at in job.passes(60):
        series = job.evidence(at).window.args[0]
        until = min(at, job.start + LOADING)
        assert job.evidence(at).memory_grew_at == memory_grew_at(series, job.start, until)


def test_memory_that_is_taken_long_after_the_start_is_no_loading():
    taken = [1e9] * 15 + [4e9] * 10 + [9e9] * 20
    rows = [
        row | {"memory_used_bytes": used, "memory_total_bytes": 1e10}
        for row, used in zip(steady(0.5, 45, every=60), taken, strict=True)
    ]
    grew = [only(rows).evidence(START + 60 * minute).memory_grew_at for minute in (15, 20, 26, 45)]
    assert grew == [START, *[START + 60 * 16] * 3]
