"""Which nodes have an exporter, by what vendors write on their nodes; and that two alerters are on two."""

from __future__ import annotations

from typing import Any

import pytest

from .checks.cluster import Cluster, Pod
from .placement import Node, Taint, apart, stays
from .rendering import Variant
from .variants import WITH_PODS, objects

LINUX = {"kubernetes.io/os": "linux"}
GPU = Taint("nvidia.com/gpu", "present")
_HOST = "kubernetes.io/hostname"

GPU_NODES = {
    "NFD": Node({"feature.node.kubernetes.io/pci-10de.present": "true"}),
    "NFD, display controllers by class": Node({"feature.node.kubernetes.io/pci-0300_10de.present": "true"}),
    "NFD, 3D controllers by class": Node({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}),
    "GPU operator": Node({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": "true"}),
    "GPU operator, tainted": Node({"nvidia.com/gpu.present": "true"}, (Taint("nvidia.com/gpu"),)),
    "AKS": Node({"kubernetes.azure.com/accelerator": "nvidia"}, (Taint("sku", "gpu"),)),
    "AKS, spot": Node(
        {"kubernetes.azure.com/accelerator": "nvidia", "kubernetes.azure.com/scalesetpriority": "spot"},
        (Taint("kubernetes.azure.com/scalesetpriority", "spot"),),
    ),
    "Karpenter on AWS": Node({"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, (GPU,)),
    "GKE with the GPU operator": Node(
        {"cloud.google.com/gke-accelerator": "nvidia-l4", "nvidia.com/gpu.present": "true"}, (GPU,)
    ),
    "a team's own": Node({"nvidia.com/gpu.present": "true"}, (Taint("team", "vision", "NoExecute"),)),
    "cordoned": Node({"nvidia.com/gpu.present": "true"}, (Taint("node.kubernetes.io/unschedulable"),)),
    "does not answer": Node(
        {"nvidia.com/gpu.present": "true"},
        (
            Taint("node.kubernetes.io/unreachable"),
            Taint("node.kubernetes.io/unreachable", effect="NoExecute"),
        ),
    ),
    "has no room": Node({"nvidia.com/gpu.present": "true"}, (Taint("node.kubernetes.io/disk-pressure"),)),
}
"""With NVIDIA's GPUs, as Linux nodes. Each has the one label by which it is known."""
OTHER_NODES = {
    "no GPU": Node({}),
    "a control plane": Node({}, (Taint("node-role.kubernetes.io/control-plane"),)),
    "AMD's, by NFD": Node({"feature.node.kubernetes.io/pci-1002.present": "true"}),
    "AMD's, on AKS": Node({"kubernetes.azure.com/accelerator": "amd"}, (Taint("sku", "gpu"),)),
    "Habana's, by Karpenter": Node({"karpenter.k8s.aws/instance-gpu-manufacturer": "habana"}),
    "GKE without the GPU operator": Node({"cloud.google.com/gke-accelerator": "nvidia-l4"}, (GPU,)),
    "GPUs that are gone": Node({"nvidia.com/gpu.present": "false"}),
    "Windows": Node({"kubernetes.io/os": "windows", "nvidia.com/gpu.present": "true"}),
}


IN_ADDITION = {"components/gpu-operator": {"nvidia.com/gpu.deploy.client": "true"}}
"""What nodes have, too, in the clusters that a component is for."""


def exporter(variant: Variant) -> Pod:
    (found,) = (pod for pod in Cluster(tuple(objects(variant))).pods if pod.owner["kind"] == "DaemonSet")
    return found


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_each_gpu_node_has_an_exporter_and_no_other_node(variant: Variant) -> None:
    spec = exporter(variant).spec
    more = {key: value for name in variant.components for key, value in IN_ADDITION.get(name, {}).items()}

    def there(nodes: dict[str, Node]) -> dict[str, bool]:
        return {name: stays(spec, Node({**LINUX, **more, **one.labels}, one.taints)) for name, one in nodes.items()}

    assert there(GPU_NODES) == dict.fromkeys(GPU_NODES, True)
    assert there(OTHER_NODES) == dict.fromkeys(OTHER_NODES, False)


def test_every_term_has_a_node_that_only_it_takes() -> None:
    """A term that is misspelt, or left over, is one by which no node of the table is known."""
    spec = exporter(Variant("base")).spec
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:
        alone = {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            }
        }
        assert any(stays(alone, Node(node.labels)) for node in GPU_NODES.values()), term


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_more_than_one_alerter_are_on_as_many_nodes(variant: Variant) -> None:
    for pod in Cluster(tuple(objects(variant))).pods:
        if pod.owner["kind"] == "Deployment":
            assert apart(pod.spec, pod.labels, _HOST) == (pod.owner["spec"]["replicas"] > 1)


def test_there_are_renderings_with_more_than_one() -> None:
    counts = [
        one["spec"]["replicas"] for variant in WITH_PODS for one in objects(variant) if one["kind"] == "Deployment"
    ]
    assert set(counts) == {1, 2}


def _affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"matchExpressions": term} for term in terms]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}
    }


