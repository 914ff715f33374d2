"""The schemas as a real server tells them to kubectl: a document for each group and version, and an index of them."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from . import schemas
from .forms import Reply
from .kinds import Kind
from .status import no_such_path
from .store import encode

Groups = dict[str, dict[str, list[Kind]]]

_INFO = {"title": "Kubernetes", "version": "v1.36.2"}
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_WRITES = {"create": "post", "update": "put", "patch": "patch"}
_PATCHES = tuple(
    f"application/{name}" for name in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json")
)
_SECOND = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")


def answer(groups: Groups, steps: list[str]) -> Reply:
    """`steps` of the path after /openapi/v3; 404 in plain text for a group that is not there."""
    documents = _documents(groups)
    if not steps:
        listed = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(documents[path])}"} for path in documents
        }
        return Reply(200, encode({"paths": listed}), _TEXT)
    found = documents.get("/".join(steps))
    if found is None:
        raise no_such_path()
    return Reply(200, found, (("Content-Type", "application/json"), ("Etag", f'"{_hash(found)}"'), ("Vary", "Accept")))


def second(accept: str) -> Reply:
    """OpenAPI 2, which newer clients ask for only where the third does not name a kind. Nothing is described there."""
    if "protobuf" not in accept:
        document = {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
        return Reply(200, encode(document), (("Content-Type", "application/json"),))
    title, version = (text.encode() for text in _INFO.values())
    info = _text(1, title) + _text(2, version)
    return Reply(200, _text(1, b"2.0") + _text(2, info) + _text(8, b"") + _text(9, b""), (("Content-Type", _SECOND),))


def _text(number: int, value: bytes) -> bytes:
    """A field of a protobuf message; short ones only."""
    return bytes((number << 3 | 2, len(value))) + value


def _hash(document: bytes) -> str:
    return hashlib.sha512(document).hexdigest().upper()


def _documents(groups: Groups) -> dict[str, bytes]:
    found = {}
    for group, versions in groups.items():
        for version, kinds in versions.items():
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            found[path] = _document(path, tuple(kinds))
    return found


@functools.lru_cache(maxsize=64)
def _document(path: str, kinds: tuple[Kind, ...]) -> bytes:
    known: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in kinds:
        name = schemas.name_of(kind)
        if name is None:
            name = f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.name}"
            known[name] = {**_shown(dict(schemas.of(kind).content)), "x-kubernetes-group-version-kind": [_gvk(kind)]}
            known |= {one: _shown(schemas.definitions()[one]) for one in schemas.reachable(schemas.METADATA)}
        else:
            known |= {one: _shown(schemas.definitions()[one]) for one in schemas.reachable(name)}
        paths |= _paths(path, kind)
    return encode({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": known}})


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}


def _paths(path: str, kind: Kind) -> dict[str, Any]:
    """Only what tells a client which options a write takes, and which kinds of patches."""
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _OPTIONS]
    done = {
        verb: {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": verb,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        for verb in (method for name, method in _WRITES.items() if name in kind.verbs)
    }
    if "patch" in done:
        media = [one for one in _PATCHES if not (kind.custom and "strategic" in one)]
        done["patch"]["requestBody"] = {"content": {one: {"schema": {"type": "object"}} for one in media}}
    collection = f"/{path}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"/{path}/{kind.plural}"
    one = {method: what for method, what in done.items() if method != "post"}
    return {collection: {"post": done["post"]}, **({f"{collection}/{{name}}": one} if one else {})}


def _shown(value: Any) -> Any:
    """In the form of OpenAPI 3.0: no type is a list, and nothing stands beside a reference."""
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("$ref"), str):
        to = {"$ref": value["$ref"].replace("#/$defs/", "#/components/schemas/")}
        rest = {name: inner for name, inner in value.items() if name != "$ref"}
        return {**rest, "allOf": [to]} if rest else to
    found = {name: _shown(inner) for name, inner in value.items() if not (name == "enum" and inner and _own(inner))}
    if isinstance(found.get("type"), list):
        found["type"] = next((one for one in found["type"] if one != "null"), "object")
    return found


def _own(values: Any) -> bool:
    """The published schemas say which kind and version an object is of; a server's do not."""
    return isinstance(values, list) and len(values) == 1
