"""The evidence of GPUs and nodes themselves, whoever holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from dutycycle_alerter.model import DeviceWindow, Gpu, GpuEvidence, NodeEvidence
from dutycycle_alerter.sources.claims import UNOWNED
from dutycycle_alerter.sources.prometheus.columns import Cells, cells
from dutycycle_alerter.sources.prometheus.identity import Device, Sight
from dutycycle_alerter.sources.prometheus.scope import Windows
from dutycycle_alerter.sources.prometheus.tables import Tables

_NOTHING: Mapping[Device, tuple[Gpu, float]] = {}
_NO_XIDS: Mapping[int, float] = {}
_HEALTH = ("recovery_action", "remap_failed")


@dataclass(frozen=True, slots=True)
class _Node:
    """What holds for every GPU of a node: `zero` is what a reading is that is not listed, by its name."""

    visible: bool
    watched_from: float
    zero: tuple[float | None, float | None]


class DeviceEvidence:
    """The evidence of one pass."""

    def __init__(
        self,
        tables: Tables,
        sights: Mapping[str, Sight],
        lengths: Windows,
        remembered: Mapping[Device, tuple[Gpu, float]] = _NOTHING,
    ) -> None:
        self._tables = tables
        self._sights = sights
        self._remembered = remembered
        self._lengths = lengths
        self._memory = self._cells("free_memory_least", lengths.leaked)
        self._processes = self._cells("free_processes_most", lengths.leaked)
        self._utilization = self._cells("free_utilization", lengths.leaked)
        self._lately = self._cells("held_lately", lengths.leaked)
        self._thermal = self._cells("throttle_thermal", lengths.throttled)
        self._power = self._cells("throttle_power", lengths.throttled)

    def nodes(self) -> Iterator[NodeEvidence]:
        """Every node of which anything is known."""
        for node, sight in self._sights.items():
            expected, visible = (sight.expected, sight.visible) if sight.steady else (None, None)
            yield NodeEvidence(node, self._tables.at, expected, visible)

    def gpus(self) -> Iterator[GpuEvidence]:
        """Every GPU that somebody holds and every free one; those that were shown before, and those that an XID tells
        of, as not visible.
        """
        tables, at = self._tables, self._tables.at
        shown, holders = self._shown()
        nodes = {node: self._node(node) for node in {gpu.node for gpu in shown.values()}}
        recovery, remap = (self._cells(name) for name in _HEALTH)
        used, total = self._cells("memory"), self._cells("memory_total")
        baseline = tables.learned.get("memory_baseline", {})
        for place, (host, uuid, mig) in enumerate(tables.devices.keys):
            device = host, uuid, mig
            gpu = shown.get(device)
            if gpu is None:
                continue
            node, jobs = nodes[gpu.node], holders.get(device)
            held = () if jobs is None else tuple(jobs)
            window = partial(self._window, device, place, bool(held), node.visible)
            xids = tables.xids.get(device, _NO_XIDS)
            if not node.visible:
                yield GpuEvidence(gpu, at, window, False, node.watched_from, xids, jobs=held)
                continue
            action = node.zero[0] if recovery[place] is None else recovery[place]
            failed = node.zero[1] if remap[place] is None else remap[place]
            yield GpuEvidence(
                gpu,
                at,
                window,
                True,
                node.watched_from,
                xids,
                None if gpu.mig else action,
                None if failed is None or gpu.mig else failed > 0,
                used[place],
                total[place],
                None if gpu.mig else baseline.get(gpu.model),
                held,
            )
        # Those that are not shown may have fallen off the bus; others' exporters are silent.
        unseen = {device: Gpu(device[0], "", device[1], device[2]) for device in tables.xids}
        unseen |= {device: gpu for device, (gpu, _) in self._remembered.items()}
        for device, gpu in unseen.items():
            if device not in shown:
                xids = tables.xids.get(device, _NO_XIDS)
                yield GpuEvidence(gpu, at, DeviceWindow, visible=False, watched_from=at, xids=xids)

    def _shown(self) -> tuple[dict[Device, Gpu], dict[Device, list[str]]]:
        """The GPUs that are there now, and the ids of the jobs that hold them."""
        holders: defaultdict[Device, list[str]] = defaultdict(list)
        shown: dict[Device, Gpu] = dict(self._tables.free)
        for job in self._tables.jobs:
            for (node, uuid, mig, _), held in job.held:
                if held.present:
                    shown[node, uuid, mig] = held.gpu
                    if job.key[1].startswith(UNOWNED):
                        continue
                    holders[node, uuid, mig].append(job.id)
                    if mig:
                        # Who holds an instance holds a part of its GPU, too.
                        holders[node, uuid, ""].append(job.id)
        return shown, holders

    def _node(self, node: str) -> _Node:
        tables, sight = self._tables, self._sights.get(node)
        before = tables.at - self._lengths.devices
        zero = [
            0.0 if sight is not None and sight.visible is not None and known >= sight.visible else None
            for known in (tables.nodes[f"{name}_known"].get(node, -1.0) for name in _HEALTH)
        ]
        return _Node(
            visible=sight is not None and sight.fresh,
            watched_from=before if node in tables.nodes["seen_before"] else tables.at,
            zero=(zero[0], zero[1]),
        )

    def _cells(self, name: str, window: float = 0.0) -> Cells:
        return cells(self._tables.column(self._tables.devices, name, window))

    def _window(self, device: Device, place: int, held: bool, visible: bool, length: float) -> DeviceWindow:
        if not visible or length in self._tables.failed:
            return DeviceWindow(length)
        found = DeviceWindow(length)
        if length == self._lengths.throttled:
            thermal, power = self._thermal[place], self._power[place]
            found = DeviceWindow(
                length,
                throttle_thermal=None if thermal is None else min(1.0, thermal / length),
                throttle_power=None if power is None else min(1.0, power / length),
            )
        if length != self._lengths.leaked:
            return found
        lately = self._lately[place] is not None or (not device[2] and device[:2] in self._tables.parts)
        return DeviceWindow(
            length,
            self._memory[place],
            self._processes[place],
            held or lately,
            found.throttle_thermal,
            found.throttle_power,
            self._utilization[place],
        )
