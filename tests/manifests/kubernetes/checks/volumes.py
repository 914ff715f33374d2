"""A pod's volumes, and where its containers mount them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .cluster import Cluster, Pod
from .identity import is_label_name

_HOST_TYPES = ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")


def sources(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        given = pod.spec.get("volumes") or ()
        for name, count in Counter(volume.get("name") for volume in given).items():
            if count > 1:
                yield f"{pod}.volumes: {count} are named {name}"
        for volume in given:
            name = volume.get("name") or ""
            where = f"{pod}.volumes[{name}]"
            if not is_label_name(name):
                yield f"{where}: cannot be a volume's name"
            found = [key for key in volume if key != "name" and volume[key] is not None]
            if len(found) != 1:
                yield f"{where}: is of one kind, not of {found}"
            if "hostPath" in found:
                path = volume["hostPath"].get("path") or ""
                if not path.startswith("/") or ".." in path.split("/"):
                    yield f"{where}: hostPath {path!r}"
                if volume["hostPath"].get("type", "") not in _HOST_TYPES:
                    yield f"{where}: hostPath of type {volume['hostPath']['type']}"
            for mode in _modes(volume):
                if not 0 <= mode <= 0o777:
                    yield f"{where}: mode {mode} (decimal) is not one of a file"


def _modes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("defaultMode", "mode"):
                yield part
            yield from _modes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _modes(part)


def _there(pod: Pod) -> set[str]:
    claimed = (pod.owner.get("spec") or {}).get("volumeClaimTemplates") or ()
    return {one["name"] for one in pod.spec.get("volumes") or ()} | {one["metadata"]["name"] for one in claimed}


def mounts(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        there = _there(pod)
        for path, container in pod.containers():
            given = container.get("volumeMounts") or ()
            for mount in given:
                at = mount.get("mountPath") or ""
                if mount.get("name") not in there:
                    yield f"{path}.volumeMounts: there is no volume {mount.get('name')}"
                if not at.startswith("/") or ":" in at:
                    yield f"{path}.volumeMounts: {at!r} is no path to mount at"
                inner = mount.get("subPath") or ""
                if inner.startswith("/") or ".." in inner.split("/"):
                    yield f"{path}.volumeMounts: subPath {inner!r}"
            for at, count in Counter((mount.get("mountPath") or "").rstrip("/") for mount in given).items():
                if count > 1:
                    yield f"{path}.volumeMounts: {count} are at {at}"


def unused(cluster: Cluster) -> Iterator[str]:
    """No server minds; nobody meant it."""
    for pod in cluster.pods:
        mounted = {one.get("name") for _, container in pod.containers() for one in container.get("volumeMounts") or ()}
        for name in sorted(_there(pod) - mounted):
            yield f"{pod}.volumes[{name}]: is mounted nowhere"
