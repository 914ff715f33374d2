"""The exporter goes from a node while NVIDIA's GPU operator changes the driver or MIG's mode."""

from __future__ import annotations

import pytest

from tests.fakes.pods.cluster import selects

from .rendering import Variant, named
from .variants import objects

CLIENT, PLUGIN, WORKLOAD = "gpu.deploy.client", "gpu.deploy.device-plugin", "gpu.workload.config"
GPU_NODES = [
    {"feature.node.kubernetes.io/pci-10de.present": "true"},
    {"feature.node.kubernetes.io/pci-0300_10de.present": "true"},
    {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
    {"nvidia.com/gpu.present": "true"},
    {"kubernetes.azure.com/accelerator": "nvidia"},
    {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"},
]
"""How a node may be known for one with GPUs; any of them is enough, and so each must be as good as the others here."""


def _runs(components: tuple[str, ...], labels: dict[str, str]) -> bool:
    exporter = named(objects(Variant("base", components)), "DaemonSet", "dutycycle-exporter")
    return selects(exporter["spec"]["template"]["spec"], "gpu-a", labels)


@pytest.mark.parametrize("node", GPU_NODES, ids=lambda labels: next(iter(labels)))
@pytest.mark.parametrize(
    ("operators", "runs"),
    [
        pytest.param({}, True, id="no operator"),
        pytest.param({PLUGIN: "true"}, True, id="before 26.7"),
        pytest.param({PLUGIN: "true", CLIENT: "true", WORKLOAD: "container"}, True, id="26.7"),
        pytest.param({PLUGIN: "false"}, True, id="without its device plugin"),
        pytest.param({PLUGIN: "paused-for-driver-upgrade"}, False, id="driver, before 26.7"),
        pytest.param({PLUGIN: "paused-for-mig-change"}, False, id="MIG, before 26.7"),
        pytest.param({PLUGIN: "false", CLIENT: "paused-for-driver-upgrade"}, False, id="driver"),
        pytest.param({PLUGIN: "false", CLIENT: "paused-for-mig-change"}, False, id="MIG"),
        pytest.param({CLIENT: "false"}, False, id="no clients, by hand"),
        pytest.param({WORKLOAD: "vm-passthrough"}, False, id="GPUs for virtual machines"),
        pytest.param({CLIENT: "true", WORKLOAD: "vm-vgpu"}, False, id="virtual GPUs"),
    ],
)
def test_the_exporter_is_where_the_operator_lets_it(
    node: dict[str, str], operators: dict[str, str], runs: bool
) -> None:
    assert _runs((), {**node, **{f"nvidia.com/{key}": value for key, value in operators.items()}}) == runs


@pytest.mark.parametrize(
    ("client", "runs"), [("true", True), ("paused-for-driver-upgrade", False), ("paused-for-mig-change", False)]
)
def test_the_operator_can_see_that_it_goes(client: str, runs: bool) -> None:
    """It waits for pods whose DaemonSet has the label's key in its nodeSelector: an affinity is not enough."""
    exporter = named(objects(Variant("base", ("components/gpu-operator",))), "DaemonSet", "dutycycle-exporter")
    assert exporter["spec"]["template"]["spec"]["nodeSelector"][f"nvidia.com/{CLIENT}"] == "true"
    assert _runs(("components/gpu-operator",), {**GPU_NODES[3], f"nvidia.com/{CLIENT}": client}) == runs


def test_a_node_without_gpus_has_none() -> None:
    assert not _runs((), {f"nvidia.com/{CLIENT}": "true"})
