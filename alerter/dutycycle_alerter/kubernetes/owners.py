"""From a pod to the job that people know: climbs from controller to controller.

Nothing is asked for but what is referenced, so no right is needed on kinds that a cluster does not have. An object that
may not be read, or is gone, is still known by the reference to it: it is then the job, with nothing written on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.model import DENIED, Metadata, Owner, Pod, Reference

DEEPEST = 10
"""Controllers above a pod that are looked at. The longest known chain, KServe's on Knative, has seven."""

_MOST = 100_000
_LONGEST_TEXT = 4096

_ABOVE = frozenset(
    {
        # Schedules: each run is a job of its own.
        ("batch", "CronJob"),
        ("argoproj.io", "CronWorkflow"),
        ("kubeflow.org", "ScheduledWorkflow"),
        ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
        ("ray.io", "RayCronJob"),
        ("batch.volcano.sh", "CronJob"),
        ("apps.kruise.io", "AdvancedCronJob"),
        # Campaigns and pools: what runs one after the other, or for different people.
        ("kubeflow.org", "Experiment"),
        ("kubeflow.org", "Suggestion"),
        ("actions.github.com", "EphemeralRunnerSet"),
        ("actions.github.com", "AutoscalingRunnerSet"),
        ("actions.summerwind.dev", "RunnerReplicaSet"),
        ("actions.summerwind.dev", "RunnerDeployment"),
        # Wrappers: they hold other jobs, several at once, until there is room.
        ("workload.codeflare.dev", "AppWrapper"),
        ("app.k8s.io", "Application"),
    }
)
"""Kinds, by group, below which a job ends. What is written on one is read, for it may name who made it."""

_UNREAD = frozenset(
    {
        ("", "Node"),
        ("", "Namespace"),
        ("nvidia.com", "ClusterPolicy"),
        ("nvidia.com", "NVIDIADriver"),
        ("work.open-cluster-management.io", "AppliedManifestWork"),
        ("operators.coreos.com", "ClusterServiceVersion"),
    }
)
"""The same, but machines and installers: nothing that is written on them is about a job."""

_API_VERSION = re.compile(r"([a-z0-9.-]{1,253}/)?[a-z0-9]{1,63}")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._:-]{1,253}")
_UID = re.compile(r"[A-Za-z0-9-]{1,64}")
_ACCOUNT = "system:"

_Key: TypeAlias = tuple[str, str, str, str, str]
"""Namespace, group, kind, name, uid."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An object that was asked for. `metadata` is None where it may not be read (`denied`), or was gone."""

    metadata: Metadata | None
    old: bool = False
    denied: bool = False


class OwnerFinder:
    """Finds jobs, and remembers the objects on the way. Belongs to one thread; `find` waits for `fetch`.

    `fetch` returns the object of a reference in a namespace. It returns None where the object is not there, which is
    final, so that a job does not become another one in its life. It returns DENIED where the object may not be read:
    that holds until a renewal reads it. Of one that is in no namespace it is enough to say that. It raises SourceError
    where the answer is unknown; that is not remembered.
    """

    def __init__(self, fetch: Callable[[str, Reference], Metadata | None]) -> None:
        self._fetch = fetch
        self._known: dict[_Key, _Known] = {}

    def find(self, pod: Pod) -> Owner:
        """The job of a pod; the pod itself where nothing controls it. Raises SourceError, from `fetch`."""
        chain: list[tuple[Reference, Metadata | None]] = []
        above: Metadata | None = None
        reference = pod.owner
        while reference is not None and len(chain) < DEEPEST and _is_plausible(reference):
            kind = (reference.group, reference.kind)
            if kind in _UNREAD or any(reference.uid == passed.uid for passed, _ in chain) or reference.uid == pod.uid:
                break
            metadata = self._metadata(pod.namespace, reference)
            if kind in _ABOVE:
                above = metadata
                break
            if metadata is not None and metadata.cluster_scoped:
                break
            chain.append((reference, metadata))
            reference = metadata.owner if metadata is not None else None
        return _owner(pod, chain, above)

    def renew(self) -> None:
        """Has what is written on objects read again, once, when it is next wanted. Who owns whom stays as it was, and
        so does what was written where it cannot be read this time.
        """
        self._known = {key: replace(known, old=True) for key, known in self._known.items()}

    def forget_all_but(self, pods: Iterable[Pod]) -> None:
        """Forgets the objects that are above none of these pods."""
        needed: dict[_Key, _Known] = {}
        for pod in pods:
            reference = pod.owner
            while reference is not None:
                key = _key(pod.namespace, reference)
                known = self._known.get(key)
                if known is None or key in needed:
                    break
                needed[key] = known
                reference = known.metadata.owner if known.metadata is not None else None
        self._known = needed

    def __len__(self) -> int:
        """How many objects are remembered."""
        return len(self._known)

    def _metadata(self, namespace: str, reference: Reference) -> Metadata | None:
        key = _key(namespace, reference)
        known = self._known.get(key)
        if known is not None and not known.old:
            return known.metadata
        try:
            found = self._fetch(namespace, reference)
        except SourceError:
            if known is None:
                raise
            found = None
        denied = found is DENIED
        if found is not None and found.uid != reference.uid:
            # It was deleted and made anew under its name: what is there now is another.
            found = None
        if known is not None and known.denied and found is None:
            denied = True
        elif known is not None and not known.denied:
            denied = False
            # It was there, or it was not: that decided which job this is. Only what is written on it may change.
            found = replace(found, owner=known.metadata.owner) if found and known.metadata else known.metadata
        while known is None and len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = _Known(found and _bounded(found), denied=denied)
        return self._known[key].metadata


def _key(namespace: str, reference: Reference) -> _Key:
    # Not the uid alone: anybody can write any uid into his pod's references.
    return namespace, reference.group, reference.kind, reference.name, reference.uid


def _is_plausible(reference: Reference) -> bool:
    """Whether this can be an object: API servers take any text for a kind and a name in a reference."""
    return bool(
        _API_VERSION.fullmatch(reference.api_version)
        and _KIND.fullmatch(reference.kind)
        and _NAME.fullmatch(reference.name)
        and _UID.fullmatch(reference.uid)
    )


def _bounded(metadata: Metadata) -> Metadata:
    """Without texts too long to be a word about a job, such as the whole object as it was last applied."""
    texts = {name: text for name, text in metadata.annotations.items() if len(text) <= _LONGEST_TEXT}
    return replace(metadata, annotations=texts)


def _owner(pod: Pod, chain: Sequence[tuple[Reference, Metadata | None]], above: Metadata | None) -> Owner:
    written = [metadata for _, metadata in reversed(chain) if metadata is not None]
    layers: list[Metadata | Pod] = [*written, pod]
    if above is not None:
        layers.append(above)
    labels = _merged([layer.labels for layer in layers])
    annotations = _merged([layer.annotations for layer in layers])
    if not chain:
        return Owner(pod.namespace, "Pod", pod.name, pod.uid, "", pod.created, labels, annotations)
    job, metadata = chain[-1]
    return Owner(
        namespace=pod.namespace,
        kind=job.kind,
        name=job.name,
        uid=job.uid,
        group=job.group,
        created=metadata.created if metadata is not None else None,
        labels=labels,
        annotations=annotations,
        chain=tuple(reference.kind for reference, _ in reversed(chain)),
    )


def _merged(layers: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Of each text the first layer's. The account of a controller, with which a policy stamps what that makes, gives
    way to what any other layer says.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, text in layer.items():
            if name not in merged or (merged[name].startswith(_ACCOUNT) and not text.startswith(_ACCOUNT)):
                merged[name] = text
    return merged
