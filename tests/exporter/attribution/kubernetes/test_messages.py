"""The decoder reads what protobuf's own reads: on recordings, on generated messages, and on bytes that are neither."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.kubernetes.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    PodResources,
    decode_pods,
)
from tests.fakes.kubelet import claim, list_reply, pod, schema
from tests.fakes.kubelet.recorded import Recordings


def as_ours(pods: Any) -> tuple[PodResources, ...]:
    """What the decoder is to make of protobuf's messages."""
    return tuple(
        PodResources(
            pod.name,
            pod.namespace,
            tuple(
                ContainerResources(
                    container.name,
                    tuple(ContainerDevices(one.resource_name, tuple(one.device_ids)) for one in container.devices),
                    tuple(
                        ClaimResource(
                            tuple(device.name for device in resource.cdi_devices),
                            resource.driver_name,
                            resource.pool_name,
                            resource.device_name,
                        )
                        for dynamic in container.dynamic_resources
                        for resource in dynamic.claim_resources
                    ),
                )
                for container in pod.containers
            ),
        )
        for pod in pods
    )


def test_every_recorded_reply_reads_as_its_text_says(recordings: Recordings) -> None:
    read = 0
    for exchange in recordings:
        if exchange.reply is None or exchange.method.endswith("/GetAllocatableResources"):
            continue
        # A GetPodResourcesResponse has its one pod where a list has its pods.
        single = exchange.method.endswith("/Get")
        kind = schema()["GetPodResourcesResponse" if single else "ListPodResourcesResponse"]
        expected = text_format.Parse(exchange.textproto or "", kind())
        pods = [expected.pod_resources] if single else expected.pod_resources
        assert decode_pods(exchange.reply) == as_ours(pods), exchange.name
        read += 1
    assert read == 30


def test_the_published_field_numbers() -> None:
    """Against the table of the kubelet's API, so that the .proto file and the decoder cannot be wrong together."""
    numbers = {
        "ListPodResourcesResponse": {"pod_resources": 1},
        "PodResources": {"name": 1, "namespace": 2, "containers": 3},
        "ContainerResources": {"name": 1, "devices": 2, "cpu_ids": 3, "memory": 4, "dynamic_resources": 5},
        "ContainerDevices": {"resource_name": 1, "device_ids": 2, "topology": 3},
        "TopologyInfo": {"nodes": 1},
        "NUMANode": {"ID": 1},
        "ContainerMemory": {"memory_type": 1, "size": 2, "topology": 3},
        "DynamicResource": {"claim_name": 2, "claim_namespace": 3, "claim_resources": 4},
        "ClaimResource": {"cdi_devices": 1, "driver_name": 2, "pool_name": 3, "device_name": 4, "share_id": 5},
        "CDIDevice": {"name": 1},
        "AllocatableResourcesResponse": {"devices": 1, "cpu_ids": 2, "memory": 3},
        "GetPodResourcesRequest": {"pod_name": 1, "pod_namespace": 2},
        "GetPodResourcesResponse": {"pod_resources": 1},
    }
    for name, fields in numbers.items():
        assert {field.name: field.number for field in schema()[name].DESCRIPTOR.fields} == fields


def test_a_claim_of_a_dynamic_resource() -> None:
    reply = list_reply(pod("a", "ml", claims=[claim("gpu-0", cdi=["nvidia.com/gpu=0", "x/y=z"]), claim("gpu-1")]))
    [container] = decode_pods(reply)[0].containers
    assert container.claims == (
        ClaimResource(("nvidia.com/gpu=0", "x/y=z"), "gpu.nvidia.com", "gpu-real-0", "gpu-0"),
        ClaimResource((), "gpu.nvidia.com", "gpu-real-0", "gpu-1"),
    )


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def _containers(draw: st.DrawFn) -> Any:
    container = schema()["ContainerResources"](name=draw(_TEXT), cpu_ids=draw(st.lists(_INT64, max_size=5)))
    for _ in range(draw(st.integers(0, 3))):
        devices = container.devices.add(resource_name=draw(_TEXT), device_ids=draw(st.lists(_TEXT, max_size=3)))
        for number in draw(st.lists(_INT64, max_size=2)):
            devices.topology.nodes.add(ID=number)
    for _ in range(draw(st.integers(0, 2))):
        container.memory.add(memory_type=draw(_TEXT), size=draw(st.integers(0, 2**64 - 1))).topology.nodes.add()
    for _ in range(draw(st.integers(0, 2))):
        dynamic = container.dynamic_resources.add(claim_name=draw(_TEXT), claim_namespace=draw(_TEXT))
        for _ in range(draw(st.integers(0, 2))):
            resource = dynamic.claim_resources.add(driver_name=draw(_TEXT), pool_name=draw(_TEXT))
            resource.device_name = draw(_TEXT)
            for name in draw(st.lists(_TEXT, max_size=2)):
                resource.cdi_devices.add(name=name)
            if draw(st.booleans()):
                resource.share_id = draw(_TEXT)
    return container


