"""What every object has: a kind, a name, a namespace or none, labels and annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from .cluster import CLUSTER_SCOPED, Cluster, Object, group, name, namespace, title, walk

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_ANNOTATIONS = 256 * 1024
"""Bytes, of all annotations of one object together."""
_CONFIG_MAP = 1024 * 1024
"""Bytes, of all that a ConfigMap or a Secret holds."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def is_label_name(text: str) -> bool:
    """RFC 1123: a part of a DNS name."""
    return len(text) <= 63 and bool(_LABEL.fullmatch(text))


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and bool(_SUBDOMAIN.fullmatch(text))


def is_label_value(text: str) -> bool:
    return len(text) <= 63 and (not text or bool(_QUALIFIED.fullmatch(text)))


def is_label_key(text: str) -> bool:
    """A name of at most 63 characters, after a domain and a slash or alone."""
    prefix, slash, last = text.rpartition("/")
    return (not slash or is_subdomain(prefix)) and len(last) <= 63 and bool(_QUALIFIED.fullmatch(last))


def said(cluster: Cluster) -> Iterator[str]:
    for index, one in enumerate(cluster.objects):
        for key in ("apiVersion", "kind"):
            if not isinstance(one.get(key), str) or not one[key]:
                yield f"object {index}: {key} is missing"
        metadata = one.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            yield f"object {index} ({one.get('kind')}): metadata.name is missing"


def unique(cluster: Cluster) -> Iterator[str]:
    counted = Counter((group(one), one["kind"], namespace(one), name(one)) for one in cluster.objects)
    for (_, kind, within, called), count in counted.items():
        if count > 1:
            yield f"{kind} {within}/{called}: is there {count} times"


def names(cluster: Cluster) -> Iterator[str]:
    for one in cluster.objects:
        called = name(one)
        if group(one) == "rbac.authorization.k8s.io":
            # A part of a path, colons and all.
            good = called not in (".", "..") and not {"/", "%"} & set(called)
        elif one["kind"] == "Service":
            good = len(called) <= 63 and bool(_SERVICE.fullmatch(called))
        elif one["kind"] == "Namespace":
            good = is_label_name(called)
        else:
            good = is_subdomain(called)
        if not good:
            yield f"{title(one)}: metadata.name cannot be {called!r}"
        # Pods' names, and labels with this name, have ends of their own.
        if one["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob") and len(called) > 52:
            yield f"{title(one)}: metadata.name is too long for its pods' names"


def namespaces(cluster: Cluster) -> Iterator[str]:
    for one in cluster.objects:
        within = namespace(one)
        if one["kind"] in CLUSTER_SCOPED:
            if within:
                yield f"{title(one)}: metadata.namespace on a kind that is in none"
        elif not within:
            yield f"{title(one)}: metadata.namespace is missing"
        elif not cluster.has("Namespace", within):
            yield f"{title(one)}: there is no namespace {within}"


def labels(cluster: Cluster) -> Iterator[str]:
    for one in cluster.objects:
        yield from _labels(title(one), one["metadata"])
    for pod in cluster.pods:
        if pod.owner["metadata"] is not pod.metadata:
            yield from _labels(f"{pod.owner['kind']} {name(pod.owner)}: template", pod.metadata)


def _labels(where: str, metadata: Object) -> Iterator[str]:
    for key, value in (metadata.get("labels") or {}).items():
        if not is_label_key(key):
            yield f"{where}: label {key!r}: not a label's name"
        if not isinstance(value, str) or not is_label_value(value):
            yield f"{where}: label {key}: {value!r} is not a label's value"


def annotations(cluster: Cluster) -> Iterator[str]:
    found = [(title(one), one["metadata"]) for one in cluster.objects]
    found += [(f"{title(pod.owner)}: template", pod.metadata) for pod in cluster.pods]
    for where, metadata in found:
        given = metadata.get("annotations") or {}
        for key, value in given.items():
            if not is_label_key(key.lower()):
                yield f"{where}: annotation {key!r}: not an annotation's name"
            if not isinstance(value, str):
                yield f"{where}: annotation {key}: {value!r} is not a string"
            if key == _LAST_APPLIED:
                yield f"{where}: annotation {key} is kubectl's own"
        if sum(len(str(part).encode()) for pair in given.items() for part in pair) > _ANNOTATIONS:
            yield f"{where}: annotations are too long"


def nothing_is_null(cluster: Cluster) -> Iterator[str]:
    """A key with nothing after it: schemas allow it, the server drops it, its author meant something."""
    for one in cluster.objects:
        for path, value in walk(one):
            if value is None:
                yield f"{title(one)}: {path} is null"


def keys_of_data(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("ConfigMap", "Secret"):
        held = [pair for part in ("data", "binaryData", "stringData") for pair in (one.get(part) or {}).items()]
        for key, _ in held:
            if len(key) > 253 or not _CONFIG_KEY.fullmatch(key) or key in (".", ".."):
                yield f"{title(one)}: {key!r} cannot be a key"
        if sum(len(str(value).encode()) for _, value in held) > _CONFIG_MAP:
            yield f"{title(one)}: holds more than 1 MiB"
