"""What the names of devices mean, for every plugin and driver that gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.kubernetes.devices import DeviceTable, Held, Selection
from dutycycle_exporter.attribution.kubernetes.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    PodResources,
    decode_pods,
)
from dutycycle_exporter.model import GpuReading
from tests.exporter.attribution.kubernetes.usual import SELECTION
from tests.fakes.kubelet import claim, list_reply, pod
from tests.fakes.kubelet.recorded import Recordings

A, B, C = (f"GPU-0000000{n}-aaaa-4000-8000-00000000000{n}" for n in range(3))
M0, M1, M2 = (f"MIG-1111111{n}-cccc-5000-8000-00000000000{n}" for n in range(3))
OLD = f"MIG-{B}/7/0"


def reading(uuid: str, index: int, minor: int, mig: str = "", place: tuple[int, int] | None = None) -> GpuReading:
    gpu, compute = place or (None, None)
    return GpuReading(uuid, index, "A100", minor=minor, mig=mig, gpu_instance=gpu, compute_instance=compute)


# Index and minor number agree for the first GPU only. The second has MIG instances, two of them in one GPU instance.
NODE = (
    reading(A, 0, 0),
    reading(B, 1, 2),
    reading(B, 1, 2, M0, (1, 0)),
    reading(B, 1, 2, M1, (2, 0)),
    reading(B, 1, 2, M2, (2, 1)),
    reading(B, 1, 2, OLD, (7, 0)),
    reading(C, 2, 1),
)
TABLE = DeviceTable.of(NODE)


@pytest.mark.parametrize(
    ("device_id", "expected"),
    [
        (A, {A}),
        (f"{A}::3", {A}),
        (f"{A}::", {A}),
        (M0, {M0}),
        (f"{M0}::0", {M0}),
        ("GPU-ffffffff-aaaa-4000-8000-00000000000f", {"GPU-ffffffff-aaaa-4000-8000-00000000000f"}),
        (OLD, {OLD}),
        (f"MIG-{B}/1/0", {M0}),
        (f"MIG-{B}/2/1", {M2}),
        (f"MIG-{B}/2/1::4", {M2}),
        (f"MIG-{B}/9/0", set()),
        ("nvidia0", {A}),
        ("nvidia2", {B}),
        ("nvidia1", {C}),
        ("nvidia0/vgpu3", {A}),
        ("nvidia2/gi1", {M0}),
        ("nvidia2/gi1/vgpu0", {M0}),
        ("nvidia2/gi2", {M1, M2}),
        ("nvidia2/gi9", set()),
        ("nvidia7", set()),
        ("nvidia7/gi0", set()),
        ("", set()),
        ("::1", set()),
        ("0", set()),
        ("GPU-", set()),
        # HAMi's, one for each pod that may be on the node.
        (f"{A}-0", set()),
        (f"{A}-10", set()),
        ("GPU-ffffffff-aaaa-4000-8000-00000000000f-12", set()),
        ("nvidia", set()),
        ("nvidia0/gi", set()),
        ("nvidia0/gi1/vgpu", set()),
        ("nvidia٣", set()),
        ("nvidia0\n", set()),
        (f"{A}\n", set()),
        (f"{A}/../{B}", set()),
        ("GPU-" + "a" * 1000, set()),
    ],
)
def test_what_a_device_plugins_id_means(device_id: str, expected: set[str]) -> None:
    assert TABLE.plugin(device_id) == expected


def test_without_nvml_a_uuid_still_means_itself_and_a_number_nothing() -> None:
    empty = DeviceTable.of(())
    assert empty.plugin(f"{A}::1") == {A}
    assert empty.plugin("nvidia0") == frozenset()


def test_numbers_keep_their_meaning_while_nvml_is_silent_or_has_lost_a_gpu() -> None:
    """A GPU that fell off the bus is still somebody's. Its number means another one as soon as NVML says so."""
    assert DeviceTable.of((), TABLE).plugin("nvidia2/gi1") == {M0}
    assert DeviceTable.of((), TABLE).plugin(OLD) == {OLD}
    without = DeviceTable.of(NODE[:1], TABLE)
    assert without.plugin("nvidia1") == {C}
    assert without.plugin("nvidia2/gi2") == {M1, M2}
    assert without.plugin(OLD) == {OLD}
    assert DeviceTable.of(NODE[:3], TABLE).plugin("nvidia2/gi2") == frozenset()
    assert DeviceTable.of((reading(C, 0, 0),), TABLE).plugin("nvidia0") == {C}


def test_instances_of_a_gpu_that_took_too_long_to_answer_keep_their_meaning() -> None:
    """It is shown without them then; one that is no longer in MIG mode has none."""
    whole = next(gpu for gpu in NODE if gpu.minor == 2 and not gpu.mig)
    for mode, meant in (("enabled", {M0}), ("disabled", frozenset())):
        table = DeviceTable.of((*NODE[:1], replace(whole, mig_mode=mode)), TABLE)
        assert table.plugin("nvidia2/gi1") == meant


