"""Objects by their kind, one sequence of resource versions, and the changes of each kind for those who watch."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any

from .kinds import Kind

Object = dict[str, Any]

_ENCODING = threading.Lock()
"""Two watchers that are told of one change at once wait for one encoding of it."""


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Stored:
    """One object at one resource version; it is never changed. Each encoding is made once."""

    __slots__ = ("_partial", "body", "kind", "name", "namespace", "object", "revision")

    def __init__(self, kind: Kind, content: Object) -> None:
        """`content` is taken without `kind` and `apiVersion`, as it is kept."""
        self.kind = kind
        self.body = encode(content)
        self.object: Object = json.loads(self.body)
        metadata = self.object["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.revision = int(metadata["resourceVersion"])
        self._partial: bytes | None = None

    @property
    def key(self) -> str:
        return key(self.namespace, self.name)

    @property
    def whole(self) -> bytes:
        """With kind and apiVersion, which come first."""
        return b'{"kind":"%s","apiVersion":"%s",%s' % (
            self.kind.name.encode(),
            self.kind.api_version.encode(),
            self.body[1:],
        )

    @property
    def item(self) -> bytes:
        """As in a list: kind and apiVersion are there only for custom resources."""
        return self.whole if self.kind.custom else self.body

    @property
    def partial(self) -> bytes:
        """As PartialObjectMetadata."""
        if self._partial is None:
            metadata = encode(self.object["metadata"])
            self._partial = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s}' % metadata
        return self._partial

    def at(self, revision: int) -> Stored:
        """The same content with another resource version."""
        metadata = {**self.object["metadata"], "resourceVersion": str(revision)}
        return Stored(self.kind, {**self.object, "metadata": metadata})

    def copy(self) -> Object:
        """The object as a client gets it, for the caller to keep."""
        found: Object = json.loads(self.whole)
        return found


class Change:
    """One write. `new` None is a deletion, `old` None a creation; `last` is what a deletion leaves to tell."""

    __slots__ = ("_lines", "_ousted", "at", "last", "new", "old", "revision")

    def __init__(self, revision: int, at: float, old: Stored | None, new: Stored | None, last: Stored | None) -> None:
        self.revision = revision
        self.at = at
        self.old = old
        self.new = new
        self.last = last
        self._lines: dict[tuple[str, bool], bytes] = {}
        self._ousted: Stored | None = None

    def line(self, selects: Callable[[Stored], bool], partial: bool) -> bytes | None:
        """The watch event for who selects so; None where it is none of theirs. Encoded once for all of them."""
        before = self.old is not None and selects(self.old)
        after = self.new is not None and selects(self.new)
        if not before and not after:
            return None
        told = ("MODIFIED" if before else "ADDED") if after else "DELETED"
        with _ENCODING:
            found = self._lines.get((told, partial))
            if found is None:
                stored = self.new if after else self._leaving()
                assert stored is not None
                found = self._lines[told, partial] = event(told, stored.partial if partial else stored.whole)
        return found

    def _leaving(self) -> Stored | None:
        """What goes out of sight: the previous state with the new resource version."""
        if self.last is not None:
            return self.last
        if self._ousted is None and self.old is not None:
            self._ousted = self.old.at(self.revision)
        return self._ousted


def event(told: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (told.encode(), body)


def key(namespace: str, name: str) -> str:
    """The order of a list is the order of these."""
    return f"{namespace}/{name}" if namespace else name


class Collection:
    """All objects of one kind. Use under the store's lock."""

    def __init__(self, kind: Kind, lock: threading.RLock, history: int) -> None:
        self.kind = kind
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.changes: list[Change] = []
        self.dropped = 0
        """How many changes are forgotten: the position of the first that is kept."""
        self.floor = 0
        """Watches may begin at this resource version and later."""
        self.changed = threading.Condition(lock)
        self._history = history

    def apply(self, change: Change, name: str) -> None:
        if change.new is None:
            del self.items[name]
            del self.keys[bisect_left(self.keys, name)]
        else:
            if name not in self.items:
                insort(self.keys, name)
            self.items[name] = change.new
        self.changes.append(change)
        if len(self.changes) > self._history * 1.25:
            self.forget(len(self.changes) - self._history)
        self.changed.notify_all()

    def clear(self) -> None:
        self.dropped += len(self.changes) + 1
        self.floor = 0
        for held in (self.items, self.keys, self.changes):
            held.clear()
        self.changed.notify_all()

    def forget(self, count: int) -> None:
        if count:
            self.floor = self.changes[count - 1].revision
            del self.changes[:count]
            self.dropped += count

    def position(self, revision: int) -> int:
        """Where the changes after a resource version begin."""
        return self.dropped + bisect_right(self.changes, revision, key=lambda change: change.revision)

    def since(self, position: int) -> list[Change]:
        return self.changes[position - self.dropped :]

    def as_of(self, revision: int) -> tuple[list[str], dict[str, Stored]]:
        """Keys in order and objects as they were then; what happened since must still be remembered."""
        later = self.changes[bisect_right(self.changes, revision, key=lambda change: change.revision) :]
        if not later:
            return self.keys, self.items
        items = dict(self.items)
        for change in reversed(later):
            touched = change.new or change.old
            assert touched is not None
            if change.old is None:
                items.pop(touched.key, None)
            else:
                items[touched.key] = change.old
        return sorted(items), items


