"""The API server of the tests beside what recordings show: sockets, watches, users, and what goes wrong on demand."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubelet.api import certificate
from tests.fakes.kubernetes import Clock, KubernetesServer, ManualClock, Rule, claim, owner, pod, store, workload
from tests.fakes.kubernetes.client import Client, events, until
from tests.required import lacking


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as running:
        yield running


def test_what_is_put_patched_and_deleted_is_seen_by_who_watches(server: KubernetesServer) -> None:
    server.put(pod("old"))
    with Client(server) as client:
        answer = client.ask("/api/v1/pods?watch=true")
        assert events(answer, 1) == [("ADDED", "old")]
        server.put(pod("new", phase="Pending", node=None))
        server.patch("Pod", "ml", "new", {"spec": {"nodeName": "gpu-node-a"}, "status": {"phase": "Running"}})
        server.delete("Pod", "ml", "new")
        assert events(answer, 3) == [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]


def test_over_tls(tmp_path: Path) -> None:
    """And one that shakes no hands does not keep the others out."""
    made = certificate(tmp_path)
    if made is None:
        lacking("openssl")
    with KubernetesServer(tls=made) as server:
        mute = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
        context = ssl.create_default_context(cafile=str(made[0]))
        with mute, Client(server, context=context) as client:
            assert server.url.startswith("https://")
            assert client.json("/api/v1/pods")[0] == 200
            answer = client.ask("/api/v1/pods?watch=true")
            server.put(pod("a"))
            assert events(answer, 1) == [("ADDED", "a")]


def test_no_thread_and_no_socket_outlives_it() -> None:
    before = set(threading.enumerate())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        server = KubernetesServer().start()
        clients = [Client(server) for _ in range(5)]
        for client in clients:
            client.ask("/api/v1/pods?watch=true")
        until(lambda: server.watching == 5)
        server.stop()
        for client in clients:
            client.connection.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("secure", [False, True])
def test_a_watch_whose_client_hangs_up_ends(secure: bool, tmp_path: Path) -> None:
    made = certificate(tmp_path) if secure else None
    if secure and made is None:
        lacking("openssl")
    context = ssl.create_default_context(cafile=str(made[0])) if made is not None else None
    with KubernetesServer(tls=made) as server:
        with Client(server, context=context) as client:
            answer = client.ask("/api/v1/pods?watch=true")
            until(lambda: server.watching == 1)
            answer.close()
        until(lambda: server.watching == 0)


def test_it_refuses_connections_while_stopped_and_knows_everything_after(server: KubernetesServer) -> None:
    server.put(pod("a"))
    url = server.url
    server.stop()
    with Client(server) as client, pytest.raises(ConnectionRefusedError):
        client.ask("/version")
    server.put(pod("b"))
    server.start()
    assert server.url == url
    with Client(server) as client:
        _, found = client.json("/api/v1/pods")
    assert [one["metadata"]["name"] for one in found["items"]] == ["a", "b"]


def test_one_that_is_reset_has_nothing_and_ends_its_watches(server: KubernetesServer) -> None:
    server.put(pod("a"))
    server.inject("error")
    with Client(server) as client:
        server.heal()
        answer = client.ask("/api/v1/pods?watch=true")
        assert events(answer, 1) == [("ADDED", "a")]
        server.inject("error", verb="get")
        server.reset()
        assert answer.read() == b""
        _, found = client.json("/api/v1/namespaces")
        assert client.json("/api/v1/namespaces/ml")[0] == 200
    assert [one["metadata"]["name"] for one in found["items"]] == ["default", "kube-system", "ml"]
    assert server.objects("Pod") == []


RULE = Rule(("get", "list"), ("pods",), namespaces=("ml",))


@pytest.mark.parametrize(
    ("token", "path", "code"),
    [
        (None, "/api/v1/pods", 403),
        ("nobody", "/api/v1/pods", 401),
        ("admin", "/api/v1/pods", 200),
        ("bob", "/api/v1/pods", 403),
        ("bob", "/api/v1/namespaces/ml/pods", 200),
        ("bob", "/api/v1/namespaces/ml/pods/absent", 404),
        ("bob", "/api/v1/namespaces/other/pods/absent", 403),
        ("bob", "/api/v1/namespaces/ml/pods?watch=1", 403),
        ("bob", "/apis/nowhere/v1/things", 403),
        ("admin", "/apis/nowhere/v1/things", 404),
        ("bob", "/apis", 200),
        (None, "/apis", 403),
        (None, "/readyz", 200),
    ],
)
def test_who_may_what(server: KubernetesServer, token: str | None, path: str, code: int) -> None:
    server.add_user("bob", "bob", RULE)
    with Client(server, token) as client:
        assert client.ask(path).status == code
    assert server.requests[-1].user == {None: "system:anonymous", "nobody": None}.get(token, token)


def test_a_removed_users_token_is_worth_nothing(server: KubernetesServer) -> None:
    server.add_user("bob", "bob", RULE)
    with Client(server, "bob") as client:
        assert client.json("/api/v1/namespaces/ml/pods")[0] == 200
        server.remove_user("bob")
        assert client.json("/api/v1/namespaces/ml/pods")[0] == 401


def test_custom_kinds_come_and_go(server: KubernetesServer) -> None:
    """Items of their lists carry kind and apiVersion, which those of built-in kinds do not."""
    path = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs"
    with Client(server) as client:
        gone = client.ask(path)
        assert (gone.status, gone.headers["Content-Type"], gone.read()) == (
            404,
            "text/plain; charset=utf-8",
            b"404 page not found\n",
        )
        server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        job = server.put(workload("PyTorchJob", "bert", api_version="kubeflow.org/v1"))
        server.put(pod("bert-worker-0", owners=(owner(job),)))
        _, found = client.json(path)
        assert found["items"][0]["kind"] == "PyTorchJob"
        assert (
            server.get("Pod", "ml", "bert-worker-0")["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        )
        _, groups = client.json("/apis")
        assert "kubeflow.org" in [group["name"] for group in groups["groups"]]
        assert client.json("/apis/kubeflow.org/v1")[1]["resources"][0]["name"] == "pytorchjobs"
        code, status = client.json("/apis/kubeflow.org/v1/namespaces/ml/mpijobs")
        assert (code, status["message"]) == (404, "the server could not find the requested resource")
        server.uninstall("PyTorchJob")
        assert client.ask(path).read() == b"404 page not found\n"


def test_pages_show_one_moment_whatever_happens_between_them(server: KubernetesServer) -> None:
    for number in range(7):
        server.put(pod(f"p{number}"))
    with Client(server) as client:
        _, first = client.json("/api/v1/pods?limit=3")
        server.delete("Pod", "ml", "p1")
        server.delete("Pod", "ml", "p4")
        server.put(pod("p5", phase="Failed"))
        server.put(pod("p3b"))
        seen, token = first["items"], first["metadata"]["continue"]
        while token:
            _, page = client.json(f"/api/v1/pods?limit=3&continue={token}")
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            seen, token = seen + page["items"], page["metadata"].get("continue")
    assert [one["metadata"]["name"] for one in seen] == [f"p{number}" for number in range(7)]
    assert seen[5]["status"]["phase"] == "Running"


def test_pages_of_what_is_selected_do_not_say_how_much_is_left(server: KubernetesServer) -> None:
    for number in range(6):
        server.put(pod(f"p{number}", labels={"odd": str(number % 2)}, node=f"gpu-node-{number % 2}"))
    with Client(server) as client:
        _, page = client.json("/api/v1/pods?limit=2")
        assert page["metadata"]["remainingItemCount"] == 4
        for selector in ("labelSelector=odd%3D1", "fieldSelector=spec.nodeName%3Dgpu-node-1"):
            _, page = client.json(f"/api/v1/pods?limit=2&{selector}")
            assert "remainingItemCount" not in page["metadata"]
            _, rest = client.json(f"/api/v1/pods?limit=2&{selector}&continue={page['metadata']['continue']}")
            names = [one["metadata"]["name"] for one in (*page["items"], *rest["items"])]
            assert names == ["p1", "p3", "p5"]
            assert "continue" not in rest["metadata"]


def test_claims_and_the_pods_that_hold_them(server: KubernetesServer) -> None:
    held = server.put(pod("a", gpus=0, claims=("gpus",)))
    server.put(claim("gpus", "gpu-0", "gpu-1", pods=(held,)))
    with Client(server) as client:
        _, found = client.json("/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/gpus")
    assert [result["device"] for result in found["status"]["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
    assert found["status"]["reservedFor"][0]["uid"] == held["metadata"]["uid"]
    assert held["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimName": "gpus"}]


def test_a_compacted_history_expires_watches_and_pages(server: KubernetesServer) -> None:
    for number in range(4):
        server.put(pod(f"p{number}"))
    with Client(server) as client:
        _, first = client.json("/api/v1/pods?limit=2")
        old = first["metadata"]["resourceVersion"]
        server.put(pod("p9"))
        server.compact()
        line = json.loads(client.ask(f"/api/v1/pods?watch=true&resourceVersion={old}").read())
        assert (line["type"], line["object"]["code"]) == ("ERROR", 410)
        code, status = client.json(f"/api/v1/pods?limit=2&continue={first['metadata']['continue']}")
        assert (code, status["reason"]) == (410, "Expired")
        code, rest = client.json(f"/api/v1/pods?limit=9&continue={status['metadata']['continue']}")
        assert [one["metadata"]["name"] for one in rest["items"]] == ["p2", "p3", "p9"]


def test_the_history_is_bounded() -> None:
    with KubernetesServer(history=8) as server, Client(server) as client:
        for _ in range(100):
            server.put(pod("a"))
        assert len(server.store.collection(server.registry.named("Pod")).changes) <= 10
        line = json.loads(client.ask("/api/v1/pods?watch=true&resourceVersion=5").read())
        assert line["object"]["reason"] == "Expired"
        answer = client.ask(f"/api/v1/pods?watch=true&resourceVersion={server.revision - 2}")
        assert events(answer, 2) == [("MODIFIED", "a")] * 2


def test_time_that_is_moved_by_hand() -> None:
    """Bookmarks once a minute and twice before the end, the end after timeoutSeconds, and nothing in between."""
    clock = ManualClock()
    with KubernetesServer(clock=clock) as server, Client(server) as client:
        server.put(pod("a"))
        answer = client.ask(
            f"/api/v1/pods?watch=true&resourceVersion={server.revision}&allowWatchBookmarks=1&timeoutSeconds=75"
        )
        until(lambda: server.watching == 1)
        clock.advance(59.0)
        server.put(pod("b"))
        assert events(answer, 1) == [("ADDED", "b")]
        clock.advance(1.0)
        assert json.loads(answer.readline())["object"]["metadata"] == {"resourceVersion": str(server.revision)}
        clock.advance(100.0)
        assert [json.loads(line)["type"] for line in answer.read().splitlines()] == ["BOOKMARK"] * 2


def test_what_happens_after_the_end_of_a_watch_is_not_told_however_late_it_wakes() -> None:
    clock = ManualClock()
    with KubernetesServer(clock=clock) as server, Client(server) as client:
        answer = client.ask("/api/v1/pods?watch=true&timeoutSeconds=5&allowWatchBookmarks=true")
        until(lambda: server.watching == 1)
        with server.store.lock:
            clock.advance(3.5)
            server.put(pod("a"))
            clock.advance(10.0)
            server.put(pod("b"))
        lines = [json.loads(line) for line in answer.read().splitlines()]
    told = [(line["type"], line["object"]["metadata"].get("name")) for line in lines]
    assert told == [("BOOKMARK", None), ("ADDED", "a"), ("BOOKMARK", None)]
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions == [server.revision - 2, server.revision - 1, server.revision - 1]


def test_a_list_that_waits_for_a_resource_version() -> None:
    """Goes on once it is reached; one that still waits does not keep the server from stopping."""
    clock = ManualClock()
    with KubernetesServer(clock=clock) as server, Client(server) as first, Client(server) as second:
        wanted = server.revision + 1
        for client, revision in ((first, wanted), (second, wanted + 100)):
            client.connection.request("GET", f"/api/v1/pods?resourceVersion={revision}", headers=client.headers)
        until(lambda: len(server.requests) == 2)
        server.put(pod("a"))
        found = json.loads(first.connection.getresponse().read())
        assert [one["metadata"]["name"] for one in found["items"]] == ["a"]


def test_time_that_goes_faster() -> None:
    with KubernetesServer(clock=Clock(pace=0.01)) as server, Client(server) as client:
        assert client.ask("/api/v1/pods?watch=true&timeoutSeconds=60").read() == b""
        assert client.json("/api/v1/pods?resourceVersion=999999")[0] == 504


def test_several_watchers_keep_up(server: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sees every change of a fleet in order, each event encoded once for all of them."""
    encoded: list[str] = []

    def event(told: str, body: bytes) -> bytes:
        encoded.append(told)
        return plain(told, body)

    plain = store.event
    monkeypatch.setattr(store, "event", event)
    for number in range(50):
        server.put(pod(f"p{number:02}"))
    clients = [Client(server) for _ in range(4)]
    answers = [client.ask(f"/api/v1/pods?watch=true&resourceVersion={server.revision}") for client in clients]
    for turn in range(200):
        server.patch("Pod", "ml", f"p{turn % 50:02}", {"metadata": {"labels": {"turn": str(turn)}}})
    for client, answer in zip(clients, answers, strict=True):
        seen = [json.loads(answer.readline())["object"]["metadata"]["labels"]["turn"] for _ in range(200)]
        assert seen == [str(turn) for turn in range(200)]
        client.connection.close()
    assert encoded == ["MODIFIED"] * 200


def test_five_thousand_pods_in_pages(server: KubernetesServer) -> None:
    for number in range(5000):
        server.put(pod(f"p{number:04}"))
    with Client(server) as client:
        names: list[str] = []
        path = "/api/v1/pods?limit=500"
        while path:
            _, page = client.json(path)
            names += [one["metadata"]["name"] for one in page["items"]]
            token = page["metadata"].get("continue")
            path = f"/api/v1/pods?limit=500&continue={token}" if token else ""
    assert names == [f"p{number:04}" for number in range(5000)]
