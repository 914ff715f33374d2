"""What one API server has told, to be found by the names that exporters and incidents use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from dutycycle_alerter.kubernetes.model import Owner, Pod, Snapshot

_HASH = "kubernetes.io/config.hash"


class Index:
    """Over one snapshot. Everything by ids without the cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def pod(self, workload: str) -> Pod | None:
        """The pod of an exporter's workload, `k8s/<namespace>/<pod>/<uid>`.

        The uid alone does not do: exporters have it from what a pod's user may have written. Where they did not learn
        it, it is the pod that has the name now. The uid that a kubelet tells of a static pod is its own.
        """
        _, namespace, name, uid = (*workload.split("/", 3), "", "", "")[:4]
        known = self.snapshot.pods.get(uid)
        if known is not None:
            return known if (known.namespace, known.name) == (namespace, name) else None
        named = self._by_name.get((namespace, name))
        if named is None or not uid:
            return named
        is_mirror = named.owner is not None and named.owner.kind == "Node" and named.annotations.get(_HASH) == uid
        return named if is_mirror else None

    def owner(self, pod: Pod) -> Owner | None:
        """Its job; None while that is looked for."""
        return self.snapshot.owners.get(pod.uid)

    def job(self, workload: str) -> Owner | None:
        """The job of this id; None where no pod of it is known."""
        return self._jobs.get(workload)

    def pods_of(self, workload: str) -> Sequence[Pod]:
        """The pods of the job of this id, those that are over included."""
        return self._pods_of.get(workload, ())

    @cached_property
    def _jobs(self) -> Mapping[str, Owner]:
        # What is written on pods is part of it: that of the living counts, and always of the same one.
        pods = self.snapshot.pods
        every = ((pods[uid], owner) for uid, owner in self.snapshot.owners.items() if uid in pods)
        ordered = sorted(every, key=lambda found: (not found[0].over, found[0].name))
        return {owner.workload: owner for _, owner in ordered}

    @cached_property
    def _pods_of(self) -> Mapping[str, Sequence[Pod]]:
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for uid, owner in self.snapshot.owners.items():
            pod = self.snapshot.pods.get(uid)
            if pod is not None:
                found[owner.workload].append(pod)
        return found

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Pod]:
        return {(pod.namespace, pod.name): pod for pod in self.snapshot.pods.values() if not pod.over}
