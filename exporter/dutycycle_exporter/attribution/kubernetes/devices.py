"""Which devices the names that device plugins and DRA drivers give to them mean. Pure.

NVIDIA's device plugin names a device by its UUID, with `::<n>` behind it for a replica (time slicing, MPS); drivers
before R470 call a MIG device `MIG-<GPU UUID>/<GPU instance>/<compute instance>`. GKE's plugin says `nvidia<minor>`,
`nvidia<minor>/gi<GPU instance>`, and appends `/vgpu<n>` to a shared one. NVIDIA's DRA driver calls a GPU `gpu-<n>`,
where n is the NVML index in older releases and the minor number since.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dutycycle_exporter.model import GpuReading

from .messages import ClaimResource, PodResources
from .records import is_pod_name

_DRIVERS = ("gpu.nvidia.com",)

# Nothing behind it: HAMi's <UUID>-<n> are places for pods, and say not which GPU one was given.
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_DEVICE = re.compile(rf"(?:GPU|MIG)-{_UUID}", re.ASCII)
_OLD_MIG = re.compile(rf"MIG-(GPU-{_UUID})/([0-9]{{1,4}})/([0-9]{{1,4}})", re.ASCII)
_GKE = re.compile(r"nvidia([0-9]{1,4})(?:/gi([0-9]{1,4}))?(?:/vgpu[0-9]{1,4})?", re.ASCII)
_DRA_GPU = re.compile(r"gpu-([0-9]{1,4})", re.ASCII)
_CDI_INDEX = re.compile(r"[0-9]{1,4}", re.ASCII)
_REPLICA = "::"

Key = str
"""The UUID of a GPU or of a MIG instance."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a pod holds: names of devices, each with that of the container which has it, "" where that cannot be shown.
    No order: the kubelet has none.
    """

    ids: frozenset[tuple[str, str]] = frozenset()
    claims: frozenset[tuple[str, ClaimResource]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ids or self.claims)

    def __or__(self, other: Held) -> Held:
        return Held(self.ids | other.ids, self.claims | other.claims)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a pod's devices are GPUs: patterns of device plugin resources and of DRA drivers."""

    resources: tuple[str, ...]
    drivers: tuple[str, ...] = _DRIVERS

    def of(self, pod: PodResources) -> Held:
        """The GPUs that the pod's containers hold."""
        return Held(
            frozenset(
                (_shown(container.name), device)
                for container in pod.containers
                for devices in container.devices
                if _matches(devices.resource_name, self.resources)
                for device in devices.device_ids
            ),
            frozenset(
                (_shown(container.name), claim)
                for container in pod.containers
                for claim in container.claims
                if _matches(claim.driver_name, self.drivers)
            ),
        )


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The node's devices, as NVML tells of them, by everything that a name may be made of."""

    keys: frozenset[Key] = frozenset()
    by_minor: Mapping[int, Key] = field(default_factory=dict)
    by_index: Mapping[int, Key] = field(default_factory=dict)
    instances: Mapping[tuple[Key, int], tuple[tuple[int | None, Key], ...]] = field(default_factory=dict)
    """Compute instance and UUID of each MIG device, by the physical GPU's UUID and the GPU instance."""

    @classmethod
    def of(cls, gpus: Sequence[GpuReading], before: DeviceTable | None = None) -> DeviceTable:
        """From a snapshot's readings, and what was known before them: a device that is lost may well be held."""
        before = before or cls()
        whole = [gpu for gpu in gpus if not gpu.mig]
        instances: dict[tuple[Key, int], list[tuple[int | None, Key]]] = {}
        for gpu in gpus:
            if gpu.mig and gpu.gpu_instance is not None:
                instances.setdefault((gpu.uuid, gpu.gpu_instance), []).append((gpu.compute_instance, gpu.mig))
        # One in MIG mode that shows none may have had no time to: it took too long to answer.
        told = {uuid for uuid, _ in instances} | {gpu.uuid for gpu in whole if gpu.mig_mode != "enabled"}
        return cls(
            keys=frozenset(gpu.key for gpu in gpus) or before.keys,
            by_minor={**before.by_minor, **{gpu.minor: gpu.uuid for gpu in whole if gpu.minor is not None}},
            by_index={**before.by_index, **{gpu.index: gpu.uuid for gpu in whole}},
            instances={
                **{place: found for place, found in before.instances.items() if place[0] not in told},
                **{place: tuple(found) for place, found in instances.items()},
            },
        )

    def of_pod(self, held: Held, pools: Mapping[tuple[str, str], str]) -> tuple[Mapping[Key, tuple[str, ...]], int]:
        """What a pod's names mean: each device with the names of the containers that have it, sorted, and how many of
        the names mean none. `pools` is as for `claim`.
        """
        meant = {device: self.plugin(device) for _, device in held.ids}
        claimed = {claim: self.claim(claim, pools) for _, claim in held.claims}
        containers: dict[Key, set[str]] = {key: set() for keys in (*meant.values(), *claimed.values()) for key in keys}
        pairs = [(container, meant[device]) for container, device in held.ids]
        pairs += [(container, claimed[claim]) for container, claim in held.claims]
        for container, keys in pairs:
            for key in keys if container else ():
                containers[key].add(container)
        unknown = sum(not keys for keys in (*meant.values(), *claimed.values()))
        return {key: tuple(sorted(found)) for key, found in containers.items()}, unknown

    def plugin(self, device_id: str) -> frozenset[Key]:
        """The devices that a device plugin's id means: one, or none where it means nothing here.

        A whole UUID needs no NVML. GKE's form of a GPU instance means all of its compute instances.
        """
        name, _, _ = device_id.partition(_REPLICA)
        if name in self.keys or _DEVICE.fullmatch(name):
            return frozenset((name,))
        if old := _OLD_MIG.fullmatch(name):
            return self._instance(old[1], int(old[2]), int(old[3]))
        if gke := _GKE.fullmatch(name):
            uuid = self.by_minor.get(int(gke[1]))
            if uuid is None:
                return frozenset()
            return frozenset((uuid,)) if gke[2] is None else self._instance(uuid, int(gke[2]), None)
        return frozenset()

    def claim(self, claim: ClaimResource, pools: Mapping[tuple[str, str], str]) -> frozenset[Key]:
        """The devices of a DRA claim; none where nothing tells them.

        `pools` are the UUIDs that the driver publishes, by pool and device. Without them the names in CDI may tell, and
        `gpu-<n>` does where the GPU of that index is the one of that minor number.
        """
        published = pools.get((claim.pool_name, claim.device_name), "")
        if _DEVICE.fullmatch(published):
            return frozenset((published,))
        named = frozenset(key for name in claim.cdi_devices for key in self._cdi(name))
        if named:
            return named
        numbered = _DRA_GPU.fullmatch(claim.device_name)
        if numbered is None:
            return frozenset()
        number = int(numbered[1])
        candidates = {self.by_minor.get(number), self.by_index.get(number)}
        return frozenset(key for key in candidates if key) if len(candidates) == 1 else frozenset()

    def _cdi(self, name: str) -> Iterable[Key]:
        kind, _, device = name.partition("=")
        if kind != "nvidia.com/gpu":
            return ()
        if device in self.keys or _DEVICE.fullmatch(device):
            return (device,)
        index = self.by_index.get(int(device)) if _CDI_INDEX.fullmatch(device) else None
        return () if index is None else (index,)

    def _instance(self, uuid: Key, gpu_instance: int, compute_instance: int | None) -> frozenset[Key]:
        found = self.instances.get((uuid, gpu_instance), ())
        return frozenset(key for compute, key in found if compute_instance in (None, compute))


def _shown(container: str) -> str:
    return container if is_pod_name(container) else ""


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
