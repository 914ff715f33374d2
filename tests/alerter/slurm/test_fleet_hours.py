"""How many GPUs are allocated, free and out of service at an instant."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus
from dutycycle_alerter.slurm.fleet_hours import fleet_gpus
from dutycycle_alerter.slurm.model import JobState, NodeGpus, PendingRequest, SlurmJob, SlurmNode, Snapshot


def fleet(*nodes: SlurmNode, jobs: tuple[SlurmJob, ...] = (), **changed: Any) -> FleetGpus | None:
    return fleet_gpus(
        Snapshot(
            **{
                "at": 5.0,
                "jobs": {job.id: job for job in jobs},
                "nodes": {node.name: node for node in nodes},
                "nodes_at": 5.0,
                **changed,
            }
        )
    )


def node(name: str, *states: str, gpus: int = 8, used: int | None = 0) -> SlurmNode:
    return SlurmNode(name, frozenset(states), gpus=gpus, gpus_allocated=used)


def holder(number: int, state: JobState, **gpus: int) -> SlurmJob:
    return SlurmJob(number, state, gpus={name: (NodeGpus(count),) for name, count in gpus.items()})


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (node("a", "MIXED", used=3), (3, 5, 0, 0)),
        (node("a", "IDLE", "DRAIN"), (0, 0, 8, 0)),
        (node("a", "MIXED", "DRAIN", used=3), (3, 0, 5, 0)),
        (node("a", "IDLE", "MAINTENANCE", "RESERVED"), (0, 0, 8, 0)),
        (node("a", "IDLE", "RESERVED"), (0, 8, 0, 0)),
        (node("a", "DOWN", "DRAIN"), (0, 0, 0, 8)),
        (node("a", "DOWN", used=2), (2, 0, 0, 6)),
        (node("a", "FUTURE"), (0, 0, 0, 0)),
        (node("a", "IDLE", gpus=0), (0, 0, 0, 0)),
        (node("a", "MIXED", used=None), (0, 8, 0, 0)),
        (node("a", "MIXED", used=99), (8, 0, 0, 0)),
    ],
)
def test_a_node(one: SlurmNode, counts: tuple[int, int, int, int]) -> None:
    found = fleet(one)
    assert found is not None
    assert (found.allocated, found.unallocated, found.drained, found.down) == counts
    assert found.total == sum(counts)


def test_jobs_tell_it_where_nodes_are_older_or_silent() -> None:
    jobs = (
        holder(1, JobState.RUNNING, a=2, b=4),
        holder(2, JobState.COMPLETING, a=1),
        holder(3, JobState.ENDED, a=5),
        holder(4, JobState.PENDING, a=5),
    )
    found = fleet(node("a", "MIXED", used=1), node("b", "MIXED", used=None), jobs=jobs)
    assert found is not None
    assert (found.total, found.allocated, found.unallocated) == (16, 7, 9)


def test_what_waits_and_what_waits_for_other_things_than_gpus() -> None:
    waiting = (PendingRequest("gpu", "Resources", 2, 16), PendingRequest("gpu", "JobHeldUser", 1, 4))
    found = fleet(node("a", "IDLE"), pending=waiting)
    assert found is not None
    assert (found.pending, found.held) == (20, 4)


def test_nodes_out_of_service_are_told_one_by_one() -> None:
    typed = SlurmNode("a", frozenset({"DOWN"}), "host-a", gpus=8, gpu_types={"h200": 8}, gpus_allocated=2)
    mixed = SlurmNode("b", frozenset({"IDLE", "DRAIN"}), gpus=4, gpu_types={"h200": 2, "a100": 2})
    found = fleet(typed, mixed, node("c", "IDLE"))
    assert found is not None
    assert found.away == (
        AwayNode(frozenset({"a", "host-a"}), "h200", 6, 2, down=True),
        AwayNode(frozenset({"b"}), "", 4, 0, down=False),
    )


def test_while_the_nodes_are_not_known_nothing_is() -> None:
    assert fleet(nodes_at=None) is None


words = st.sampled_from(["IDLE", "MIXED", "DOWN", "DRAIN", "MAINTENANCE", "RESERVED", "NOT_RESPONDING", "FUTURE"])
nodes = st.builds(
    SlurmNode,
    st.uuids().map(str),
    st.frozensets(words),
    gpus=st.integers(0, 16),
    gpus_allocated=st.one_of(st.none(), st.integers(0, 20)),
)


@given(st.lists(nodes, max_size=8))
def test_the_parts_sum_up_to_the_whole(some: list[SlurmNode]) -> None:
    found = fleet(*some)
    assert found is not None
    parts = found.allocated, found.unallocated, found.drained, found.down
    assert min(parts) >= 0
    assert sum(parts) == found.total == sum(node.gpus for node in some if not node.future)
