"""The kubelet's answer to `List`, as far as it tells who holds what; `podresources.proto` has all of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .wire import messages, text


@dataclass(frozen=True, slots=True)
class ClaimResource:
    """A device of a dynamic resource claim (DRA), by its names in the driver's pool and in CDI."""

    cdi_devices: tuple[str, ...] = ()
    driver_name: str = ""
    pool_name: str = ""
    device_name: str = ""


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Devices of a device plugin. The kubelet puts each into an entry of its own."""

    resource_name: str = ""
    device_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds."""

    name: str = ""
    devices: tuple[ContainerDevices, ...] = ()
    claims: tuple[ClaimResource, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod holds. Pods without any device are listed, too."""

    name: str = ""
    namespace: str = ""
    containers: tuple[ContainerResources, ...] = ()


def decode_pods(reply: bytes | bytearray) -> tuple[PodResources, ...]:
    """The pods of a ListPodResourcesResponse. Raises UnusableError: protocol."""
    with memoryview(reply) as view:
        return tuple(_pod(content) for number, content in messages(view) if number == 1)


def _pod(message: memoryview) -> PodResources:
    name, namespace, containers = "", "", []
    for number, content in messages(message):
        if number == 1:
            name = text(content)
        elif number == 2:
            namespace = text(content)
        elif number == 3:
            containers.append(_container(content))
    return PodResources(name, namespace, tuple(containers))


def _container(message: memoryview) -> ContainerResources:
    name, devices, claims = "", [], []
    for number, content in messages(message):
        if number == 1:
            name = text(content)
        elif number == 2:
            devices.append(_devices(content))
        elif number == 5:
            claims += [_claim(resource) for field, resource in messages(content) if field == 4]
    return ContainerResources(name, tuple(devices), tuple(claims))


def _devices(message: memoryview) -> ContainerDevices:
    resource, ids = "", []
    for number, content in messages(message):
        if number == 1:
            resource = text(content)
        elif number == 2:
            ids.append(text(content))
    return ContainerDevices(resource, tuple(ids))


def _claim(message: memoryview) -> ClaimResource:
    names = {2: "", 3: "", 4: ""}
    cdi = []
    for number, content in messages(message):
        if number == 1:
            cdi.append(_cdi_name(content))
        elif number in names:
            names[number] = text(content)
    return ClaimResource(tuple(cdi), names[2], names[3], names[4])


def _cdi_name(message: memoryview) -> str:
    name = ""
    for number, content in messages(message):
        if number == 1:
            name = text(content)
    return name
