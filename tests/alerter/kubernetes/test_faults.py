"""Whatever the API server does, the table ends up true, the failure is counted, and nothing is told that is not so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes.cluster import Cluster
from tests.alerter.kubernetes.watched import CALM, IMPATIENT, agrees, kubeconfig, table, truth, until, watched
from tests.fakes.kubernetes import KubernetesServer, builders

PODS = "/pods$"


@dataclass(frozen=True)
class Case:
    """A fault of the server's, how it is counted, and what the status says of it.

    `again`: it befalls the watch that begins next, so the running one is ended. `noticed`: what is known is not
    fresh while it lasts. `silent`: it is noticed only after a while.
    """

    action: str
    counted: str
    words: str = ""
    how: dict[str, Any] = field(default_factory=dict)
    again: bool = True
    noticed: bool = True
    silent: bool = False


CASES = {
    "drops the connection": Case("cut", "cut", "cut off", again=False),
    "half a line": Case("half-line", "cut", "", {"after": 0}, again=False),
    "garbage in a watch": Case("garbage-line", "garbage", "not a watch event", again=False),
    "a line of 64 MiB": Case("long-line", "garbage", "longer than 8 MiB", again=False),
    "expires": Case("expire", "expired", "everything is listed again", again=False),
    "says nothing more": Case("silent", "silent", "silent for", again=False, noticed=False, silent=True),
    "ends every watch at once": Case("end", "cut", "ends as soon as it has begun", again=False, noticed=False),
    "500": Case("error", "server_error", "the server says 500", {"code": 500}),
    "503": Case("error", "server_error", "asked again later", {"code": 503, "retry_after": 0}),
    "429": Case("error", "throttled", "Too many requests", {"code": 429, "retry_after": 0}),
    "401": Case("error", "unauthorized", "has it ended?", {"code": 401}),
    "403": Case("error", "forbidden", "grant get, list and watch", {"code": 403}),
    "404": Case("error", "not_found", "answered 404", {"code": 404}),
    "410 for a list": Case("error", "expired", "answered 410", {"code": 410}),
    "drops it before an answer": Case("close", "cut", "cut off"),
    "never answers": Case("hang", "timeout", "no answer within 0.6 s", silent=True),
    "a byte now and then": Case("drip", "timeout", "no answer within", silent=True),
    "200 and garbage": Case("garbage", "garbage", "not a"),
    "200 and one long line": Case("long", "garbage", "", {"size": 12 << 20}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        found.compact()
        yield found


@pytest.fixture
def pods(server: KubernetesServer) -> Iterator[KubernetesServer]:
    """Ten pods on it, so that a list has several pages."""
    for number in range(10):
        server.put(builders.pod(f"train-{number}"))
    yield server
    server.heal()
    for one in server.objects("Pod"):
        server.delete("Pod", one["metadata"]["namespace"], one["metadata"]["name"])


def change(server: KubernetesServer, number: int) -> None:
    server.delete("Pod", "ml", f"train-{number}")
    server.put(builders.pod(f"new-{number}"))
    server.patch("Pod", "ml", "train-9", {"metadata": {"labels": {"changed": str(number)}}})


def nobody_is_gone_falsely(cluster: Cluster, server: KubernetesServer) -> None:
    # The table first: what is gone by then was gone before.
    snapshot = cluster.snapshot()
    existing = truth(server)
    assert not [pod.name for uid, pod in snapshot.pods.items() if pod.gone and uid in existing]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_recovers(case: Case, pods: KubernetesServer, tmp_path: Path) -> None:
    pace, timeout = (IMPATIENT, 0.6) if case.silent else (CALM, 30)
    with watched(tmp_path, pods, pace=pace, timeout=timeout) as cluster:
        until(lambda: agrees(cluster, pods))
        before = dict(cluster.counters().failures)
        known = table(cluster.snapshot())

        def counted() -> int:
            return cluster.counters().failures.get(case.counted, 0) - before.get(case.counted, 0)

        with pods.inject(case.action, path=PODS, **case.how):
            if case.again:
                with pods.inject("end", path=PODS, times=1):
                    change(pods, 0)
                    until(counted)
            else:
                change(pods, 0)
                until(counted)
            change(pods, 1)
            until(lambda: counted() > 1)
            if case.noticed:
                until(lambda: case.words in cluster.snapshot().error)
                if case.again:
                    # None of these lets a single change through: the last word stays, and is not fresh.
                    snapshot = cluster.snapshot()
                    assert not snapshot.fresh or table(snapshot) == truth(pods)
                    assert known.keys() <= snapshot.pods.keys()
            nobody_is_gone_falsely(cluster, pods)
            change(pods, 2)
        until(lambda: agrees(cluster, pods))
        nobody_is_gone_falsely(cluster, pods)
        assert cluster.snapshot().error == ""
        assert known.keys() <= cluster.snapshot().pods.keys()


def test_a_server_that_is_away(pods: KubernetesServer, tmp_path: Path) -> None:
    with watched(tmp_path, pods) as cluster:
        until(lambda: agrees(cluster, pods))
        known = table(cluster.snapshot())
        pods.stop()
        try:
            until(lambda: cluster.counters().failures.get("unreachable", 0) > 1)
            snapshot = cluster.snapshot()
            assert (snapshot.fresh, table(snapshot)) == (False, known)
            assert "not reached: Connection refused" in snapshot.error
            assert snapshot.read_at is not None
        finally:
            pods.start()
        until(lambda: agrees(cluster, pods))


def test_a_server_that_is_not_there_yet(pods: KubernetesServer, tmp_path: Path) -> None:
    """The alerter may start first."""
    pods.stop()
    try:
        with watched(tmp_path, pods) as cluster:
            until(lambda: cluster.counters().failures.get("unreachable", 0) > 1)
            snapshot = cluster.snapshot()
            assert (snapshot.fresh, snapshot.read_at, dict(snapshot.pods)) == (False, None, {})
            pods.start()
            until(lambda: agrees(cluster, pods))
    finally:
        pods.start()


def test_pages_that_expire_are_listed_from_the_beginning(pods: KubernetesServer, tmp_path: Path) -> None:
    """What goes on at the server's offer would miss what happened to the first pages since."""
    with pods.inject("error", code=410, path=PODS, verb="list", times=2), watched(tmp_path, pods) as cluster:
        until(lambda: agrees(cluster, pods))
        assert cluster.counters().failures == {"expired": 2}
    limits = [request.query["limit"] for request in pods.requests if request.verb == "list"]
    assert limits[-3:-1] == ["12", "48"] or limits[-1] == "48"


