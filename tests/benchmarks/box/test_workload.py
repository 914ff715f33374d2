"""The workload: what is asked for, by whom and when, and that it follows what was published."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.box.mechanisms import simulate
from benchmarks.box.parameters import load
from benchmarks.box.plan import plan
from benchmarks.box.workload import Request, requests

DATA = Path(__file__).parents[4] / "shared" / "data"
measured = pytest.mark.skipif(not DATA.is_dir(), reason="the published measurements are not at ../shared/data")
PARAMETERS = load()
SHORT = "short"


def asked(count: int, seed: int = 1) -> list[Request]:
    return list(islice(requests(PARAMETERS, np.random.default_rng(seed)), count))


def test_the_share_of_mixed_jobs_is_the_parameters() -> None:
    drawn = asked(2000)
    assert sum(one.mixed for one in drawn) / len(drawn) == pytest.approx(PARAMETERS.mixed.share, abs=0.01)


def test_mixed_jobs_are_two_in_turn_or_near_a_bound() -> None:
    at_once = {name for name, recipe in PARAMETERS.recipes.items() if recipe.mixed}
    for one in asked(500):
        marked = ", then " in one.mechanism or one.mechanism.endswith(" (near)") or one.mechanism in at_once
        assert one.mixed == marked


def test_jobs_come_in_order() -> None:
    assert all(a.at <= b.at for a, b in pairwise(asked(800)))


def test_a_sweep_comes_at_once_and_is_one_users() -> None:
    bursts = [one for one in asked(800) if one.mechanism == "sweep"]
    assert len(bursts) > 10
    assert len({one.seed for one in bursts}) == len(bursts)
    assert all(one.gpus == 1 for one in bursts)


def test_a_few_users_have_most_jobs_and_many_have_some() -> None:
    users = Counter(one.user for one in asked(2000))
    counts = sorted(users.values(), reverse=True)
    assert sum(counts[: len(counts) // 10]) > 0.4 * sum(counts)
    assert len(counts) > 40


def test_sizes_and_their_mean_are_as_published() -> None:
    sizes = [one.gpus for one in asked(2000)]
    assert 1.7 <= np.mean(sizes) <= 2.5
    assert sum(size == 1 for size in sizes) > 0.5 * len(sizes)
    assert set(sizes) == {1, 2, 4, 8, 16}


def lognormal(minutes: np.ndarray) -> tuple[float, float]:
    return float(np.median(minutes)), float(np.log(minutes).std())


def distance(some: np.ndarray, others: np.ndarray) -> float:
    """Kolmogorov's and Smirnov's, of durations weighted by themselves: of GPU time rather than of jobs."""
    at = np.concatenate([some, others])
    shares = [(one[:, None] * (one[:, None] <= at)).sum(axis=0) / one.sum() for one in (some, others)]
    return float(np.abs(shares[0] - shares[1]).max())


@measured
def test_durations_are_those_that_were_measured() -> None:
    """Of GPU jobs at a university, and of Weights & Biases runs."""
    oslo = []
    with (DATA / "slurm_sacct_oslo.csv").open() as file:
        for row in csv.reader(file):
            one = dict(part.split("=", 1) for part in row if "=" in part)
            if "." not in one.get("JobID", ".") and "gres/gpu=" in one.get("AllocTRES", ""):
                oslo.append(float(one["ElapsedRaw"]) / 60)
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    with gzip.open(DATA / "wandb_runs_v2.csv.gz", "rt") as file:
        for one in csv.DictReader(file):
            t = float(one["t"])
            first[one["workload"]] = min(t, first.get(one["workload"], t))
            last[one["workload"]] = max(t, last.get(one["workload"], t))
    runs = np.array([(last[name] - first[name]) / 60 for name in first if last[name] > first[name]])
    ours = PARAMETERS.arrivals.minutes
    medians, sigmas = zip(lognormal(np.array(oslo)), lognormal(runs), strict=True)
    assert 0.9 * min(medians) <= ours.median <= 1.1 * max(medians)
    assert ours.sigma == pytest.approx(np.mean(sigmas), abs=0.15)
    assert (ours.median, ours.sigma) == (
        PARAMETERS.recipes[SHORT].minutes.median,
        PARAMETERS.recipes[SHORT].minutes.sigma,
    )
    comparable = runs[(runs >= ours.low) & (runs <= ours.high)]
    random = np.random.default_rng(1)
    drawn = np.array([ours.draw(random) for _ in range(2000)])
    # So far apart are two samples of one distribution once in a hundred times, of as many runs as the weights leave.
    alike = 1.63 * np.sqrt(np.sum(comparable**2)) / np.sum(comparable)
    assert len(comparable) > 40
    assert distance(comparable, drawn) < alike
    # Another tail is told apart: one of the same bounds whose runs are as long as they can be.
    assert distance(comparable, np.full(100, ours.high)) > alike


@measured
def test_utilization_over_the_fleet_is_like_that_of_published_clusters() -> None:
    """Seren, Kalos, Philly and PAI: how much of the GPUs' time is at 0, and how much over 80 %."""
    cdf: dict[str, list[tuple[float, float]]] = {}
    with gzip.open(DATA / "acme_cdfs.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["series"].endswith("gpu_util"):
                cdf.setdefault(row["series"], []).append((float(row["value"]), float(row["cdf_pct"]) / 100))
    idle = [max(share for value, share in rows if value <= 0) for rows in cdf.values()]
    busy = [1 - max(share for value, share in rows if value <= 80) for rows in cdf.values()]
    ours = sampled(1)
    assert min(idle) - 0.1 <= np.mean(ours <= 0.005) <= max(idle)
    assert min(busy) <= np.mean(ours > 0.8) <= max(busy)


def sampled(seed: int, every: float = 15.0) -> np.ndarray:
    """The mean utilization of every GPU in each 15 s, free ones included."""
    scenario = plan(PARAMETERS, seed)
    found = []
    for job in scenario.jobs[::16]:
        course = simulate(job).course
        ends = [*(phase.at for phase in course[1:]), job.end - job.start]
        for phase, end in zip(course, ends, strict=True):
            at = np.arange(0, end - phase.at, every)
            if len(at) > 1:
                found += [np.diff(load.pattern.busy(at)) / every for load in phase.loads]
    values = np.concatenate(found)
    everything = sum((job.end - job.start) * len(job.gpus) for job in scenario.jobs)
    capacity = len(scenario.nodes) * scenario.gpus_per_node * scenario.length
    return np.append(values, np.zeros(round(len(values) * (capacity - everything) / everything)))
