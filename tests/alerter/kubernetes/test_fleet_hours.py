"""Which GPUs nodes have, as they and their labels say, and how many of them are out of service."""

from __future__ import annotations

import json

import pytest

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus
from dutycycle_alerter.kubernetes.fleet_hours import fleet_gpus
from dutycycle_alerter.kubernetes.model import Node, Snapshot
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.cases import LATER
from tests.alerter.kubernetes.podcases import known, pod
from tests.fakes.kubernetes import builders

GPUS = gpu_resources((*KubernetesCluster().resources, "amd.com/gpu"))
GPU, SHARED, SLICE = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def read(allocatable: dict[str, object], **labels: str) -> Node:
    """A node that offers this, with labels of NVIDIA's GPU feature discovery."""
    content = builders.node("n", labels={f"{GPU}.{name}": text for name, text in labels.items()})
    content["status"]["allocatable"] = allocatable
    kept = NodeDecoder(GPUS)(json.dumps(content).encode()).kept
    assert kept is not None
    return kept


@pytest.mark.parametrize(
    ("allocatable", "labels", "gpus", "type_"),
    [
        pytest.param({GPU: "8"}, {}, 8, "", id="no labels"),
        pytest.param({"amd.com/gpu": "4", "cpu": "64"}, {}, 4, "", id="another maker's"),
        pytest.param(
            {GPU: "8"}, {"count": "8", "replicas": "1", "product": "NVIDIA-H100"}, 8, "NVIDIA-H100", id="whole"
        ),
        pytest.param({GPU: "7"}, {"count": "8", "product": "NVIDIA-H100"}, 8, "NVIDIA-H100", id="one is unhealthy"),
        pytest.param(
            {GPU: "80"},
            {"count": "8", "replicas": "10", "product": "Tesla-T4-SHARED"},
            8,
            "Tesla-T4",
            id="time slicing",
        ),
        pytest.param(
            {GPU: "0", SHARED: "80"},
            {"count": "8", "replicas": "10", "product": "Tesla-T4"},
            8,
            "Tesla-T4",
            id="renamed",
        ),
        pytest.param({SHARED: "80"}, {}, 0, "", id="shares of who knows how many"),
        pytest.param({GPU: "6", SLICE: "14"}, {"count": "8", "product": "A100"}, 8, "A100", id="mixed MIG"),
        pytest.param({GPU: "6", SLICE: "14"}, {}, 6, "", id="mixed MIG without labels"),
        pytest.param({SLICE: "56"}, {}, 0, "", id="slices"),
        pytest.param(
            {GPU: "56"}, {"count": "56", "product": "A100-MIG-1g.5gb"}, 0, "A100-MIG-1g.5gb", id="all sliced alike"
        ),
        pytest.param({GPU: "0"}, {"count": "0", "product": "A100-MIG-INVALID"}, 0, "A100-MIG-INVALID", id="unlike"),
        pytest.param({GPU: "8"}, {"count": "eight", "product": ""}, 8, "", id="no number"),
        pytest.param({GPU: "8"}, {"count": "-1"}, 8, "", id="less than none"),
        pytest.param({GPU: "8"}, {"count": "\u0663"}, 8, "", id="a digit of another script"),
        pytest.param({GPU: "8"}, {"count": "9" * 4000, "product": "x" * 4000}, 8, "x" * 119 + "…", id="a flood"),
        pytest.param({"cpu": "64"}, {}, 0, "", id="no GPUs"),
    ],
)
def test_how_many_gpus_a_node_has(
    allocatable: dict[str, object], labels: dict[str, str], gpus: int, type_: str
) -> None:
    found = read(allocatable, **labels)
    assert (found.gpus, found.type) == (gpus, type_)


@pytest.mark.parametrize(
    ("offered", "accelerator", "labels", "gpus"),
    [
        pytest.param("4", "nvidia-l4", {}, 4, id="whole"),
        pytest.param("48", "nvidia-l4", {"max-shared-clients-per-gpu": "48"}, 1, id="time-sharing"),
        pytest.param("7", "nvidia-tesla-a100", {"gpu-partition-size": "1g.5gb"}, 1, id="MIG"),
        pytest.param("24", "nvidia-a100-80gb", {"gpu-partition-size": "2g.20gb"}, 8, id="MIG of eight GPUs"),
        pytest.param("4", "nvidia-h100-80gb", {"gpu-partition-size": "1g.20gb"}, 1, id="MIG with more memory"),
        pytest.param("4", "nvidia-h200-141gb", {"gpu-partition-size": "3g.71gb"}, 2, id="MIG that rounds"),
        pytest.param("4", "nvidia-rtx-pro-6000", {"gpu-partition-size": "1g.24gb"}, 1, id="MIG of four slices"),
        pytest.param(
            "21",
            "nvidia-tesla-a100",
            {"gpu-partition-size": "1g.5gb", "max-shared-clients-per-gpu": "3"},
            1,
            id="MIG that is shared",
        ),
        pytest.param("7", "nvidia-x", {"gpu-partition-size": "1g.5gb"}, 0, id="MIG of an unknown GPU"),
        pytest.param("8", "nvidia-l4", {"max-shared-clients-per-gpu": "0"}, 0, id="no clients"),
        pytest.param("8", "nvidia-h100-80gb", {"gpu-partition-size": "9g.999gb"}, 0, id="no profile"),
    ],
)
def test_gpus_of_a_gke_node(offered: str, accelerator: str, labels: dict[str, str], gpus: int) -> None:
    named = {f"cloud.google.com/gke-{name}": value for name, value in labels.items()}
    content = builders.node("n", labels={"cloud.google.com/gke-accelerator": accelerator, **named})
    content["status"]["allocatable"] = {GPU: offered}
    kept = NodeDecoder(GPUS)(json.dumps(content).encode()).kept
    assert kept is not None
    assert (kept.gpus, kept.type) == (gpus, accelerator)


@pytest.mark.parametrize(("resource", "parts"), [(GPU, 0), (SHARED, 2), (SLICE, 2)])
def test_shares_and_slices_that_a_pod_wants_are_told_from_gpus(resource: str, parts: int) -> None:
    found = PodDecoder(GPUS)(json.dumps(builders.pod("p", gpus=2, resource=resource)).encode()).kept
    assert found is not None
    assert (found.gpus, found.parts) == (2, parts)


def test_a_dead_node_counts_by_its_gpus_and_not_by_shares_of_them() -> None:
    node = Node("node0", ready=False, gpus=8, type="Tesla-T4")
    pods = [pod(number, gpus=1, parts=1) for number in range(3)]
    away = (AwayNode(frozenset({"node0"}), "Tesla-T4", 5, 3, down=True),)
    assert fleet_gpus(known(*pods, nodes={"node0": node}), LATER) == FleetGpus(LATER, 8, 3, 0, 0, 5, 0, 0, away)
    crowd = [pod(number, gpus=1, parts=1) for number in range(20)]
    found = fleet_gpus(known(*crowd, nodes={"node0": node}), LATER)
    assert found is not None
    assert (found.allocated, found.down) == (8, 0)


def test_what_waits_for_a_share_does_not_wait_for_a_gpu() -> None:
    waiting = [
        pod(0, node="", phase="Pending", gpus=4),
        pod(1, node="", phase="Pending", gpus=3, parts=2, waiting="SchedulingGated"),
    ]
    found = fleet_gpus(known(*waiting), LATER)
    assert found is not None
    assert (found.pending, found.held) == (5, 1)


def test_nodes_that_are_not_known_are_not_none() -> None:
    assert fleet_gpus(Snapshot(), LATER) is None