class Store:
    """Every collection, and the one counter. `now` gives the time of a change, in seconds."""

    def __init__(self, now: Callable[[], float], history: int) -> None:
        self.lock = threading.RLock()
        self.revision = 1
        self.compacted = 0
        """Lists as of an older resource version than this are refused."""
        self._now = now
        self._history = history
        self._collections: dict[tuple[str, str, str], Collection] = {}
        self._moments: list[tuple[float, int]] = []

    def collection(self, kind: Kind) -> Collection:
        with self.lock:
            name = (kind.group, kind.version, kind.plural)
            found = self._collections.get(name)
            if found is None:
                found = self._collections[name] = Collection(kind, self.lock, self._history)
            return found

    def collections(self) -> Iterator[Collection]:
        with self.lock:
            return iter(list(self._collections.values()))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        with self.lock:
            return self.collection(kind).items.get(key(namespace, name))

    def put(self, kind: Kind, content: Object, revision: int | None = None) -> Stored:
        """Stores an object as it is, under the next resource version (or one that is told, to rebuild a history)."""
        with self.lock:
            collection = self.collection(kind)
            self.revision = self.revision + 1 if revision is None else max(self.revision, revision)
            mine = self.revision if revision is None else revision
            metadata = {**content["metadata"], "resourceVersion": str(mine)}
            kept = {name: value for name, value in content.items() if name not in ("kind", "apiVersion")}
            new = Stored(kind, {**kept, "metadata": metadata})
            old = collection.items.get(new.key)
            collection.apply(Change(mine, self._moment(), old, new, None), new.key)
            return new

    def delete(self, kind: Kind, namespace: str, name: str, revision: int | None = None) -> Stored | None:
        """Takes an object away; the answer is its last state under the resource version of the deletion."""
        with self.lock:
            collection = self.collection(kind)
            old = collection.items.get(key(namespace, name))
            if old is None:
                return None
            self.revision = self.revision + 1 if revision is None else max(self.revision, revision)
            mine = self.revision if revision is None else revision
            last = old.at(mine)
            collection.apply(Change(mine, self._moment(), old, None, last), old.key)
            return last

    def clear(self) -> None:
        """As new. Watches that run end."""
        with self.lock:
            self.revision, self.compacted = 1, 0
            self._moments.clear()
            for collection in self._collections.values():
                collection.clear()

    def skip_to(self, revision: int) -> None:
        with self.lock:
            self.revision = max(self.revision, revision)
            self._moment()

    def reached(self, before: float) -> int:
        """The resource version at that time; 0 where it is not remembered."""
        with self.lock:
            found = bisect_left(self._moments, (before, 0))
            return self._moments[found - 1][1] if found else 0

    def _moment(self) -> float:
        """Now, when the resource version became what it is."""
        now = self._now()
        self._moments.append((now, self.revision))
        if len(self._moments) > 2 * self._history:
            del self._moments[: self._history]
        return now

    def compact(self, *, watches: bool = True) -> None:
        """Older resource versions are gone for lists, and (with `watches`) for those who want to watch from one."""
        with self.lock:
            self.compacted = self.revision
            for collection in self._collections.values() if watches else ():
                collection.forget(len(collection.changes))
                collection.floor = self.revision

    def wake(self) -> None:
        """Everybody who waits looks again."""
        with self.lock:
            for collection in self._collections.values():
                collection.changed.notify_all()
