"""The API's messages, by protobuf's runtime and protoc: nothing is shared with the exporter but the .proto file."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dutycycle_exporter.attribution

PROTO = Path(dutycycle_exporter.attribution.__file__).parent / "kubernetes/podresources.proto"


_ONE_AT_A_TIME = threading.Lock()


def schema() -> Mapping[str, Any]:
    """The message classes by name without the package: for every thread the same ones."""
    with _ONE_AT_A_TIME:
        return _compiled()


@cache
def _compiled() -> Mapping[str, Any]:
    from google.protobuf import descriptor_pb2, message_factory
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as directory:
        compiled = Path(directory) / "set"
        status = protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={compiled}", PROTO.name])
        assert status == 0, "protoc refuses podresources.proto"
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file
    return {name.removeprefix("v1."): found for name, found in message_factory.GetMessages(files).items()}


def pod(
    name: str,
    namespace: str = "ml",
    *containers: Mapping[str, Sequence[str]],
    claims: Sequence[Any] = (),
) -> Any:
    """A PodResources: each container is its device ids by resource, written one device an entry as the kubelet does.

    `claims` are held by the first container.
    """
    message = schema()["PodResources"](name=name, namespace=namespace)
    for number, devices in enumerate(containers or ({},)):
        container = message.containers.add(name=f"c{number}")
        for resource, ids in devices.items():
            for device in ids:
                container.devices.add(resource_name=resource, device_ids=[device]).topology.nodes.add()
        if claims and number == 0:
            container.dynamic_resources.add(claim_name="gpu", claim_namespace=namespace, claim_resources=claims)
    return message


def claim(device: str, pool: str = "gpu-real-0", *, cdi: Sequence[str] = (), driver: str = "gpu.nvidia.com") -> Any:
    """A ClaimResource."""
    message = schema()["ClaimResource"](driver_name=driver, pool_name=pool, device_name=device)
    for name in cdi:
        message.cdi_devices.add(name=name)
    return message


def list_reply(*pods: Any) -> bytes:
    """A ListPodResourcesResponse on the wire."""
    encoded: bytes = schema()["ListPodResourcesResponse"](pod_resources=pods).SerializeToString()
    return encoded
