"""A GPU that several hold, or that strangers use: shares of its time, and whose work it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_exporter.model import Process, Workload
from tests.exporter.accounts import A, B, C, Run, T, held_by, spans_of


def test_two_workloads_on_a_gpu_have_half_each_and_are_split_by_the_work_of_their_processes():
    pids = {10: A.id, 20: B.id, 21: B.id}
    both = held_by(A, B, pids=pids)
    processes = (Process(10, 1e9, 0.1), Process(20, 2e9, 0.2), Process(21, 3e9, 0.1))
    run = Run().at(T, both, processes=processes).at(T + 8, both, spans_of(T, T + 8, 1.0), processes=processes)
    a, b = run.owned(A), run.owned(B)
    assert a.share == b.share == 0.5
    assert (a.allocated, b.allocated, a.observed, b.observed) == (4, 4, 4, 4)
    assert (a.busy, b.busy) == pytest.approx((2, 6))
    assert (a.processes, b.processes) == (1, 2)
    assert (a.memory, b.memory) == (1e9, 5e9)


def test_what_only_draws_shares_the_gpu_with_what_computes():
    """NVML does not list it among what computes: a notebook would be credited with its neighbour's work."""
    both = held_by(A, B, pids={10: A.id, 20: B.id})
    of = {"processes": (Process(20, 2e9, 0.1),), "graphics": (Process(10, 1e9, 0.3),)}
    run = Run().at(T, both, **of).at(T + 8, both, spans_of(T, T + 8, 1.0), **of)
    a, b = run.owned(A), run.owned(B)
    assert (a.busy, b.busy) == pytest.approx((6, 2))
    assert (a.processes, b.processes, a.memory, b.memory) == (1, 1, 1e9, 2e9)


def test_three_workloads_have_a_third_each():
    run = Run().at(T, held_by(A, B, C)).at(T + 9, held_by(A, B, C), spans_of(T, T + 9, 1.0))
    for workload in (A, B, C):
        owned = run.owned(workload)
        assert owned.share == pytest.approx(1 / 3)
        assert (owned.allocated, owned.observed, owned.busy) == pytest.approx((3, 3, 3))


def test_while_one_joins_and_another_leaves_each_has_its_share_of_each_moment():
    """Shares of 1/3, 1/3 and 1/2 over the whole interval would be more than the GPU has."""
    run = Run(hold=60).at(T, held_by(A, B, C))
    d = Workload(id="slurm/4", scheduler="slurm")
    run.at(T + 12, held_by(C, d, start=T + 6), spans_of(T, T + 12, 1.0)).at(T + 73, held_by(C, d))
    shown = {owned.workload.id: (owned.observed, owned.busy) for owned in run.view.owned}
    assert shown == {
        A.id: pytest.approx((2, 2)),
        B.id: pytest.approx((2, 2)),
        C.id: pytest.approx((5, 5)),
        d.id: pytest.approx((3, 3)),
    }


