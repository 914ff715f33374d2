"""What the API server says of the node's pods, and of the devices that DRA drivers publish. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dutycycle_exporter.attribution import strict_json
from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.text import is_name
from dutycycle_exporter.model import Workload

_HEAVY = frozenset({"spec", "managedFields", "conditions", "containerStatuses", "initContainerStatuses"})
_HASH, _MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")
_LONGEST_UID = 64


@dataclass(frozen=True, slots=True)
class Naming:
    """Where a pod's user is written (an annotation, else a label; empty for none), and which labels are let through.

    `labels` are patterns of label names. `slurm` are labels of pods in which slurmd runs, each `name=pattern`.
    """

    user_annotation: str = ""
    user_label: str = ""
    labels: tuple[str, ...] = ()
    slurm: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod of this node. `uid` is that of its cgroup; `start` is when the kubelet took it on, in Unix seconds. `slurm`
    tells that its labels say that it is a node of Slurm's.
    """

    uid: str
    namespace: str
    name: str
    over: bool = False
    start: float | None = None
    user: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    slurm: bool = False


def workload(namespace: str, name: str, uid: str, record: PodRecord | None) -> Workload:
    """What a pod is called. Without the API server's word its namespace is the user."""
    user = namespace if record is None else record.user
    return Workload(f"k8s/{namespace}/{name}/{uid}", "k8s", namespace=namespace, pod=name, user=user)


def parse_pods(body: bytes | bytearray, naming: Naming) -> tuple[tuple[PodRecord, ...], int]:
    """The pods of a PodList, and how many of its items are not pods. Raises UnusableError: protocol."""
    records, bad = [], 0
    items = list(_items(body, "PodList"))
    uids = {uid for item in items if isinstance(uid := _mapping(_mapping(item).get("metadata")).get("uid"), str)}
    for item in items:
        record = _record(item, naming, uids)
        if record is None:
            bad += 1
        else:
            records.append(record)
    return tuple(records), bad


def parse_slices(body: bytes | bytearray) -> Mapping[tuple[str, str], str]:
    """The UUID of each device that a ResourceSliceList publishes, by pool and device name; those without are left out.

    Raises UnusableError: protocol.
    """
    found: dict[tuple[str, str], str] = {}
    for item in _items(body, "ResourceSliceList", heavy=frozenset({"managedFields"})):
        spec = _mapping(_mapping(item).get("spec"))
        pool = _mapping(spec.get("pool")).get("name")
        devices = spec.get("devices")
        for device in devices if isinstance(devices, list) else ():
            name = _mapping(device).get("name")
            # v1beta1 has the attributes one level down.
            holder = _mapping(device) if "attributes" in _mapping(device) else _mapping(_mapping(device).get("basic"))
            uuid = _mapping(_mapping(holder.get("attributes")).get("uuid")).get("string")
            if isinstance(pool, str) and isinstance(name, str) and isinstance(uuid, str):
                found[pool, name] = uuid
    return found


def _items(body: bytes | bytearray, kind: str, heavy: frozenset[str] = _HEAVY) -> Iterable[object]:
    def light(pairs: list[tuple[str, object]]) -> dict[str, object]:
        # Pruned while it is parsed: most of a pod is its spec and its managed fields. A label may have such a name.
        return {key: value for key, value in pairs if key not in heavy or isinstance(value, str)}

    try:
        parsed = strict_json.parse(body, light)
    except (ValueError, RecursionError) as error:
        raise UnusableError("protocol") from error
    if not isinstance(parsed, dict) or parsed.get("kind") != kind:
        raise UnusableError("protocol")
    items = parsed.get("items")
    if items is None:
        return ()
    if not isinstance(items, list):
        raise UnusableError("protocol")
    return items


def _record(item: object, naming: Naming, uids: Collection[str]) -> PodRecord | None:
    metadata, status = _mapping(_mapping(item).get("metadata")), _mapping(_mapping(item).get("status"))
    annotations, labels = _texts(metadata.get("annotations")), _texts(metadata.get("labels"))
    static_uid = _static_uid(metadata, annotations, uids)
    uid = static_uid or metadata.get("uid")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not (isinstance(uid, str) and isinstance(namespace, str) and isinstance(name, str)):
        return None
    if not (is_pod_name(uid) and len(uid) <= _LONGEST_UID and is_pod_name(namespace) and is_pod_name(name)):
        return None
    start, created = _time(status.get("startTime")), _time(metadata.get("creationTimestamp"))
    if static_uid and start is not None and created is not None:
        # A kubelet that restarts writes a new start time for its static pods, whose containers run on.
        start = min(start, created)
    user = annotations.get(naming.user_annotation) or labels.get(naming.user_label) or namespace
    return PodRecord(
        uid=uid,
        namespace=namespace,
        name=name,
        over=status.get("phase") in _OVER,
        start=start or created,
        user=user,
        labels=tuple(
            sorted(
                (label, value)
                for label, value in labels.items()
                if any(fnmatch.fnmatchcase(label, pattern) for pattern in naming.labels)
            )
        ),
        slurm=any(_has(labels, label) for label in naming.slurm),
    )


def _static_uid(metadata: Mapping[str, object], annotations: Mapping[str, str], uids: Collection[str]) -> str:
    """The uid in the cgroup of a static pod, whose object is a mirror with a uid of its own; empty for other pods.

    Anybody can write annotations. The API server lets nobody make a pod that runs into a mirror, a kubelet runs no
    mirror that it did not make, and it calls its node the controller of those that it does. No hash is a pod's uid.
    """
    found = annotations.get(_HASH, "")
    if not found or annotations.get(_MIRROR) != found or found in uids:
        return ""
    owners = metadata.get("ownerReferences")
    controllers = [one for one in map(_mapping, owners if isinstance(owners, list) else ()) if one.get("controller")]
    of_node = any(one.get("kind") == "Node" and one.get("apiVersion") == "v1" for one in controllers)
    return found if of_node else ""


def _has(labels: Mapping[str, str], label: str) -> bool:
    name, _, pattern = label.partition("=")
    return name in labels and fnmatch.fnmatchcase(labels[name], pattern)


def is_pod_name(text: str) -> bool:
    """Whether a text can be a part of a workload's id: Kubernetes' names have no slash and no spaces."""
    return bool(text) and is_name(text) and "/" not in text and " " not in text


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> Mapping[str, str]:
    """A map of texts that can be shown."""
    texts = ((key, text) for key, text in _mapping(value).items() if isinstance(text, str))
    return {key: text for key, text in texts if key and is_name(key) and is_name(text)}


def _time(value: object) -> float | None:
    """Unix seconds; None before 1970, as Go writes what never was, and for a time of no zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    found = moment.timestamp() if moment is not None and moment.tzinfo is not None else 0.0
    return found if found > 0 else None
