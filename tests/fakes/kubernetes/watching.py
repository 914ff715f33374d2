"""Watches: what is there, what changes, bookmarks, the end after the time that was asked for, and expiry."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import listing
from .clock import Clock
from .faults import Fault, Faults
from .kinds import Kind
from .routing import Target
from .selectors import Selects, everything
from .status import bad_options, failure, refusal
from .store import Change, Collection, Store, encode, event

_BOOKMARKS_EVERY = 60.0
_BOOKMARKS_BEFORE_END = (2.0, 1.0)
_LEAST_FOR_BOTH = 4.0
_BATCH = 256
_NONSENSE = b'{"type":"MODIFIED","object":\xff\xfe<html>\n'
_NODE_STATUS = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
            *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
        ),
        "",
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a watch is to send. `revision` None or 0: everything that is there, then what changes."""

    revision: int | None
    initial: bool
    bookmarks: bool
    timeout: float
    partial: bool
    selects: Selects


class Cut(Exception):  # noqa: N818 - it is what was asked for
    """The connection is to be dropped here, in the middle of the answer."""


def asked(kind: Kind, target: Target, *, partial: bool) -> Asked:
    """The options of a watch; refused as a real server refuses them."""
    query = target.query
    initial = target.flag("sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if initial and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise bad_options([("resourceVersionMatch", why)])
    if match and not initial:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_options([("resourceVersionMatch", why)])
    seconds = listing.whole_number(query.get("timeoutSeconds") or "0")
    try:
        revision = listing.revision(query.get("resourceVersion", ""))
    except ValueError as error:
        # A real server takes its own parser's error for an unexpected one here: 500, and no reason.
        raise refusal(500, None, str(error)) from None
    return Asked(
        revision=revision,
        initial=initial,
        bookmarks=target.flag("allowWatchBookmarks"),
        timeout=float(seconds) or random.uniform(1800, 3600),
        partial=partial,
        selects=listing.selection(kind, target) or everything,
    )


class Watch:
    """One watch. `gone` says that the client is, `told` counts the lines that were sent."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        faults: Faults,
        kind: Kind,
        target: Target,
        wanted: Asked,
        gone: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._faults = faults
        self._collection: Collection = store.collection(kind)
        self._kind = kind
        self._target = target
        self._wanted = wanted
        self._gone = gone
        self._end = clock.now() + wanted.timeout
        self._marks = iter(_marks(clock.now(), wanted)) if wanted.bookmarks else iter(())
        self._seen = 0
        self._position = 0
        self._silenced: Fault | None = None
        self.told = 0

    def lines(self) -> Iterator[bytes]:
        """Whole lines, several at a time where several are due."""
        yield from self._begin()
        if self._seen < 0:
            return
        mark = next(self._marks, None)
        while True:
            due = self._end if mark is None else min(mark, self._end)
            found = self._next(due)
            if isinstance(found, Fault):
                yield from self._spoiled(found)
                return
            if found is None:
                return
            if found:
                yield from self._batches(found)
            elif due >= self._end:
                return
            else:
                yield self._bookmark()
                mark = next(self._marks, None)

    def _begin(self) -> Iterator[bytes]:
        wanted = self._wanted
        partial = wanted.partial
        with self._store.lock:
            collection = self._collection
            if wanted.initial or not wanted.revision:
                self._seen = self._store.revision
                self._position = collection.dropped + len(collection.changes)
                there = [collection.items[key] for key in collection.keys]
            elif wanted.revision < collection.floor:
                self._seen = -1
                there = []
            else:
                self._seen = wanted.revision
                self._position = collection.position(wanted.revision)
                there = []
        if self._seen < 0:
            yield expiry(wanted.revision or 0, self._collection.floor)
            return
        lines = [event("ADDED", one.partial if partial else one.whole) for one in there if wanted.selects(one)]
        if wanted.initial and wanted.bookmarks:
            lines.append(self._bookmark(ended=True))
        self.told += len(lines)
        for start in range(0, len(lines), _BATCH):
            yield b"".join(lines[start : start + _BATCH])

    def _next(self, due: float) -> list[Change] | Fault | None:
        """What changed before that time; nothing where it has come; None where nobody listens any more."""
        with self._store.lock:
            while True:
                if self._gone() or self._position < self._collection.dropped:
                    return None
                fault = self._faults.for_watch(self._target, self.told)
                if fault is not None and fault.action != "silent":
                    return fault
                if fault is not None and fault is not self._silenced:
                    self._silenced = fault
                    fault.count += 1
                pending = self._collection.since(self._position)
                ready = [change for change in pending if change.at < due]
                if fault is None and ready:
                    ready = ready[: self._faults.room(self._target, self.told)]
                    self._position += len(ready)
                    return ready
                if fault is None and self._clock.now() >= due:
                    self._seen = max(self._seen, self._store.reached(due))
                    return []
                self._clock.wait(self._collection.changed, due if fault is None else None)

    def _batches(self, found: list[Change]) -> Iterator[bytes]:
        wanted = self._wanted
        for start in range(0, len(found), _BATCH):
            lines = [
                line
                for change in found[start : start + _BATCH]
                if change.revision > self._seen and (line := change.line(wanted.selects, wanted.partial)) is not None
            ]
            self._seen = max(self._seen, found[start : start + _BATCH][-1].revision)
            self.told += len(lines)
            if lines:
                yield b"".join(lines)

    def _bookmark(self, *, ended: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(self._seen)}
        if ended:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return event("BOOKMARK", encode(_empty(self._kind, metadata, partial=self._wanted.partial)))

    def _spoiled(self, fault: Fault) -> Iterator[bytes]:
        whole = event("MODIFIED", encode(_empty(self._kind, {"name": "never-whole"}, partial=False)))
        if fault.action == "expire":
            yield expiry(self._seen, self._store.revision)
        elif fault.action == "half-line":
            yield whole[: len(whole) // 2]
            raise Cut
        elif fault.action == "garbage-line":
            yield _NONSENSE if fault.body is None else fault.body + b"\n"
        elif fault.action == "long-line":
            yield b'{"type":"MODIFIED","object":"'
            for _ in range(fault.size >> 20):
                yield b"x" * (1 << 20)
            yield b'"}\n'
        elif fault.action == "cut":
            raise Cut


def _marks(start: float, wanted: Asked) -> Iterator[float]:
    """When bookmarks are due: one a minute, and before the end."""
    end = start + wanted.timeout
    before = [end - ahead for ahead in _BOOKMARKS_BEFORE_END]
    if wanted.timeout < _LEAST_FOR_BOTH:
        before = before[1:]
    due = start + _BOOKMARKS_EVERY
    while due < before[0]:
        yield due
        due += _BOOKMARKS_EVERY
    yield from before


def _empty(kind: Kind, metadata: dict[str, Any], *, partial: bool) -> dict[str, Any]:
    """An object of a kind with nothing in it but that, as bookmarks have it."""
    if partial:
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    head: dict[str, Any] = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
    if kind.custom:
        return head
    if kind.name == "Pod":
        return {**head, "spec": {"containers": None}, "status": {}}
    return {**head, "spec": {}, "status": _NODE_STATUS if kind.name == "Node" else {}}


def expiry(revision: int, oldest: int) -> bytes:
    status = failure(410, "Expired", f"too old resource version: {revision} ({oldest})")
    return event("ERROR", encode(status))
