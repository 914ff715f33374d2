"""Which jobs are spread over more nodes than they need, and what they consumed meanwhile."""

from dataclasses import replace

import pytest

from dutycycle_alerter.fragmentation import accounted, node_sizes, spread_out
from dutycycle_alerter.model import Consumption, Evidence, Gpu, GpuEvidence, Job, NodeEvidence
from tests.alerter.cases import evidence


def job(**gpus: int) -> Job:
    """A job with so many GPUs of each node."""
    members = [Gpu(node, str(i), f"GPU-{node}-{i}") for node, count in gpus.items() for i in range(count)]
    return Job("slurm/1", tuple(members), 0.0)


def devices(**sizes: int) -> list[GpuEvidence]:
    return [
        GpuEvidence(Gpu(node, str(i), f"GPU-{node}-{i}"), 0.0, window=None)  # nobody looks at the window
        for node, count in sizes.items()
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("held", "sizes", "expected"),
    [
        pytest.param({"a": 4, "b": 4}, {"a": 8, "b": 8}, True, id="8 GPUs fit into one node of 8"),
        pytest.param({"a": 8, "b": 1}, {"a": 8, "b": 8}, False, id="9 do not"),
        pytest.param({"a": 1, "b": 1, "c": 1}, {"a": 8, "b": 8, "c": 2}, True, id="3 fit into two of the smallest"),
        pytest.param({"a": 2, "b": 2}, {"a": 8, "b": 2}, False, id="and 4 do not fit into one"),
        pytest.param({"a": 1}, {}, False, id="one node is never too many"),
        pytest.param({"a": 4, "b": 4}, {"a": 8}, None, id="a node of unknown size"),
        pytest.param({}, {"a": 8}, None, id="no GPU is known"),
    ],
)
def test_a_job_needs_as_many_nodes_as_its_gpus_fill(
    held: dict[str, int], sizes: dict[str, int], expected: bool | None
) -> None:
    assert spread_out(job(**held), sizes) is expected


def test_parts_of_gpus_say_little_about_how_many_nodes_a_job_needs() -> None:
    slices = tuple(Gpu(node, "0", f"GPU-{node}", mig) for node in "ab" for mig in ("MIG-1", "MIG-2"))
    assert spread_out(Job("slurm/1", slices, 0.0), {"a": 8, "b": 8}) is None


def test_a_lost_gpu_and_instances_do_not_change_a_nodes_size() -> None:
    gpus = [*devices(a=7, b=2), GpuEvidence(Gpu("b", "0", "GPU-b-0", "MIG-1"), 0.0, window=None)]  # type: ignore[arg-type]
    nodes = [NodeEvidence("a", 0.0, expected=8.0, visible=7.0), NodeEvidence("b", 0.0), NodeEvidence("c", 0.0, 4.0)]
    assert node_sizes(Evidence(gpus=gpus, nodes=nodes)) == {"a": 8, "b": 2}


@pytest.mark.parametrize(("nodes", "left_out", "expected"), [(2, 0, 60), (1, 0, 0), (2, 1, None)])
def test_what_a_job_consumes_while_it_is_spread_is_told(nodes: int, left_out: int, expected: float | None) -> None:
    used = Consumption("H200", 60.0, 50.0, 25.0)
    item = evidence([0.5] * 4, nodes=nodes, recent=(used,))
    seen = Evidence(jobs=[replace(item, left_out=left_out)], gpus=devices(node0=8, node1=8))
    [(of, part)] = accounted(seen)
    assert (of.id, part.allocated, part.spread) == ("slurm/1", 60, expected)