@pytest.mark.parametrize(
    ("resource", "pools", "expected"),
    [
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-0"), {}, {A}),
        # Index in older drivers, minor number in newer ones: here they are two GPUs.
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-1"), {}, set()),
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-1"), {("n", "gpu-1"): C}, {C}),
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-1"), {("other", "gpu-1"): C}, set()),
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-0"), {("n", "gpu-0"): "nonsense"}, {A}),
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-1-mig-19-0-1"), {("n", "gpu-1-mig-19-0-1"): M0}, {M0}),
        (ClaimResource((), "gpu.nvidia.com", "n", "gpu-1-mig-19-0-1"), {}, set()),
        (ClaimResource((f"nvidia.com/gpu={M1}",), "gpu.nvidia.com", "n", "gpu-1-mig-19-0-1"), {}, {M1}),
        (ClaimResource((f"nvidia.com/gpu={C}",), "gpu.nvidia.com", "n", "gpu-1"), {}, {C}),
        (ClaimResource(("nvidia.com/gpu=2",), "gpu.nvidia.com", "n", "gpu-1"), {}, {C}),
        (ClaimResource(("nvidia.com/gpu=all",), "gpu.nvidia.com", "n", "gpu-9"), {}, set()),
        (ClaimResource(("k8s.gpu.nvidia.com/claim=0b1-gpu-0",), "gpu.nvidia.com", "n", "gpu-0"), {}, {A}),
        (ClaimResource(("", "=", "nvidia.com/gpu"), "gpu.nvidia.com", "n", ""), {}, set()),
    ],
)
def test_what_a_claims_device_means(
    resource: ClaimResource, pools: Mapping[tuple[str, str], str], expected: set[str]
) -> None:
    assert TABLE.claim(resource, pools) == expected


@given(st.text(max_size=60))
def test_any_name_means_devices_of_the_node_or_a_uuid(name: str) -> None:
    for found in (TABLE.plugin(name), TABLE.claim(ClaimResource((name,), "", "", name), {})):
        assert all(key in TABLE.keys or (key.isascii() and key.isprintable() and len(key) < 150) for key in found)


def test_only_gpu_resources_are_taken_and_entries_are_merged() -> None:
    message = pod(
        "a",
        "ml",
        {"nvidia.com/gpu": [A, B], "rdma/hca": ["mlx5_0"], "nvidia.com/mig-1g.18gb": [M0]},
        {"nvidia.com/gpu": [A], "nvidia.com/gpu.shared": [f"{C}::1"], "example.com/nvidia.com/gpu": ["x"]},
        claims=[claim("gpu-0"), claim("x", driver="dra.example.com")],
    )
    [read] = decode_pods(list_reply(message))
    held = SELECTION.of(read)
    assert held.ids == {("c0", A), ("c0", B), ("c0", M0), ("c1", A), ("c1", f"{C}::1")}
    assert {(container, one.device_name) for container, one in held.claims} == {("c0", "gpu-0")}
    assert Selection(resources=("rdma/*",), drivers=("dra.*",)).of(read) == Held(
        frozenset({("c0", "mlx5_0")}), frozenset({("c0", ClaimResource((), "dra.example.com", "gpu-real-0", "x"))})
    )
    assert not Selection(resources=(), drivers=()).of(read)


def test_a_pods_devices_have_the_containers_that_hold_them() -> None:
    """Replicas of one GPU in two containers, one claim in two: each container once. A name may mean two devices."""
    shared = ClaimResource((f"nvidia.com/gpu={C}",), "gpu.nvidia.com", "n", "gpu-9")
    held = Held(
        frozenset({("b", f"{A}::0"), ("a", f"{A}::1"), ("a", f"{A}::2"), ("a", "nvidia2/gi2"), ("", B)}),
        frozenset({("b", shared), ("c", shared)}),
    )
    assert TABLE.of_pod(held, {}) == ({A: ("a", "b"), M1: ("a",), M2: ("a",), B: (), C: ("b", "c")}, 0)


def test_a_name_that_means_nothing_is_counted_once_however_many_containers_have_it() -> None:
    nameless = ClaimResource((), "gpu.nvidia.com", "n", "gpu-1")
    held = Held(
        frozenset({("a", "nvidia7"), ("b", "nvidia7"), ("b", A)}), frozenset({("a", nameless), ("b", nameless)})
    )
    assert TABLE.of_pod(held, {}) == ({A: ("b",)}, 2)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\nb", "a\u202eb", "x" * 300])
def test_a_container_whose_name_cannot_be_shown_holds_its_devices_all_the_same(name: str) -> None:
    container = ContainerResources(name, (ContainerDevices("nvidia.com/gpu", (A,)),))
    assert SELECTION.of(PodResources("a", "ml", (container,))) == Held(frozenset({("", A)}))


def test_the_recorded_node(recordings: Recordings) -> None:
    """Time-slicing replicas, MIG by UUID and by place, and pods without a GPU, as a real kubelet listed them."""
    old_place = "GPU-22222222-dddd-4000-8000-000000000002"
    mig = "MIG-99999999-cccc-5000-8000-000000000009"
    table = DeviceTable.of((reading(old_place, 5, 5), reading(old_place, 5, 5, mig, (3, 0))))
    reply = recordings["04-shared-and-mig-list"].reply
    assert reply is not None
    held = {one.name: SELECTION.of(one) for one in decode_pods(reply)}
    assert not held["r-plain"]
    assert {name: set(table.of_pod(found, {})[0]) for name, found in held.items() if found} == {
        "r-multi": {"GPU-00000000-aaaa-4000-8000-000000000000", "GPU-00000001-aaaa-4000-8000-000000000001"},
        "r-shared": {"GPU-0000000a-bbbb-4000-8000-00000000000a"},
        "r-mig": {mig},
        "r-mig2": {"MIG-11111111-cccc-5000-8000-000000000001", "MIG-11111111-cccc-5000-8000-000000000002"},
        "r-two": {"GPU-00000003-aaaa-4000-8000-000000000003", "GPU-00000004-aaaa-4000-8000-000000000004"},
    }