def test_retry_after_is_kept_to(pods: KubernetesServer, tmp_path: Path) -> None:
    with watched(tmp_path, pods) as cluster:
        until(lambda: agrees(cluster, pods))
        with pods.inject("error", code=429, retry_after=1, path=PODS, times=1), pods.inject("cut", times=1):
            change(pods, 0)
            until(lambda: cluster.counters().failures.get("throttled"))
        until(lambda: agrees(cluster, pods))
    times = [request.at for request in pods.requests][-2:]
    assert times[1] - times[0] >= 1.0


def test_a_token_that_is_replaced_in_the_kubeconfig(pods: KubernetesServer, tmp_path: Path) -> None:
    pods.add_user("alerter", "old", *pods.users["admin"].rules)
    path = kubeconfig(tmp_path, pods.url, {"token": "old"})
    with watched(tmp_path, pods, kubeconfig=path) as cluster:
        until(lambda: agrees(cluster, pods))
        pods.remove_user("old")
        kubeconfig(tmp_path, pods.url, {"token": "admin"})
        with pods.inject("cut", times=1):
            change(pods, 0)
            until(lambda: agrees(cluster, pods))
        assert cluster.counters().failures["unauthorized"] >= 1


_FAULTS = ("end", "cut", "half-line", "expire", "garbage-line", "close", "garbage")
_STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("finish"), st.integers(0, 5)),
    st.tuples(st.just("again"), st.integers(0, 5)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.sampled_from(_FAULTS), st.integers(0, 2)),
    st.tuples(st.just("error"), st.sampled_from([401, 403, 410, 429, 500, 503])),
    st.tuples(st.just("look"), st.just(0)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_STEPS, max_size=25))
def test_any_sequence_of_changes_and_faults_ends_in_the_truth(
    server: KubernetesServer, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    for one in server.objects("Pod"):
        server.delete("Pod", "ml", one["metadata"]["name"])
    gone: set[str] = set()
    with watched(tmp_path_factory.mktemp("any"), server) as cluster:
        for step, number in steps:
            name = f"pod-{number}"
            existing = {one["metadata"]["name"]: one["metadata"]["uid"] for one in server.objects("Pod")}
            match step:
                case "put" if name not in existing:
                    server.put(builders.pod(name, gpus=number % 3))
                case "delete" | "again" if name in existing:
                    gone.add(existing[name])
                    server.delete("Pod", "ml", name)
                    if step == "again":
                        server.put(builders.pod(name))
                case "finish" if name in existing:
                    server.patch("Pod", "ml", name, {"status": {"phase": "Succeeded"}})
                case "compact":
                    server.compact()
                case "look":
                    until(lambda: cluster.snapshot().fresh)
                case "error":
                    server.inject("error", code=number, retry_after=0, path=PODS, times=1)
                case _ if step in _FAULTS:
                    server.inject(step, path=PODS, after=number if step not in ("close", "garbage") else 0, times=1)
                case _:
                    pass
            nobody_is_gone_falsely(cluster, server)
        server.heal()
        until(lambda: agrees(cluster, server))
        told = {uid for uid, pod in cluster.snapshot().pods.items() if pod.gone}
        assert told <= gone
