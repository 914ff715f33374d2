"""Mechanisms: their courses are exact, conserve time, and do what queueing theory says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.box.mechanisms import loop as looping
from benchmarks.box.mechanisms import registry, simulate
from benchmarks.box.mechanisms.loader import Loader
from benchmarks.box.mechanisms.loop import Loop
from benchmarks.box.mechanisms.playing import play
from benchmarks.box.mechanisms.track import ACTIVITIES, code
from benchmarks.box.mechanisms.truth.figures import figures
from benchmarks.box.model import Job, Simulated
from benchmarks.box.parameters import load

from .mechanisms_at_work import BUSY, PERSON, SERVER, TINY, in_turn, job

RECIPES = load().recipes


def busy(simulated: Simulated, of: Job, gpu: int) -> float:
    """What the course's patterns say, phase after phase."""
    ends = [*(phase.at for phase in simulated.course[1:]), of.end - of.start]
    pairs = zip(simulated.course, ends, strict=True)
    return sum(phase.loads[gpu].pattern.busy(end - phase.at) for phase, end in pairs)


def utilization(simulated: Simulated, of: Job) -> list[float]:
    return [busy(simulated, of, gpu) / (of.end - of.start) for gpu in range(len(of.gpus))]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    recipe = RECIPES[draw(st.sampled_from(sorted(RECIPES)))]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parameters = {name: one.draw(random) for name, one in recipe.draws.items()}
    gpus = draw(st.sampled_from(recipe.sizes or (1, 2, 4)))
    minutes = draw(st.floats(3, 70))
    partition, nodes = recipe.partition, 2 if gpus == 16 else 1
    return job(
        recipe.model,
        minutes,
        gpus=gpus,
        nodes=nodes,
        partition=partition,
        seed=int(random.integers(2**31)),
        **parameters,
    )


@given(jobs())
@settings(max_examples=60, deadline=None)
def test_what_gpus_did_adds_up_to_their_time(one: Job) -> None:
    truth = simulate(one).truth
    length = one.end - one.start
    assert sum(truth.spent.values()) == pytest.approx(length * len(one.gpus), rel=1e-9)
    assert set(truth.spent) <= set(ACTIVITIES)
    assert all(seconds >= 0 for seconds in truth.spent.values())
    for condition in truth.conditions:
        assert 0 <= condition.since < condition.until <= length + 1e-6
        assert condition.causes
        assert not (condition.must and condition.silent)


@given(jobs())
@settings(max_examples=40, deadline=None)
def test_busy_time_is_the_integral_of_the_patterns(one: Job) -> None:
    simulated = simulate(one)
    total = sum(busy(simulated, one, gpu) for gpu in range(len(one.gpus)))
    assert simulated.truth.busy == pytest.approx(total, rel=1e-9, abs=1e-6)
    at, worked = simulated.truth.worked or ((), ())
    assert (at[0], at[-1], worked[0]) == (0, pytest.approx(one.end - one.start), 0)
    assert worked[-1] == pytest.approx(total, rel=1e-9, abs=1e-6)
    assert all(before <= after for before, after in pairwise(worked))
    starts = [phase.at for phase in simulated.course]
    assert starts[0] == 0
    assert all(a < b for a, b in pairwise(starts))
    for phase in simulated.course:
        assert len(phase.loads) == len(one.gpus)
        assert len(phase.hosts) == len(one.nodes)


@given(jobs(), st.floats(0, 600), st.floats(0.1, 120))
@settings(max_examples=40, deadline=None)
def test_between_its_edges_a_pattern_is_level(one: Job, start: float, length: float) -> None:
    pattern = simulate(one).course[-1].loads[0].pattern
    cuts = [start, *pattern.edges(start, start + length), start + length]
    assert cuts == sorted(cuts)
    for a, b in pairwise(cuts):
        whole, half = pattern.busy(b) - pattern.busy(a), pattern.busy((a + b) / 2) - pattern.busy(a)
        assert half == pytest.approx(whole / 2, abs=1e-7)
        assert -1e-9 <= whole <= b - a + 1e-7


@given(jobs())
@settings(max_examples=10, deadline=None)
def test_the_same_job_is_simulated_the_same_at_every_time(one: Job) -> None:
    first, second = simulate(one), simulate(one)
    assert first.truth == second.truth
    assert [phase.hosts for phase in first.course] == [phase.hosts for phase in second.course]
    assert utilization(first, one) == utilization(second, one)


def test_patterns_take_many_times_at_once() -> None:
    pattern = simulate(job(decode_load=2.0)).course[-1].loads[0].pattern
    at = np.linspace(0, 3000, 50)
    assert pattern.busy(at) == pytest.approx([pattern.busy(float(t)) for t in at])  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
@pytest.mark.parametrize("load", [1.25, 2.0, 6.0])
def test_a_loader_that_is_too_slow_leaves_the_gpu_busy_for_the_ratio_of_the_rates(workers: int, load: float) -> None:
    one = job(minutes=240, start_up=1e-6, workers=workers, read_load=load, decode_load=0.0)
    simulated = simulate(one)
    assert utilization(simulated, one)[0] == pytest.approx(1 / load, abs=0.01)
    spent = simulated.truth.spent
    assert spent["loader"] / (one.end - one.start) == pytest.approx(1 - 1 / load, abs=0.01)


