"""Watches of the tests' API server give the events, in the order and with the resource versions, that a real one gave.

A clock that is moved by hand plays the recorded minutes at once: everything happens at the second at which it was
recorded to happen (75 s of watching, a bookmark after 60), and nothing depends on how busy the machine is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fakes.kubernetes import KubernetesServer, ManualClock, pod
from tests.fakes.kubernetes import recorded as real
from tests.fakes.kubernetes.recorded import Answer, Exchange, compare, differences, exchange, keep, replay

SCHEDULED = {
    "type": "PodScheduled",
    "status": "True",
    "lastProbeTime": None,
    "lastTransitionTime": "2026-11-20T22:10:18Z",
}
BOUND = {"spec": {"nodeName": "gpu-node-a"}, "status": {"conditions": [SCHEDULED]}}


def of(stems: str) -> list[str]:
    return [f"03-watch/{stem}" for stem in stems.split()]


TOGETHER = of(
    """watch-rv-bookmarks watch-rv-nobookmarks watch-no-rv watch-rv0 watch-label watch-field-node watch-field-pending
    watch-name watch-metadata-only watch-streaming-list watch-streaming-list-rv0 watch-streaming-list-metadata
    watch-long-75s watch-old-path err-watch-rv-future"""
)
"""All begun at one moment, before the first of the writes."""
HAPPENED = [
    (1.511, "ev1-create", 408),
    (1.519, "", 409),
    (2.528, "ev2-status-running", 411),
    (3.041, "ev3-label-two", 412),
    (3.500, "ev3b-noop-patch", 412),
    (3.871, "ev4-json-patch-label", 413),
    (4.383, "ev5-delete-graceful", 414),
    (4.900, "ev6-get-terminating", 414),
    (5.211, "ev7-delete-force", 415),
    (5.728, "ev8-delete-unscheduled", 419),
    (20.0, "", 426),
]
"""Seconds after they began, what was written, and the resource version that it got first.

