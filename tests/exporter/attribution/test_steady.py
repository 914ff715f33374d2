"""Allocations from claims: none flickers, none lingers, none is there twice."""

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.steady import Claim, SteadyAllocations
from dutycycle_exporter.model import Workload

JOB = Workload("slurm/1", "slurm")


def ids(allocations):
    return [(allocation.device, allocation.workload.id) for allocation in allocations]


def test_a_file_that_goes_ends_the_allocation_unless_processes_still_hold_the_gpu():
    steady = SteadyAllocations()
    steady.settle([Claim("A", JOB, by_file=True, start=5.0)])
    [allocation] = steady.settle([Claim("A", JOB, by_file=False, start=9.0, first_process=9.0)])
    assert (allocation.start, allocation.first_process) == (5.0, 9.0)
    assert ids(steady.settle([])) == [("A", "slurm/1")]
    assert steady.settle([]) == ()
    steady.settle([Claim("A", JOB, by_file=True)])
    assert steady.settle([]) == ()


def test_a_file_that_comes_later_knows_the_start_better():
    steady = SteadyAllocations()
    steady.settle([Claim("A", JOB, by_file=False, start=9.0, first_process=9.0)])
    [allocation] = steady.settle([Claim("A", JOB, by_file=True, start=12.0)])
    assert (allocation.start, allocation.first_process) == (12.0, 9.0)


def test_containers_are_those_of_the_newest_claim():
    steady = SteadyAllocations()
    steady.settle([Claim("A", JOB, by_file=True, start=1.0, containers=("main",))])
    [allocation] = steady.settle([Claim("A", JOB, by_file=True, start=1.0, containers=("main", "side"))])
    assert allocation.containers == ("main", "side")


def test_what_ended_is_forgotten():
    steady = SteadyAllocations()
    steady.settle([Claim("A", JOB, by_file=False, start=1.0, first_process=1.0)])
    steady.settle([])
    steady.settle([])
    [allocation] = steady.settle([Claim("A", JOB, by_file=False, start=9.0, first_process=9.0)])
    assert (allocation.start, allocation.first_process) == (9.0, 9.0)


CLAIMS = st.dictionaries(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["slurm/1", "slurm/2", "k8s///x"])),
    st.tuples(st.booleans(), st.none() | st.floats(0, 100)),
)


@given(st.lists(CLAIMS, max_size=12))
def test_an_allocation_is_there_while_claimed_and_once_more_if_only_processes_claimed_it(turns):
    steady = SteadyAllocations()
    previous = {}
    for turn in turns:
        claims = [
            Claim(gpu, Workload(workload, "x"), by_file, first_process=first)
            for (gpu, workload), (by_file, first) in turn.items()
        ]
        allocations = steady.settle(claims)
        lingering = {key for key, (by_file, _) in previous.items() if not by_file}
        assert ids(allocations) == sorted(turn.keys() | lingering)
        for allocation in allocations:
            key = allocation.device, allocation.workload.id
            first = turn.get(key, (False, None))[1]
            assert first is None or (allocation.first_process is not None and allocation.first_process <= first)
        previous = turn