def _said(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "a", "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("spec", "labels", "taints", "there"),
    [
        pytest.param({}, {}, (), True, id="anywhere"),
        pytest.param({"nodeSelector": {"a": "b"}}, {"a": "b"}, (), True, id="selected"),
        pytest.param({"nodeSelector": {"a": "b"}}, {"a": "c"}, (), False, id="another value"),
        pytest.param({"nodeSelector": {"a": "b"}}, {}, (), False, id="no such label"),
        pytest.param(_affinity([_said("In", "b", "c")]), {"a": "c"}, (), True, id="one of them"),
        pytest.param(_affinity([_said("In", "b")]), {}, (), False, id="none of them"),
        pytest.param(_affinity([_said("NotIn", "b")]), {}, (), True, id="not in, and no label"),
        pytest.param(_affinity([_said("NotIn", "b")]), {"a": "b"}, (), False, id="not in"),
        pytest.param(_affinity([_said("Exists")]), {"a": ""}, (), True, id="exists, empty"),
        pytest.param(_affinity([_said("DoesNotExist")]), {"a": ""}, (), False, id="must not exist"),
        pytest.param(_affinity([_said("Gt", "3")]), {"a": "4"}, (), True, id="more"),
        pytest.param(_affinity([_said("Gt", "3")]), {"a": "x"}, (), False, id="more than no number"),
        pytest.param(_affinity([_said("Lt", "3")]), {"a": "3"}, (), False, id="not less"),
        pytest.param(_affinity([_said("Exists"), _said("In", "b")]), {"a": "c"}, (), False, id="all of a term"),
        pytest.param(_affinity([_said("In", "b")], [_said("In", "c")]), {"a": "c"}, (), True, id="one of the terms"),
        pytest.param(_affinity(), {}, (), False, id="no term"),
        pytest.param(_affinity([]), {}, (), False, id="an empty term"),
        pytest.param({}, {}, (Taint("a"),), False, id="a taint"),
        pytest.param({}, {}, (Taint("a", effect="PreferNoSchedule"),), True, id="a taint that only advises"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {}, (Taint("a", "b", "NoExecute"),), True, id="all"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, {}, (Taint("a", "b"),), True, id="by key"),
        pytest.param({"tolerations": [{"key": "b", "operator": "Exists"}]}, {}, (Taint("a"),), False, id="another key"),
        pytest.param({"tolerations": [{"key": "a", "value": "b"}]}, {}, (Taint("a", "b"),), True, id="by value"),
        pytest.param({"tolerations": [{"key": "a"}]}, {}, (Taint("a", "b"),), False, id="without its value"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]},
            {},
            (Taint("a", effect="NoExecute"),),
            False,
            id="another effect",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
            {},
            (Taint("a", effect="NoExecute"),),
            False,
            id="for five minutes",
        ),
        pytest.param({"tolerations": [{"key": "a"}]}, {}, (Taint("a"), Taint("b")), False, id="one of two taints"),
    ],
)
def test_where_a_pod_stays(
    spec: dict[str, Any], labels: dict[str, str], taints: tuple[Taint, ...], there: bool
) -> None:
    assert stays(spec, Node(labels, taints)) == there


@pytest.mark.parametrize(
    ("term", "apart_there"),
    [
        ({"topologyKey": _HOST, "labelSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"topologyKey": _HOST, "labelSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"topologyKey": _HOST}, False),
    ],
)
def test_what_keeps_pods_apart(term: dict[str, Any], apart_there: bool) -> None:
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    assert apart(spec, {"a": "b"}, _HOST) == apart_there
