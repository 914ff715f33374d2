"""What was recorded of a real API server, kept beside the repository, and how an answer is compared with it."""

from __future__ import annotations

import gzip
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.required import lacking

from .access import ALL, Rule
from .server import KubernetesServer

DIRECTORY = Path(__file__).parents[3] / "../shared/data/kubernetes"
HEADERS = ("Content-Type", "Content-Encoding", "Retry-After", "Warning", "X-Content-Type-Options", "Vary")
"""What a client acts on. How the length is told is compared as well, where the answers are about of one length."""
_WHOLE = 2048
"""Bytes: up to here a real server tells the length, beyond it sends chunks."""
SERVICE_ACCOUNT = "system:serviceaccount:gpumon:alerter"
_EDIT = ("pods", "pods/eviction", "deployments", "deployments/scale", "statefulsets", "jobs", "configmaps", "events")
_BINDING = 'RBAC: allowed by RoleBinding "dev-edit/ml" of ClusterRole "edit" to Group "dev"'
_CLUSTER = (
    'RBAC: allowed by ClusterRoleBinding "gpumon-alerter" of ClusterRole "gpumon-alerter" '
    'to ServiceAccount "alerter/gpumon"'
)
_PATIENCE = 60.0


@dataclass(frozen=True)
class Exchange:
    """One request and its answer. `user` is who asked: a name of the recordings, "none" and "bad" among them."""

    name: str
    user: str
    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    code: int
    answered: dict[str, str]
    answer: bytes

    def object(self) -> Any:
        """The answer, taken apart."""
        return json.loads(self.answer)

    def lines(self) -> list[Any]:
        """The answer of a watch."""
        return [json.loads(line) for line in self.answer.splitlines()]


def names(directory: str = "") -> list[str]:
    """All that was recorded over HTTP, or what is in one directory; skips where there is nothing, but in CI."""
    index = DIRECTORY / "index.json"
    if not index.exists():
        lacking("the recorded exchanges of an API server beside the repository (../shared/data)")
    found = [one["name"] for one in json.loads(index.read_text())]
    return sorted(name for name in found if name.startswith(directory))


def exchange(name: str) -> Exchange:
    if not DIRECTORY.exists():
        lacking("the recorded exchanges of an API server beside the repository (../shared/data)")
    record = json.loads((DIRECTORY / f"{name}.http.json").read_text())
    request, response = record["request"], record["response"]
    query = f"?{request['query']}" if request["query"] else ""
    return Exchange(
        name=name,
        user=request["as"],
        method=request["method"],
        url=request["path"] + query,
        headers={key: value for key, value in request["headers"] if key not in ("Authorization", "Host")},
        body=(DIRECTORY / request["body"]).read_bytes() if request.get("body") else None,
        code=response["status"],
        answered={key.title(): value for key, value in response["headers"]},
        answer=(DIRECTORY / response["body"]).read_bytes() if response.get("body") else b"",
    )


def introduce(server: KubernetesServer) -> None:
    """Those who asked in the recordings, with the rights they had; their names are their tokens."""
    server.add_user("admin", "admin", ALL, groups=("system:masters",))
    edits = Rule(("*",), _EDIT, ("*",), ("ml",), reason=_BINDING)
    server.add_user("alice@example.com", "alice", edits, uid="u-alice", groups=("dev", "ml-team"))
    server.add_user("bob@example.com", "bob", edits, uid="u-bob", groups=("dev",))
    reads = Rule(("get", "list", "watch"), ("pods", "nodes"), ("",), reason=_CLUSTER)
    extra = {"authentication.kubernetes.io/credential-id": ("JTI=0",)}
    groups = ("system:serviceaccounts", "system:serviceaccounts:gpumon")
    server.add_user(SERVICE_ACCOUNT, "sa:gpumon:alerter", reads, uid="u-alerter", groups=groups, **extra)


def keep(server: KubernetesServer, *recorded: str) -> None:
    """Stores what recorded answers show, under its own resource versions: objects, lists of them, watches."""
    for name in recorded:
        one = exchange(name)
        if name.startswith("03-watch/watch-"):
            found = [line["object"] for line in one.lines()]
        else:
            shown = object_of(one.answer)
            kind = {"apiVersion": shown["apiVersion"], "kind": shown["kind"].removesuffix("List")}
            found = [{**kind, **item} for item in shown["items"]] if "items" in shown else [shown]
        for content in found:
            server.put(content, revision=int(content["metadata"]["resourceVersion"]))


@dataclass(frozen=True)
class Answer:
    code: int
    headers: dict[str, str]
    body: bytes


def connect(server: KubernetesServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.partition("//")[2], timeout=_PATIENCE)