@pytest.mark.parametrize(
    ("processes", "pids", "busy"),
    [
        pytest.param((Process(10, 0, 0.4), Process(20, 0, 0.2)), {10: A.id, 20: B.id}, (4, 2), id="by their work"),
        pytest.param((Process(10, 0, 0.4), Process(20, 0, 0.0)), {10: A.id, 20: B.id}, (6, 0), id="one is idle"),
        pytest.param((Process(10, 0, 0.4),), {10: A.id}, (6, 0), id="one has no process"),
        pytest.param((Process(10, 0, None),), {10: A.id}, (6, 0), id="one has no process, and nothing is told"),
        pytest.param((Process(10), Process(11)), {10: A.id, 11: A.id}, (6, 0), id="all are of one"),
        pytest.param((Process(10), Process(30)), {10: A.id}, (3, 3), id="one is nobody's, and nothing is told"),
        pytest.param((Process(30),), {}, (3, 3), id="the only one is nobody's"),
        pytest.param((Process(30),), {30: C.id}, (0, 0), id="the only one is of a workload without the GPU"),
        pytest.param((Process(10, 0, 0.4), Process(20, 0, None)), {10: A.id, 20: B.id}, (3, 3), id="one is unknown"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.2)), {10: A.id}, (4, 0), id="one is nobody's, and works"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.2)), {10: A.id, 30: C.id}, (4, 0), id="C works without it"),
        pytest.param((Process(10, 0, 0.0), Process(30, 0, 0.2)), {10: A.id}, (0, 0), id="only nobody's works"),
        pytest.param(
            (Process(10, 0, 0.0, mps_client=True), Process(20, 0, 0.0, mps_client=True), Process(40, 0, 0.8)),
            {10: A.id, 20: B.id, 40: C.id},
            (3, 3),
            id="their server is in a pod of its own",
        ),
        pytest.param((Process(30, 0, 0.2), Process(31, 0, 0.2)), {}, (0, 0), id="only nobody's are there"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.0)), {10: A.id}, (6, 0), id="nobody's, and does nothing"),
        pytest.param((Process(10, 0, 0.0), Process(20, 0, 0.0)), {10: A.id, 20: B.id}, (3, 3), id="none worked"),
        pytest.param((), {}, (3, 3), id="no process"),
        pytest.param(None, {}, (3, 3), id="processes unknown"),
    ],
)
def test_work_on_a_shared_gpu_is_split_by_processes_where_all_is_known_of_them_and_evenly_else(processes, pids, busy):
    both = held_by(A, B, pids=pids)
    run = Run().at(T, both, processes=processes).at(T + 6, both, spans_of(T, T + 6, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == pytest.approx(busy)
    assert run.owned(A).observed == run.owned(B).observed == 3


@pytest.mark.parametrize(
    ("processes", "busy"),
    [
        pytest.param((Process(10, 0, 0.6), Process(30, 0, 0.2)), 4.5, id="both work"),
        pytest.param((Process(10, 0, 0.0), Process(30, 0, 0.2)), 0, id="only the other works"),
        pytest.param((Process(10, 0, None), Process(30, 0, None)), 6, id="what each does is not told"),
        pytest.param((Process(30, 0, None),), 6, id="what the only one does is not told"),
        pytest.param((Process(30, 0, 0.2), Process(31, 0, 0.1)), 6, id="the job may be outside its cgroup"),
        pytest.param((Process(40),), 0, id="the only one is of another workload"),
        pytest.param((Process(10, 0, 0.4), Process(40, 0, 0.2)), 4, id="another workload works, too"),
        pytest.param((Process(30, 0, 0.1), Process(40, 0, 0.2)), 2, id="one of another workload, one of nobody"),
        pytest.param((Process(10, 0, 0.0, mps_client=True), Process(30, 0, 0.2)), 6, id="it works through a server"),
        pytest.param((Process(10, 0, 0.0, mps_client=True), Process(40, 0, 0.2)), 6, id="the server is in a pod"),
        pytest.param((Process(10, 0, 0.2, mps_client=True), Process(40, 0, 0.2, mps_client=True)), 3, id="clients"),
    ],
)
def test_what_a_strangers_process_does_on_a_gpu_is_not_the_only_holders_work(processes, busy):
    alone = held_by(A, pids={10: A.id, 40: C.id})
    run = Run().at(T, alone, processes=processes).at(T + 6, alone, spans_of(T, T + 6, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(A).observed) == pytest.approx((busy, 6))


@pytest.mark.parametrize("hold", [0, 30, 600])
def test_a_process_that_outlives_its_job_is_no_work_of_who_has_the_gpu_then(hold):
    """However long the series of the job are still shown."""
    processes = (Process(10, 0, 0.9), Process(20, 0, 0.1))
    pids = {10: A.id, 20: B.id}
    run = Run(hold=hold).at(T, held_by(A, pids=pids), processes=processes[:1])
    run.at(T + 10, held_by(B, start=T, pids=pids), spans_of(T, T + 10, 1.0), processes=processes)
    for end in range(20, 1021, 10):
        run.at(T + end, held_by(B, pids=pids), spans_of(T + end - 10, T + end, 1.0), processes=processes)
    assert run.owned(B).busy == pytest.approx(0.1 * 1020)
    assert run.owned(B).observed == 1020


def test_of_the_time_before_a_handover_a_process_that_came_later_takes_nothing():
    run = Run().at(T, held_by(A, pids={10: A.id}), processes=(Process(10, 0, 0.5),))
    later = (Process(10, 0, 0.2), Process(20, 0, 0.8))
    run.at(T + 10, held_by(B, start=T + 4, pids={10: A.id, 20: B.id}), spans_of(T, T + 10, 1.0), processes=later)
    assert run.owned(A).busy == pytest.approx(4)
    assert run.owned(B).busy == pytest.approx(0.8 * 6)


def test_the_one_of_two_that_has_no_process_is_idle_and_is_told_so():
    both = held_by(A, B, pids={10: A.id})
    run = Run().at(T, both, processes=(Process(10, 1e9),))
    run.at(T + 4, both, spans_of(T, T + 4, 0.9), processes=(Process(10, 1e9),))
    assert (run.owned(A).busy, run.owned(B).busy) == (pytest.approx(3.6), 0)
    assert (run.owned(A).observed, run.owned(B).observed) == (2, 2)


def test_the_idle_one_of_two_has_zero():
    both = held_by(A, B, pids={10: A.id, 20: B.id})
    processes = (Process(10, 1e9, 0.9), Process(20, 1e9, 0.0))
    run = Run().at(T, both, processes=processes).at(T + 4, both, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (4, 0)


def test_without_utilization_by_process_the_work_is_split_evenly():
    both = held_by(A, B, pids={10: A.id, 20: B.id})
    processes = (Process(10, 1e9), Process(20, 1e9))
    run = Run().at(T, both, processes=processes).at(T + 4, both, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (2, 2)


def test_memory_and_processes_are_unknown_where_nvml_does_not_tell():
    run = Run().at(T, held_by(A, pids={10: A.id}), processes=(Process(10, None),))
    assert (run.owned(A).memory, run.owned(A).processes) == (None, 1)
    run.at(T + 5, held_by(A), processes=None)
    assert (run.owned(A).memory, run.owned(A).processes) == (None, None)
    run.at(T + 10, held_by(A), processes=())
    assert (run.owned(A).memory, run.owned(A).processes) == (0, 0)


def test_while_it_is_not_known_whose_a_process_on_a_gpu_is_that_gpus_workloads_may_have_any_number():
    """A process that could not be read may be the job's: to say that it has none would be to accuse it."""
    known = {10: A.id}
    unresolved = replace(held_by(A, B, pids=known), unresolved=frozenset({20}))
    processes = (Process(10, 1e9), Process(20, 2e9))
    run = Run().at(T, unresolved, processes=processes)
    for workload in (A, B):
        assert (run.owned(workload).memory, run.owned(workload).processes) == (None, None)
    run.at(T + 5, unresolved, processes=(Process(10, 1e9),))
    assert (run.owned(A).processes, run.owned(B).processes) == (1, 0), "it is on another GPU"
    run.at(T + 10, held_by(A, B, pids=known), processes=processes)
    assert [(run.owned(one).memory, run.owned(one).processes) for one in (A, B)] == [(1e9, 1), (0, 0)], "nobody's"


@pytest.mark.parametrize("work", [None, 0.4])
def test_the_work_of_a_process_that_could_not_be_read_is_not_credited_to_the_others(work):
    """It may be of any of them: nobody knows how they share the work."""
    unresolved = replace(held_by(A, B, pids={10: A.id}), unresolved=frozenset({20}))
    processes = (Process(10, 1e9, work), Process(20, 2e9, work))
    run = Run().at(T, unresolved, processes=processes)
    run.at(T + 4, unresolved, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (2, 2)
