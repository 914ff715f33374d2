"""Shows a view under dcgm-exporter's names, labels and units, so that what was made for it goes on working.

A GPU's series carry the container or job that holds it, as there; where several hold it they are there once for each,
as there. A measure that a GPU's MIG instances have is shown of them, and not of the GPU once more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dutycycle_exporter.compat.dcgm_fields import FIELDS, LABELS, XID_COUNT, XID_LAST, Field
from dutycycle_exporter.exposition import Page, extended, heads, labels
from dutycycle_exporter.views import DeviceView, View, XidView

HEADS: Mapping[str, str] = heads(field.family for field in FIELDS)
"""What a page needs to know of these families."""

_OF_DEVICES = tuple(field for field in FIELDS if field.value is not None)

# "1c.3g.40gb" is a compute instance of the GPU instance 3g.40gb, and those are what is shown here.
_COMPUTE = re.compile(r"^\d+c\.")

_Holder = tuple[str, str, str, str]
"""Namespace, pod, container and job of a workload; all empty where it is neither a pod nor a job."""
_NOBODY: _Holder = ("", "", "", "")


@dataclass(frozen=True, slots=True)
class _Entity:
    """A GPU, or a GPU instance of it. `devices` is the GPU, or the instance's compute instances, which share its memory
    and its counters; `blocks` the labels of its series, one for each holder.
    """

    devices: Sequence[DeviceView]
    blocks: Sequence[str]

    def read(self, field: Field) -> float | None:
        for device in self.devices:
            value = field.read(device)
            if value is not None:
                return value
        return None


_UNREAD = _Entity((), ())


def add(page: Page, view: View, *, node: str, stale: bool) -> None:
    """Adds a view's series to a page that was made with `HEADS`. Of a stale view only XIDs are shown."""
    whole, parts = _entities(view, node)
    if not stale:
        for uuid in {**whole, **parts}:
            _measures(page, whole.get(uuid, _UNREAD), parts.get(uuid, ()))
    _xids(page, view.xids, whole, node)


def _measures(page: Page, gpu: _Entity, parts: Sequence[_Entity]) -> None:
    for field in _OF_DEVICES:
        found = [(part, value) for part in parts if (value := part.read(field)) is not None] if parts else []
        if not found and (value := gpu.read(field)) is not None:
            found = [(gpu, value)]
        for entity, value in found:
            for block in entity.blocks:
                page.add(field.name, block, value)


def _xids(page: Page, xids: Iterable[XidView], gpus: Mapping[str, _Entity], node: str) -> None:
    by_gpu: defaultdict[str, list[XidView]] = defaultdict(list)
    for xid in xids:
        by_gpu[xid.gpu_uuid].append(xid)
    for uuid, found in by_gpu.items():
        # Of a GPU that fell off the bus only its UUID is known, and this is how one learns why.
        blocks = gpus[uuid].blocks if uuid in gpus else (labels(("UUID", "Hostname"), (uuid, node)),)
        last = max(found, key=lambda xid: (xid.last, xid.code)).code
        for block in blocks:
            page.add(XID_LAST.name, extended(block, ("err_code", str(last))), last)
            for xid in found:
                page.add(XID_COUNT.name, extended(block, ("xid", str(xid.code))), xid.count)


def _entities(view: View, node: str) -> tuple[Mapping[str, _Entity], Mapping[str, Sequence[_Entity]]]:
    """GPUs by UUID, and the GPU instances of each. A MIG instance that does not say which it is cannot be shown."""
    holders = _holders(view)
    driver = view.snapshot.driver_version
    grouped: defaultdict[tuple[str, int | None], list[DeviceView]] = defaultdict(list)
    for device in view.devices:
        gpu = device.reading
        if not gpu.mig or gpu.gpu_instance is not None:
            grouped[gpu.uuid, gpu.gpu_instance if gpu.mig else None].append(device)
    whole: dict[str, _Entity] = {}
    parts: defaultdict[str, list[_Entity]] = defaultdict(list)
    for (uuid, number), devices in grouped.items():
        found = dict.fromkeys(holder for device in devices for holder in holders.get(device.reading.key, ()))
        blocks = [_block(devices[0], number, node, driver, holder) for holder in found or (_NOBODY,)]
        entity = _Entity(devices, blocks)
        if number is None:
            whole[uuid] = entity
        else:
            parts[uuid].append(entity)
    return whole, parts


def _holders(view: View) -> Mapping[str, Sequence[_Holder]]:
    """Who holds a device now and has labels here, by the device's UUID."""
    found: defaultdict[str, list[_Holder]] = defaultdict(list)
    for owned in view.owned:
        work = owned.workload
        if owned.share is not None and (work.pod or work.job_id):
            found[owned.mig or owned.gpu_uuid] += [
                (work.namespace, work.pod, container, work.job_id) for container in owned.containers or ("",)
            ]
    return found


def _block(device: DeviceView, instance: int | None, node: str, driver: str, holder: _Holder) -> str:
    gpu = device.reading
    values = (
        *(str(gpu.index), gpu.uuid, gpu.pci_bus_id.upper()),
        # The index again, there too: /dev/nvidia0 is the one with the minor number 0.
        f"nvidia{gpu.index}",
        gpu.model,
        *(("", "") if instance is None else (_COMPUTE.sub("", gpu.mig_profile), str(instance))),
        *(node, driver, *holder),
    )
    known = [(name, value) for name, value in zip(LABELS, values, strict=True) if value]
    return labels([name for name, _ in known], [value for _, value in known])
