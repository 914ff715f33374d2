"""What a list and a watch have told, as tables: pods until a while after their end, nodes as long as they are there.

Each table is written by the thread of its reflector alone, and may be read by any.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Protocol

from msgspec import Raw

from dutycycle_alerter.kubernetes.model import Node, Pod
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.objects import MalformedError, Seen, T, identify
from dutycycle_alerter.kubernetes.pods import PodDecoder

DELETED = "DELETED"
_OLD = 24
"""Times as long as it is remembered: a pod that ended before that, and is first seen now, is of no interest. Later ends
may be those of jobs that ran when the alerter was last there.
"""


class Table(Protocol):
    """What a reflector keeps up to date. A list counts only when it is complete."""

    malformed: int
    """Objects that were not what they should be, so far: what was known of them stays."""

    def begin(self) -> None:
        """A list begins."""
        ...

    def page(self, items: Iterable[Raw]) -> None:
        """Some of the list."""
        ...

    def commit(self) -> None:
        """The list is complete: what is not in it does not exist."""
        ...

    def change(self, told: str, body: Raw) -> str:
        """One object was added, modified or deleted. The resource version is its answer, empty where there is none."""
        ...


class PodTable:
    """Pods by uid. `found` is called with the uid of each one that is new, has another owner, or a node at last. What
    has come to its end is forgotten `remember` seconds later.
    """

    def __init__(self, decode: PodDecoder, found: Callable[[str], None], remember: float) -> None:
        self._decode = decode
        self._found = found
        self._remember = remember
        self._lock = Lock()
        self._pods: dict[str, Pod] = {}
        self._over: dict[str, float] = {}
        """When each was first known to be over, by the monotonic clock."""
        self._buried: set[str] = set()
        """Pods that were over for long, and are still listed."""
        self._listed: dict[str, Pod] = {}
        self._seen: set[str] = set()
        self._strangers = 0
        self.malformed = 0
        self.version = 0
        """Grows with every change."""

    def pods(self) -> Mapping[str, Pod]:
        """All of them now; a copy."""
        with self._lock:
            return dict(self._pods)

    def get(self, uid: str) -> Pod | None:
        """One of them."""
        return self._pods.get(uid)

    def begin(self) -> None:
        """A list begins."""
        self._listed, self._seen, self._strangers = {}, set(), 0

    def page(self, items: Iterable[Raw]) -> None:
        """Some of the list. A pod that cannot be read is still there, as it was known."""
        for item in items:
            try:
                seen = self._decode(item)
            except MalformedError:
                self.malformed += 1
                uid = identify(item).uid
                self._strangers += not uid
                self._seen.add(uid)
                continue
            if seen.kept is not None:
                self._listed[seen.uid] = seen.kept
            elif seen.uid in self._pods:
                self._seen.add(seen.uid)

    def commit(self) -> None:
        """The list is complete: what is not in it is gone; unless it held objects without a name, which may be that."""
        with self._lock:
            missing = self._pods.keys() - self._listed.keys() - self._seen
            if not self._strangers:
                for uid in missing:
                    self._remove(self._pods[uid])
            self._buried &= self._listed.keys() | self._seen
            for pod in self._listed.values():
                self._put(pod)
            self.version += 1
        self.begin()

    def change(self, told: str, body: Raw) -> str:
        """One object was added, modified or deleted. A pod that goes out of sight of a selector is told as deleted."""
        seen, malformed = _seen(self._decode, body)
        self.malformed += malformed
        uid, pod = seen.uid, seen.kept
        with self._lock:
            if told == DELETED:
                last = pod or self._pods.get(uid)
                if last is not None:
                    self._remove(last)
                self._buried.discard(uid)
            elif pod is not None:
                self._put(pod)
            else:
                return seen.version
            self.version += 1
        return seen.version

    def forget(self) -> None:
        """Forget those that came to their end long ago."""
        with self._lock:
            late = time.monotonic() - self._remember
            for uid in [uid for uid, since in self._over.items() if since < late]:
                del self._over[uid]
                if not self._pods.pop(uid).gone:
                    self._buried.add(uid)
                self.version += 1

    def _put(self, pod: Pod) -> None:
        known = self._pods.get(pod.uid)
        if pod.uid in self._buried:
            return
        if (
            known is None
            and pod.over
            and pod.finished is not None
            and time.time() - pod.finished > _OLD * self._remember
        ):
            self._buried.add(pod.uid)
            return
        self._pods[pod.uid] = pod
        if pod.over:
            self._over.setdefault(pod.uid, time.monotonic())
        else:
            self._over.pop(pod.uid, None)
        if known is None or known.owner != pod.owner or (pod.node and not known.node):
            self._found(pod.uid)

    def _remove(self, pod: Pod) -> None:
        known = self._pods.get(pod.uid)
        if known is None or not known.gone:
            # When it was to be gone is what it said; what never said so went about now.
            self._put(replace(pod, gone=True, deleted=pod.deleted or time.time()))


class NodeTable:
    """Nodes by name; None before the first list is complete."""

    def __init__(self, decode: NodeDecoder) -> None:
        self._decode = decode
        self._nodes: Mapping[str, Node] | None = None
        self._listed: dict[str, Node] = {}
        self.malformed = 0

    def nodes(self) -> Mapping[str, Node] | None:
        """All of them now. Never changed afterwards."""
        return self._nodes

    def begin(self) -> None:
        """A list begins."""
        self._listed = {}

    def page(self, items: Iterable[Raw]) -> None:
        """Some of the list."""
        for item in items:
            try:
                node = self._decode(item).kept
            except MalformedError:
                self.malformed += 1
                name = identify(item).name
                node = (self._nodes or {}).get(name)
            if node is not None:
                self._listed[node.name] = node

    def commit(self) -> None:
        """The list is complete."""
        self._nodes = self._listed
        self.begin()

    def change(self, told: str, body: Raw) -> str:
        """One node was added, modified or deleted. Kubelets say every few minutes that nothing has changed."""
        seen, malformed = _seen(self._decode, body)
        self.malformed += malformed
        name, node = seen.name, seen.kept
        known = self._nodes or {}
        if told == DELETED:
            self._nodes = {other: one for other, one in known.items() if other != name}
        elif node is not None and known.get(name) != node:
            self._nodes = {**known, name: node}
        return seen.version


def _seen(decode: Callable[[Raw], Seen[T]], body: Raw) -> tuple[Seen[T], bool]:
    """An object, and whether it is malformed: then only who it is, as far as it says."""
    try:
        return decode(body), False
    except MalformedError:
        who = identify(body)
        return Seen(who.uid, who.name, who.version), True
