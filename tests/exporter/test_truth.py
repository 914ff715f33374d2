"""The counters agree with what really happened, and a gauge that is sampled does not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.exporter.published import samples
from tests.fakes.nvml import IDLE, Level, Load, Paused, Steps

HOUR = 3600


def scrape(rig, every, seconds):
    """(time, observed, busy, gauge) at every scrape."""
    seen = []
    for turn in range(1, round(seconds / rig.interval) + 1):
        rig.turn()
        if turn * rig.interval % every == 0:
            names = ("gpu_observed_seconds_total", "gpu_busy_seconds_total", "gpu_utilization_ratio")
            seen.append((rig.clock.now, *(rig.value(name) for name in names)))
    return seen


@pytest.mark.parametrize("beat", [1.0, 1.0005])
@pytest.mark.parametrize("every", [5, 10, 15, 30, 60])
def test_busy_seconds_are_within_one_percent_where_a_gauge_is_off_by_tens_of_points(make_rig, every, beat):
    """Steps as long as the scrape interval, or nearly so: the gauge sees the same moment of every step."""
    rig = make_rig(gpus=1)
    rig.node.slurm_job(1, {0: Steps(period=every * beat, duty=0.5)})
    rig.turn()
    seen = scrape(rig, every, HOUR / 2)
    (start, observed_before, busy_before, _), (end, observed, busy, _) = seen[0], seen[-1]
    truth = rig.node.driver.truth.busy_seconds(0, start, end)
    gauge = sum(value for *_, value in seen) / len(seen)
    driven, counted = truth / (end - start), (busy - busy_before) / (observed - observed_before)
    print(f"every {every} s: {counted:.2%} by the counters, {gauge:.2%} by the gauge, {driven:.2%} driven")
    assert observed - observed_before == pytest.approx(end - start, rel=0.01)
    assert busy - busy_before == pytest.approx(truth, rel=0.01)
    assert abs(gauge - driven) > 0.2


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(Steps(period=0.36, duty=0.17), id="steps much shorter than a sample period apart"),
        pytest.param(Steps(period=1, duty=0.17), id="starved"),
        pytest.param(Steps(period=2, duty=0.4), id="stalled"),
        pytest.param(Steps(period=7.3, duty=0.6), id="steps that no interval divides"),
        pytest.param(Level(0.93), id="fed"),
        pytest.param(Paused(Level(0.9), every=540, length=60), id="checkpoints"),
        pytest.param(IDLE, id="idle"),
    ],
)
def test_the_owners_counters_agree_with_the_truth_too(make_rig, pattern):
    rig = make_rig(gpus=1, hold=1.0)
    rig.node.slurm_job(1, {0: pattern})
    rig.turn(2)
    names = ("allocated", "observed", "busy")
    before = [rig.value(f"workload_gpu_{name}_seconds_total") for name in names]
    start = rig.clock.now
    rig.turn(HOUR // 5)
    after = [rig.value(f"workload_gpu_{name}_seconds_total") for name in names]
    allocated, observed, busy = (b - a for a, b in zip(before, after, strict=True))
    truth = rig.node.driver.truth.busy_seconds(0, start, rig.clock.now)
    assert allocated == pytest.approx(HOUR)
    assert observed == pytest.approx(HOUR, rel=0.001)
    # NVML's percent are whole: half of one is the error of a constant level.
    assert busy == pytest.approx(truth, rel=0.01, abs=0.1)


@pytest.mark.parametrize(
    ("pattern", "length", "share"),
    [
        pytest.param(
            Steps(period=1, duty=0.17, offset=0.1), "lt2", 4 / 6, id="starved: a step every second, across two samples"
        ),
        pytest.param(Steps(period=10, duty=0.4), "2to30", 0.6, id="stalls of 6 s"),
        pytest.param(Paused(Level(0.9), every=540, length=60), "30to600", 0.1, id="a minute's checkpoint"),
    ],
)
def test_idle_gaps_have_the_length_that_was_driven(make_rig, pattern, length, share):
    rig = make_rig(gpus=1, hold=1.0)
    rig.node.slurm_job(1, {0: pattern})
    rig.turn(HOUR // 5)
    observed = rig.value("workload_gpu_observed_seconds_total")
    gaps = {name: rig.value("workload_gpu_idle_gap_seconds_total", length=name) for name in ("lt2", "2to30", "30to600")}
    assert gaps.pop(length) / observed == pytest.approx(share, abs=0.03)
    assert all(seconds / observed < 0.03 for seconds in gaps.values())


def test_an_idle_gpu_whose_buffer_runs_dry_is_observed_and_idle(make_rig):
    rig = make_rig(gpus=0)
    rig.node.driver.add_gpu(samples_when_idle=False)
    rig.turn(HOUR // 5)
    assert rig.value("gpu_busy_seconds_total") == 0
    assert rig.value("gpu_observed_seconds_total") == pytest.approx(HOUR, rel=0.01)


@pytest.mark.parametrize(
    "pattern",
    [Steps(2, 0.4), Steps(10, 0.4), Paused(Level(0.9), every=540, length=60)],
    ids=repr,
)
def test_a_driver_that_writes_no_samples_of_an_idle_gpu_does_not_make_its_pauses_vanish(make_rig, pattern):
    rig = make_rig(gpus=0, hold=1.0)
    rig.node.driver.add_gpu(samples_when_idle=False)
    rig.turn(6)
    rig.node.slurm_job(1, {0: pattern})
    rig.turn()
    start, names = rig.clock.now, ("gpu_busy_seconds_total", "gpu_observed_seconds_total")
    before = [rig.value(name) for name in names]
    rig.turn(HOUR // 5)
    busy, observed = (rig.value(name) - value for name, value in zip(names, before, strict=True))
    assert busy == pytest.approx(rig.node.driver.truth.busy_seconds(0, start, rig.clock.now), rel=0.01)
    assert observed == pytest.approx(HOUR, rel=0.01)


def test_energy_and_power_come_from_the_devices_own_counter(make_rig):
    rig = make_rig(gpus=1)
    rig.node.slurm_job(1, {0: Steps(period=10, duty=0.3)})
    rig.turn()
    start = rig.clock.now
    before = rig.value("gpu_energy_joules_total")
    powers = []
    for _ in range(120):
        rig.turn()
        powers.append(rig.value("gpu_power_watts"))
    truth = rig.node.driver.truth.energy_joules(0, start, rig.clock.now)
    assert rig.value("gpu_energy_joules_total") - before == pytest.approx(truth, rel=0.001)
    # The counter is read at every other turn: the first power is that of the time before.
    assert sum(powers) / len(powers) == pytest.approx(truth / (rig.clock.now - start), rel=0.01)


def test_what_jobs_one_after_the_other_are_credited_with_is_all_that_slow_counters_told(make_rig):
    """Energy is read at every other turn, this throttle counter at every sixth; jobs change hands between."""
    rig = make_rig(gpus=1, hold=1.0)
    rig.node.driver.throttle(0, "thermal", 0.5)
    rig.node.driver.run("load", {0: Load(Level(0.7))})
    shown = {"workload_gpu_energy_joules_total": {}, "workload_gpu_throttle_seconds_total": {}}
    rig.turn()
    start, jobs = rig.clock.now, {}
    for job, turns in enumerate((11, 12, 13, 1, 2, 1, 9), start=1):
        file = rig.allocate(0, job)
        jobs[str(job)] = turns * rig.interval
        for _ in range(turns):
            look(rig.turn(), shown)
    end = rig.clock.now
    file.unlink()
    for _ in range(6):
        look(rig.turn(), shown)
    joules = rig.node.driver.truth.energy_joules(0, start, end)
    for of, truth in zip(shown.values(), (joules, 0.5 * (end - start)), strict=True):
        assert of == {job: pytest.approx(truth * held / (end - start), rel=0.01) for job, held in jobs.items()}


def look(rig, shown):
    """Keep what each job's counters were when they were seen last."""
    for name, of in shown.items():
        for sample in samples(rig.text(), name):
            if sample.labels.get("reason", "thermal") == "thermal":
                of[sample.labels["job_id"]] = sample.value


def test_counters_rise_between_any_two_scrapes(make_rig):
    rig = make_rig(gpus=1)
    rig.node.slurm_job(1, {0: Level(0.5)})
    seen = scrape(rig, 5, 300)
    assert all(a[1] < b[1] and a[2] < b[2] for a, b in pairwise(seen))