def test_a_loader_that_is_fast_enough_is_never_waited_for_after_the_first_batch() -> None:
    one = job(start_up=1e-6, workers=4, read_load=0.9, decode_load=0.0)
    assert simulate(one).truth.spent["loader"] == pytest.approx(4 * 0.9, abs=1e-6)


def test_decoding_slows_down_where_workers_share_too_few_cores() -> None:
    many, few = (job(start_up=1e-6, workers=8, decode_load=1.5, main=0.0, cores_per_gpu=cores) for cores in (16, 4))
    assert utilization(simulate(many), many)[0] == pytest.approx(1 / 1.5, abs=0.01)
    assert utilization(simulate(few), few)[0] == pytest.approx(1 / 3, abs=0.01)
    assert simulate(few).course[-1].hosts[0].cpu_cores == pytest.approx(4, abs=0.1)
    assert simulate(few).course[-1].hosts[0].cpu_pressure > 0.9
    assert simulate(many).course[-1].hosts[0].cpu_pressure < 0.1


def test_what_the_page_cache_keeps_is_not_read_again() -> None:
    one = job(minutes=240, start_up=1e-6, read_load=3.0, decode_load=0.0, cached=1.0, epoch=1200)
    _, first, second = simulate(one).course
    assert second.at == pytest.approx(3600, rel=0.02)
    assert first.loads[0].pattern.busy(second.at) / second.at == pytest.approx(1 / 3, abs=0.01)
    assert second.loads[0].pattern.busy(3000) / 3000 == pytest.approx(1, abs=0.01)
    assert first.hosts[0].io_pressure > 0.9
    assert second.hosts[0].io_pressure < 0.01


def test_storage_that_stands_still_stops_the_steps_once_the_queue_is_empty() -> None:
    one = job(
        minutes=300, start_up=1e-6, stall=30.0, stall_every=60.0, workers=4, prefetch=2, read_load=0.5, decode_load=0.0
    )
    # Of each stall the queue's eight steps are bridged, at most; of each 90 s at least 60 are computed.
    assert 60 / 90 - 0.03 < utilization(simulate(one), one)[0] < (60 + 8) / 90 + 0.05


@pytest.mark.parametrize("spin", [0, 1])
def test_a_step_ends_for_all_ranks_when_the_slowest_arrives(spin: int) -> None:
    loader = Loader(2, 2, 0.1, 0.1, 0.5)
    loop = Loop(0.5, 0.2, 1.0, (1.0, 1.3, 0.8), bool(spin), loader)
    run = looping.run(loop, 600, 0.5, np.random.default_rng(3))
    for one in run.tracks:
        edges = np.cumsum(one.seconds)
        nearest = edges[np.clip(np.searchsorted(edges, run.ends[:-1] - 1e-6), 0, len(edges) - 1)]
        assert nearest == pytest.approx(run.ends[:-1], abs=1e-6)
        assert one.length == pytest.approx(600)
        waits = one.level[one.doing == code("collective")]
        assert set(waits) == {float(spin)}


def test_ranks_wait_for_a_slow_one_as_long_as_it_is_slower() -> None:
    one = job("slow rank", gpus=4, start_up=1e-6, slowness=2.5)
    use = sorted(utilization(simulate(one), one))
    assert use == pytest.approx([0.4, 0.4, 0.4, 1.0], abs=0.01)
    spinning = job("slow rank", gpus=4, start_up=1e-6, slowness=2.5, spin=1)
    simulated = simulate(spinning)
    assert utilization(simulated, spinning) == pytest.approx([1.0] * 4, abs=0.01)
    assert simulated.truth.spent["collective"] == pytest.approx(3 * 7200 * 0.6, rel=0.01)
    # Whoever spins draws little.
    assert sorted(load.power_factor for load in simulated.course[-1].loads)[0] < 0.35


def test_stages_of_a_pipeline_wait_in_proportion_to_their_work() -> None:
    one = job("pipeline", gpus=4, start_up=1e-6, imbalance=4.0)
    assert utilization(simulate(one), one) == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.01)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_blocks_of_steps_give_what_one_step_after_the_other_gives(
    ranks: int, workers: int, prefetch: int, seed: int, pauses: bool
) -> None:
    draw = np.random.default_rng(seed)
    steps = workers * prefetch * 6
    compute, load = draw.exponential(1.0, (ranks, steps)), draw.exponential(workers * 1.2, (ranks, steps))
    before = draw.exponential(0.3, steps) * pauses
    loader = Loader(workers, prefetch, 0, 0, 0)
    begin, ends = looping._recur(loader, compute, before, load, np.empty(0), 1e9)
    loaded, began, end = np.zeros((ranks, steps)), np.zeros((ranks, steps)), np.zeros(steps)
    for step in range(steps):
        for rank in range(ranks):
            free = loaded[rank, step - workers] if step >= workers else 0.0
            emptied = began[rank, step - workers * prefetch] if step >= workers * prefetch else 0.0
            loaded[rank, step] = max(free, emptied) + load[rank, step]
            earlier = end[step - 1] if step else 0.0
            began[rank, step] = max(earlier + before[step], loaded[rank, : step + 1].max())
        end[step] = (began[:, step] + compute[:, step]).max()
    assert begin == pytest.approx(began)
    assert ends == pytest.approx(end)