def send(connection: http.client.HTTPConnection, one: Exchange, authorization: str | None = None) -> None:
    """Asks as it was asked."""
    connection.putrequest(one.method, one.url, skip_accept_encoding=True)
    headers = {key: value for key, value in one.headers.items() if key != "Content-Length"}
    if authorization is not None:
        headers["Authorization"] = authorization
    elif one.user != "none":
        headers["Authorization"] = f"Bearer {one.user}"
    if one.body is not None:
        headers["Content-Length"] = str(len(one.body))
    for key, value in headers.items():
        connection.putheader(key, value)
    connection.endheaders(one.body)


def replay(server: KubernetesServer, one: Exchange, authorization: str | None = None) -> Answer:
    connection = connect(server)
    try:
        send(connection, one, authorization)
        found = connection.getresponse()
        return Answer(found.status, {key.title(): value for key, value in found.getheaders()}, found.read())
    finally:
        connection.close()


def answered(server: KubernetesServer, one: Exchange) -> Any:
    """What the server says to that, taken apart."""
    return object_of(replay(server, one).body)


def differences(one: Exchange, answer: Answer, *, exact: bool = False) -> list[str]:
    """In what an answer is not like the recorded one. `exact`: the JSON must be equal, not only of one shape."""
    found = []
    if answer.code != one.code:
        return [f"{one.name}: {answer.code} for {one.code}: {answer.body[:300]!r}"]
    for name in HEADERS:
        if answer.headers.get(name) != one.answered.get(name):
            found.append(f"{one.name}: {name} {answer.headers.get(name)!r} for {one.answered.get(name)!r}")
    if (len(answer.body) > _WHOLE) == (len(one.answer) > _WHOLE):
        for name in ("Content-Length", "Transfer-Encoding"):
            if (name in answer.headers) != (name in one.answered):
                found.append(f"{one.name}: {name} is {'missing' if name in one.answered else 'too much'}")
    media = one.answered.get("Content-Type", "")
    if media in ("application/yaml", "application/json") or media.startswith("application/json;"):
        mine, theirs = object_of(answer.body), object_of(one.answer)
        if exact:
            found += [] if mine == theirs else [f"{one.name}: {_first_difference(mine, theirs)}"]
        else:
            found += compare(mine, theirs, one.name)
    elif "verbose" not in one.url:
        found += [] if answer.body == one.answer else [f"{one.name}: {answer.body!r} for {one.answer!r}"]
    return found


def compare(mine: Any, theirs: Any, where: str) -> list[str]:
    """Keys and types; a Status must say the same in the same words."""
    found = [f"{where}: {line}" for line in _shapes(_shape(mine), _shape(theirs), "")]
    if isinstance(theirs, dict) and theirs.get("kind") == "Status" and theirs != mine:
        found.append(f"{where}: {_first_difference(mine, theirs)}")
    return found


def object_of(body: bytes) -> Any:
    """JSON or YAML, packed or not. The changes that a refused pod update is told of are cut: their format is Go's."""
    plain = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    if not plain:
        return None
    found = json.loads(plain) if plain[:1] == b"{" else yaml.safe_load(plain)
    return _without_changes(found)


def _without_changes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_changes(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_changes(inner) for inner in value]
    return re.sub(r"\n@@ [\s\S]*\n", "\n", value) if isinstance(value, str) else value


def _shape(value: Any) -> Any:
    """Keys and types. Items of a list count together: a key may be in some of them only."""
    if isinstance(value, dict):
        return {key: "fields" if key == "fieldsV1" else _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        merged: Any = None
        for item in value:
            merged = _merged(merged, _shape(item))
        return [merged]
    return "null" if value is None else type(value).__name__


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _merged(one.get(key), other.get(key)) for key in {*one, *other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return other if one is None else one


def _shapes(mine: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}):
            if key not in mine or key not in theirs:
                yield f"{path}.{key} is {'missing' if key in theirs else 'too much'}"
            else:
                yield from _shapes(mine[key], theirs[key], f"{path}.{key}")
    elif isinstance(mine, list) and isinstance(theirs, list):
        yield from _shapes(mine[0], theirs[0], f"{path}[]")
    elif mine != theirs:
        yield f"{path} is {mine} for {theirs}"


def _first_difference(mine: Any, theirs: Any, path: str = "") -> str:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}):
            if mine.get(key) != theirs.get(key):
                return _first_difference(mine.get(key), theirs.get(key), f"{path}.{key}")
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if one != other:
                return _first_difference(one, other, f"{path}[{index}]")
    return f"{path} is {str(mine)[:300]!r} for {str(theirs)[:300]!r}"