The first without a name is the scheduler's, the second stands for writes of other kinds.
"""
AT_ONCE = of(
    """err-sendinitial-nowatch err-sendinitial-without-match err-watch-forbidden err-watch-rv-bad list-before-watch"""
)
EXPIRED = of(
    """expired-0-list-limit2 expired-watch-error-410 expired-watch-error-410-metadata expired-watch-no-chunk
    expired-watch-compacted-rv expired-list-continue-410 expired-list-continue-410-main expired-list-exact-1
    expired-list-exact-410 expired-list-inconsistent-continue list-notolderthan-old-ok expired-watch-main-rv1"""
)
ALONE = of("watch-rv1-fresh watch-table")
REPLAYED = (*TOGETHER, *(f"03-watch/{stem}" for _, stem, _ in HAPPENED if stem), *AT_ONCE, *EXPIRED, *ALONE)


@contextmanager
def serving() -> Iterator[tuple[KubernetesServer, ManualClock]]:
    clock = ManualClock()
    with KubernetesServer(clock=clock, namespaces=()) as server:
        real.introduce(server)
        yield server, clock


def history(server: KubernetesServer, until: int) -> None:
    """The cluster as it was, made as it was made: every change of a pod that was recorded, in turn."""
    keep(server, "03-watch/watch-table")
    for line in exchange("03-watch/watch-rv1-fresh").lines():
        content, revision = line["object"], int(line["object"]["metadata"]["resourceVersion"])
        if revision > until:
            break
        if line["type"] == "DELETED":
            server.delete("Pod", "ml", content["metadata"]["name"], revision=revision)
        else:
            server.put(content, revision=revision)
    server.skip_to(until)


class Watcher:
    """Asks in a thread of its own, as whoever waits for events has to."""

    def __init__(self, server: KubernetesServer, name: str) -> None:
        self.exchange = exchange(name)
        self.answer: Answer | None = None
        self._server = server
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.answer = replay(self._server, self.exchange)

    def end(self) -> Answer:
        self._thread.join()
        assert self.answer is not None
        return self.answer


def begun(server: KubernetesServer, names: list[str]) -> list[Watcher]:
    watchers = [Watcher(server, name) for name in names]
    while server.watching < len(watchers):
        threading.Event().wait(0.002)
    return watchers


def told(line: dict[str, Any]) -> tuple[Any, ...]:
    """What an event says of the state that it carries."""
    content = line["object"]
    metadata = content["metadata"]
    phase = content.get("status", {}).get("phase") if isinstance(content.get("status"), dict) else None
    seen = (metadata.get("name"), metadata.get("resourceVersion"), metadata.get("labels"), phase)
    return (line["type"], *seen, metadata.get("deletionGracePeriodSeconds"), metadata.get("annotations"))


def same(one: Exchange, answer: Answer) -> None:
    """Status, headers, framing, and the events one by one."""
    assert answer.code == one.code == 200
    for name in ("Content-Type", "Transfer-Encoding"):
        assert answer.headers[name] == one.answered[name]
    mine, theirs = [json.loads(line) for line in answer.body.splitlines()], one.lines()
    assert [told(line) for line in mine] == [told(line) for line in theirs]
    assert answer.body.endswith(b"\n") is bool(theirs)
    for index, (line, other) in enumerate(zip(mine, theirs, strict=True)):
        assert compare(line, other, f"{one.name}[{index}]") == []
        assert compare(line["object"], other["object"], f"{one.name}[{index}]") == []


@pytest.fixture(scope="module")
def played() -> dict[str, Answer]:
    """What each of the watches that ran together was told; the writes are checked as they are made."""
    with serving() as (server, clock):
        history(server, 406)
        watchers = begun(server, TOGETHER)
        at = 0.0
        for moment, stem, revision in HAPPENED:
            clock.advance(moment - at)
            at = moment
            server.skip_to(revision - 1)
            if stem:
                one = exchange(f"03-watch/{stem}")
                assert differences(one, replay(server, one)) == []
            elif revision == 409:
                server.patch("Pod", "ml", "watched-1", BOUND)
            else:
                server.skip_to(revision)
        clock.advance(100.0)
        return {watcher.exchange.name: watcher.end() for watcher in watchers}


@pytest.mark.parametrize("name", TOGETHER)
def test_watches_of_the_same_writes(played: dict[str, Answer], name: str) -> None:
    """A selected object that stops matching is DELETED with its previous state and the new resource version, one that
    starts matching is ADDED; a patch that changes nothing is no event; bookmarks; the end after timeoutSeconds."""
    same(exchange(name), played[name])


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_is_answered_without_watching(name: str) -> None:
    with serving() as (server, _):
        history(server, 406)
        one = exchange(name)
        assert differences(one, replay(server, one), exact=one.code == 200) == []


@pytest.mark.parametrize("name", ALONE)
def test_a_watch_from_the_beginning(name: str) -> None:
    with serving() as (server, clock):
        history(server, 420)
        [watcher] = begun(server, [name])
        clock.advance(2.0)
        same(exchange(name), watcher.end())


@pytest.fixture
def compacted() -> Iterator[tuple[KubernetesServer, ManualClock]]:
    """24 pods at resource version 1204, of which the recordings show four; no watch can begin before 1111."""
    with serving() as (server, clock):
        shown = [
            *exchange("03-watch/expired-0-list-limit2").object()["items"],
            *exchange("03-watch/expired-list-inconsistent-continue").object()["items"],
        ]
        for content in sorted(shown, key=lambda one: int(one["metadata"]["resourceVersion"])):
            revision = int(content["metadata"]["resourceVersion"])
            server.put({"apiVersion": "v1", "kind": "Pod", **content}, revision=revision)
        for number, name in enumerate(["r-mig2", "r-reuse", *(f"z-{number:02}" for number in range(18))]):
            server.put(pod(name), revision=1072 + number)
        server.skip_to(1111)
        server.compact()
        server.skip_to(1204)
        yield server, clock


def test_expiry(compacted: tuple[KubernetesServer, ManualClock]) -> None:
    """In turn: before, a watch from before what is remembered, changes, and a compaction that watches outlive."""
    server, clock = compacted
    for stem in ("expired-0-list-limit2", "expired-watch-error-410", "expired-watch-error-410-metadata"):
        one = exchange(f"03-watch/{stem}")
        answer = replay(server, one)
        if stem.startswith("expired-watch"):
            same(one, answer)
        else:
            assert differences(one, answer, exact=True) == []
    changes = exchange("03-watch/expired-watch-compacted-rv")
    for line in changes.lines():
        server.put(line["object"], revision=int(line["object"]["metadata"]["resourceVersion"]))
    server.skip_to(1262)
    server.compact(watches=False)
    for stem in (
        *("expired-list-continue-410", "expired-list-continue-410-main", "expired-list-exact-1"),
        *("expired-list-exact-410", "expired-list-inconsistent-continue", "list-notolderthan-old-ok"),
    ):
        one = exchange(f"03-watch/{stem}")
        assert differences(one, replay(server, one), exact=True) == []
    [watcher] = begun(server, [changes.name])
    clock.advance(3.0)
    same(changes, watcher.end())


def test_expiry_of_the_first_server() -> None:
    with serving() as (server, _):
        keep(server, "03-watch/expired-watch-no-chunk")
        one = exchange("03-watch/expired-watch-no-chunk")
        assert differences(one, replay(server, one), exact=True) == []
        server.store.collection(server.registry.named("Pod")).floor = 626
        one = exchange("03-watch/expired-watch-main-rv1")
        same(one, replay(server, one))