def test_a_server_is_busy_for_its_rate_times_its_answers() -> None:
    one = job("server", 600, partition="serving", **SERVER)
    assert utilization(simulate(one), one)[0] == pytest.approx(0.5 * 0.4, rel=0.1)


def test_a_person_who_left_leaves_the_kernel_and_its_memory() -> None:
    one = job("person", 240, partition="interactive", **{**PERSON, "leaves": 0.25})
    simulated = simulate(one)
    left = simulated.course[-1]
    assert left.at == pytest.approx(3600)
    assert left.loads[0].pattern.busy(10_000) == 0
    assert left.loads[0].processes[0].memory == 10 * 2**30


@pytest.mark.parametrize("waits", [{"read_load": 4.0}, {"stall": 60.0, "stall_every": 60.0}])
def test_waits_for_a_network_stop_the_steps_as_those_for_a_disk_do_and_no_pressure_shows_them(
    waits: dict[str, float],
) -> None:
    disk, network = (simulate(job(**waits, seen=seen)) for seen in (1.0, 0.0))
    assert disk.truth.spent == network.truth.spent
    assert disk.course[-1].hosts[0].io_pressure > 0.4
    assert network.course[-1].hosts[0].io_pressure == 0


def test_a_gap_shorter_than_a_drivers_sample_is_none() -> None:
    one = job(minutes=60, start_up=1e-6, host=0.35)
    short, long = (figures(play(one), one.cpu_limit, sample).gaps[0, -1] for sample in (0.1, 0.4))
    assert short > 0.15 * 3600
    assert long < 0.01 * 3600


def test_a_rank_is_slow_for_as_long_as_its_clocks_are_held_down() -> None:
    one = job("hot rank", gpus=2, start_up=1e-6, slowness=5.0, thermal=0.5)
    assert sorted(utilization(simulate(one), one)) == pytest.approx([1 / 3, 1.0], abs=0.01)


def test_a_kernel_that_was_left_may_keep_cores_busy() -> None:
    left = {**PERSON, "leaves": 0.25, "left_cores": 1.2}
    assert simulate(job("person", 240, partition="interactive", **left)).course[-1].hosts[0].cpu_cores == 1.2


def test_tiny_steps_are_below_what_samples_show() -> None:
    one = job("tiny steps", **TINY)
    assert utilization(simulate(one), one)[0] == pytest.approx(4 / 24, abs=0.01)
    assert list(simulate(one).course[-1].loads[0].pattern.edges(0, 100)) == []


def test_memory_grows_while_a_job_starts_and_is_there_afterwards() -> None:
    starting, training = simulate(job(start_up=600)).course
    assert starting.loads[0].memory_growth == 600
    assert training.at == 600
    assert training.loads[0].memory_growth == 0
    assert training.loads[0].processes[0].memory == 40 * 2**30


def test_gpus_that_were_asked_for_in_vain_hold_nothing() -> None:
    course = simulate(job("over-request", gpus=8, used=0.25)).course
    for phase in course:
        assert [bool(load.processes) for load in phase.loads] == [True] * 2 + [False] * 6


def test_a_hung_collective_spins_on_all_ranks_without_power_or_traffic() -> None:
    phase = simulate(job("hang", gpus=4, lives=0.3, gives_up=1e9)).course[-1]
    assert phase.at == pytest.approx(0.3 * 7200)
    assert all(load.pattern.busy(1000) == 1000 for load in phase.loads)
    assert all(load.power_factor < 0.1 for load in phase.loads)
    assert phase.link_bytes is not None
    assert phase.link_bytes < 1e6


def test_a_mechanism_that_follows_another_does_not_start_up_again() -> None:
    both = in_turn(job(decode_load=4.0, start_up=200), job(start_up=200), 0.5)
    simulated = simulate(both)
    assert simulated.truth.spent["start_up"] == pytest.approx(200)
    after_nothing = in_turn(job("no process"), job(start_up=200), 0.5)
    assert simulate(after_nothing).truth.spent["start_up"] == pytest.approx(200)


def test_every_model_is_reached_by_its_place() -> None:
    for name, model in registry.MODELS.items():
        parameters = dict.fromkeys(registry.names(name), 1.0)
        assert type(registry.build({registry.MODEL: registry.place(name), **parameters})) is model


def test_busy_kernels_keep_the_share_that_they_say() -> None:
    one = job("busy kernels", **{**BUSY, "start_up": 1e-6})
    assert utilization(simulate(one), one)[0] == pytest.approx(0.95, abs=1e-6)
