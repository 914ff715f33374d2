"""Plans: who runs where and when, of what there is enough, and that the same seed is the same plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.box import plan as planning
from benchmarks.box.faults import faults
from benchmarks.box.model import Gpu, Scenario
from benchmarks.box.parameters import DEFAULT, HELD_OUT, load
from benchmarks.box.placing import Pool
from benchmarks.box.plan import plan
from benchmarks.box.workload import Request

SEEDS = range(1, 21)
PARAMETERS = load()


@cache
def planned(seed: int) -> Scenario:
    return plan(PARAMETERS, seed)


def request(number: int, at: float, seconds: float, gpus: int) -> Request:
    return Request(at, seconds, gpus, f"user{number}", "lab", "batch", "fed", {}, False, "slurm", 8, number, 0.5)


def overlapping(held: Sequence[tuple[Gpu, float, float]]) -> list[Gpu]:
    by_gpu = defaultdict(list)
    for gpu, start, end in held:
        by_gpu[gpu].append((start, end))
    return [gpu for gpu, times in by_gpu.items() if any(a[1] > b[0] for a, b in pairwise(sorted(times)))]


def test_the_same_seed_is_the_same_plan_and_another_is_another() -> None:
    assert plan(PARAMETERS, 3) == planned(3)
    assert planned(3) != planned(4)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_two_jobs_have_a_gpu_at_a_time(seed: int) -> None:
    scenario = planned(seed)
    held = [(gpu, job.start, job.end) for job in scenario.jobs for gpu in job.gpus]
    assert overlapping(held) == []
    assert all(node in scenario.nodes and 0 <= gpu < scenario.gpus_per_node for (node, gpu), _, _ in held)
    assert all(0 <= job.start < job.end <= scenario.length for job in scenario.jobs)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_has_over_500_jobs_a_fifth_of_them_mixed(seed: int) -> None:
    scenario = planned(seed)
    assert len(scenario.jobs) > 500
    assert sum(job.mixed for job in scenario.jobs) >= 0.2 * len(scenario.jobs)
    pods = sum(job.scheduler == "k8s" for job in scenario.jobs)
    assert 0.15 <= pods / len(scenario.jobs) <= 0.3
    worked = sum((job.end - job.start) * len(job.gpus) for job in scenario.jobs)
    assert 0.75 < worked / (len(scenario.nodes) * scenario.gpus_per_node * scenario.length) < 1


def test_every_mechanism_happens_within_twenty_seeds() -> None:
    seen = {job.mechanism for seed in SEEDS for job in planned(seed).jobs}
    expected = {name for name, recipe in PARAMETERS.recipes.items() if recipe.weight}
    expected |= {f"{name} (near)" for name, recipe in PARAMETERS.recipes.items() if recipe.near_weight}
    expected |= {f"{first}, then {second}" for first, second, _ in PARAMETERS.mixed.turns}
    assert seen == expected


def test_jobs_stay_on_nodes_of_their_scheduler_and_their_model() -> None:
    scenario = planned(1)
    of_node: dict[str, str] = {}
    for job in scenario.jobs:
        for node in job.nodes:
            assert scenario.models[node] == job.model
            assert of_node.setdefault(node, job.scheduler) == job.scheduler
        if job.scheduler == "k8s":
            assert job.partition == "batch"
            assert len(job.nodes) == 1
    assert {job.model for job in scenario.jobs} == {"H100", "A100"}


def test_a_job_on_several_nodes_has_equal_parts() -> None:
    large = [job for seed in SEEDS for job in planned(seed).jobs if len(job.nodes) > 1]
    assert large
    for job in large:
        assert len({sum(node == other for other, _ in job.gpus) for node in job.nodes}) == 1


@given(
    st.lists(
        st.tuples(st.floats(0, 3000), st.floats(60, 3000), st.sampled_from([1, 2, 3, 4, 8])), min_size=1, max_size=25
    )
)
@settings(max_examples=60, deadline=None)
def test_everybody_gets_what_they_asked_for_after_they_asked(wanted: list[tuple[float, float, int]]) -> None:
    asked = [request(number, *one) for number, one in enumerate(wanted)]
    placed = Pool(("a", "b"), 4).place(asked, float("inf"))
    assert sorted(one.seed for one, _, _ in placed) == list(range(len(asked)))
    assert all(start >= one.at and len(set(gpus)) == one.gpus for one, start, gpus in placed)
    assert overlapping([(gpu, start, start + one.seconds) for one, start, gpus in placed for gpu in gpus]) == []


def test_backfill_fills_a_hole_and_delays_nobody_who_came_before() -> None:
    asked = [
        request(0, 0, 1000, 3),
        request(1, 1, 500, 4),  # waits for all four
        request(2, 2, 900, 1),  # is over before that
        request(3, 3, 2000, 1),  # would not be
    ]
    starts = {one.seed: start for one, start, _ in Pool(("a",), 4).place(asked, float("inf"))}
    assert starts == {0: 0, 1: 1000, 2: 2, 3: 1500}


def test_a_pool_refuses_what_never_fits() -> None:
    with pytest.raises(ValueError, match="16 GPUs fit on no node"):
        Pool(("a",), 8).place([request(0, 0, 10, 16)], float("inf"))


def test_faults_lie_where_they_can() -> None:
    kinds = set()
    for seed in SEEDS:
        scenario = planned(seed)
        held = [(gpu, job.start, job.end) for job in scenario.jobs for gpu in job.gpus]
        for fault in scenario.faults:
            kinds.add(fault.kind)
            holders = [one for one in held if one[0] == fault.gpu and one[1] <= fault.at <= one[2]]
            assert bool(holders) == (fault.kind in {"thermal", "xid"})
            if fault.kind in {"leaked", "lost"}:
                assert fault.until is not None
                assert overlapping([*held, (fault.gpu, fault.at, fault.until)]) == []
    assert kinds == {"thermal", "xid", "leaked", "lost"}


def test_a_hot_rank_is_on_the_gpu_that_is_hot() -> None:
    hot = [job for seed in SEEDS for job in planned(seed).jobs if job.mechanism == "hot rank"]
    found = faults(PARAMETERS.faults, hot[:1], 1e5, np.random.default_rng(1))
    thermal = [fault for fault in found if fault.kind == "thermal"]
    assert [(fault.gpu, fault.at, fault.value) for fault in thermal] == [
        (hot[0].gpus[0], hot[0].start + hot[0].parameters["start_up"], hot[0].parameters["thermal"])
    ]


def test_a_plan_of_the_held_out_parameters_is_as_large() -> None:
    scenario = plan(load(HELD_OUT), 17)
    assert len(scenario.jobs) > 500
    assert scenario.parameters == HELD_OUT.name
    assert (scenario.sample_period, scenario.full) == (0.2, 0.99)
    assert {job.sample_period for job in scenario.jobs} == {0.2}
    assert sum(job.mixed for job in scenario.jobs) >= 0.2 * len(scenario.jobs)


def test_people_get_a_table(tmp_path, capsys) -> None:
    small = tmp_path / "small.toml"
    small.write_text(DEFAULT.read_text().replace("nodes = 32", "nodes = 4").replace("hours = 6.5", "hours = 1.5"))
    assert planning.main(["--seed", "2", "--parameters", str(small)]) == 0
    first, header, *rows = capsys.readouterr().out.splitlines()
    assert "small.toml, seed 2" in first
    assert header.split() == ["mechanism", "jobs", "GPU-h", "util", "well", "may", "silent", "unruled", "must"]
    assert rows[-1].startswith("all ")
    assert planning.main(["--seed", "2", "--parameters", str(small), "--jobs"]) == 0
    assert "slurm/10001" in capsys.readouterr().out


def test_a_file_that_cannot_be_used_is_said(tmp_path, capsys) -> None:
    assert planning.main(["--parameters", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: No such file" in capsys.readouterr().err