@st.composite
def _replies(draw: st.DrawFn) -> Any:
    reply = schema()["ListPodResourcesResponse"]()
    for _ in range(draw(st.integers(0, 4))):
        one = reply.pod_resources.add(name=draw(_TEXT), namespace=draw(_TEXT))
        one.containers.extend(draw(st.lists(_containers(), max_size=3)))
    return reply


@given(_replies())
def test_any_reply_reads_as_protobuf_reads_it(reply: Any) -> None:
    assert decode_pods(reply.SerializeToString()) == as_ours(reply.pod_resources)


def both(data: bytes) -> tuple[object, object]:
    """What the decoder and protobuf make of the same bytes; None for a refusal."""
    try:
        ours: object = decode_pods(data)
    except UnusableError:
        ours = None
    try:
        theirs: object = as_ours(schema()["ListPodResourcesResponse"].FromString(data).pod_resources)
    except DecodeError:
        theirs = None
    return ours, theirs


@given(_replies(), st.data())
def test_a_damaged_reply_is_refused_or_read_as_protobuf_reads_it(reply: Any, data: st.DataObject) -> None:
    """Cut short, with a byte changed, or with bytes put in. What is in fields that nobody needs is not looked into."""
    encoded = bytearray(reply.SerializeToString())
    at = data.draw(st.integers(0, len(encoded)))
    kind = data.draw(st.sampled_from(["cut", "change", "insert"]))
    if kind == "cut":
        del encoded[at:]
    elif kind == "change" and at < len(encoded):
        encoded[at] = data.draw(st.integers(0, 255))
    else:
        encoded[at:at] = data.draw(st.binary(max_size=6))
    ours, theirs = both(bytes(encoded))
    if theirs is not None or kind == "cut":
        assert ours == theirs


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_read_as_protobuf_reads_them(data: bytes) -> None:
    ours, theirs = both(data)
    if theirs is not None:
        assert ours == theirs


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a field beyond the end", b"\x0a\x05\x0a\x01a"),
        ("a name beyond its pod's end", b"\x0a\x03\x0a\x05a"),
        ("a length without its end", b"\x0a\xff"),
        ("a varint of eleven bytes", b"\x10" + b"\xff" * 10 + b"\x01"),
        ("field number 0", b"\x02\x00"),
        ("a wire type that does not exist", b"\x0f\x00"),
        ("the end of a group that has not begun", b"\x0c"),
        ("a group that another's end ends", b"\x13\x1c"),
        ("a group that does not end", b"\x13\x10\x01"),
        ("a fixed64 beyond the end", b"\x11\x00\x00"),
        ("a name that is not UTF-8", b"\x0a\x04\x0a\x02\xff\xfe"),
        ("groups within groups for ever", b"\x13" * 5000),
    ],
)
def test_what_is_no_message_is_refused(name: str, data: bytes) -> None:
    assert both(data) == (None, None), name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("an unknown varint", b"\x98\x06\x01"),
        ("an unknown group", b"\x13\x10\x01\x14"),
        ("an unknown fixed32", b"\x15abcd"),
        ("an unknown fixed64", b"\x11abcdefgh"),
        ("a known field of another wire type", b"\x08\x01"),
        ("a padded length", b"\x0a\x83\x00\x0a\x01a"),
    ],
)
def test_what_is_not_known_is_passed_over(name: str, data: bytes) -> None:
    ours, theirs = both(data + list_reply(pod("a")))
    assert ours == theirs, name
    assert ours is not None
