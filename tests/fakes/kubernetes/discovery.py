"""What the server says of itself: versions, groups, resources, health."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from . import openapi
from .forms import Form, Reply, discovery, reply
from .kinds import BUILTIN, Kind
from .routing import Target
from .status import no_such_path, no_such_resource
from .store import encode

_VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_CHECKS = ("ping", "log", "etcd", "informer-sync", "shutdown")


class Registry:
    """The kinds that are installed."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in BUILTIN:
            self.install(kind)

    def install(self, kind: Kind) -> None:
        self._kinds = {**self._kinds, (kind.group, kind.version, kind.plural): kind}

    def uninstall(self, kind: Kind) -> None:
        self._kinds = {name: one for name, one in self._kinds.items() if one != kind}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def named(self, name: str) -> Kind:
        """By kind ("Pod", or "Job.batch" where two groups have it), by plural, or by both with the group."""
        for kind in self._kinds.values():
            if name in (kind.name, kind.qualified_kind, kind.plural, kind.qualified):
                return kind
        raise KeyError(f"no kind {name!r} is installed")

    def of(self, content: dict[str, Any]) -> Kind:
        """The kind of an object, by its apiVersion and kind."""
        version, name = content["apiVersion"], content["kind"]
        for kind in self._kinds.values():
            if kind.api_version == version and kind.name == name:
                return kind
        raise KeyError(f"no kind {name!r} of {version!r} is installed")

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Kinds by version by group, the core group first."""
        found: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._kinds.values():
            found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        return found


def _group(name: str, versions: dict[str, list[Kind]]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(group: str, version: str, kinds: list[Kind]) -> dict[str, Any]:
    ordered = sorted(kinds, key=lambda kind: kind.plural)
    head = {"kind": "APIResourceList"} if not group else {"kind": "APIResourceList", "apiVersion": "v1"}
    listed = [one for kind in ordered for one in kind.resources()]
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": listed}


def _aggregated(groups: dict[str, dict[str, list[Kind]]]) -> dict[str, Any]:
    items = []
    for name, versions in groups.items():
        listed = [
            {
                "version": version,
                "resources": [kind.aggregated() for kind in sorted(kinds, key=lambda kind: kind.plural)],
                "freshness": "Current",
            }
            for version, kinds in versions.items()
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return {**head, "items": items}


def _whole(groups: dict[str, dict[str, list[Kind]]], known: str | None) -> Reply:
    """All groups in one answer, or 304 for who has it already."""
    answer = discovery(_aggregated(groups))
    tag = f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    if known == tag:
        return Reply(304, b"", (("Etag", tag), ("Vary", "Accept")))
    return Reply(200, answer.body, (*answer.headers, ("Etag", tag)))


def _health(target: Target) -> Reply:
    if "verbose" not in target.query:
        return Reply(200, b"ok", _TEXT)
    name = target.path.strip("/")
    lines = "".join(f"[+]{check} ok\n" for check in _CHECKS)
    return Reply(200, f"{lines}{name} check passed\n".encode(), _TEXT)


def answer(registry: Registry, target: Target, wanted: Form, known: str | None, address: str, accept: str) -> Reply:
    """The answer for a path that is no resource; 404 in plain text for one that is nothing. `known`: If-None-Match."""
    groups = registry.groups()
    steps = target.path.strip("/").split("/")
    if target.path in ("/healthz", "/livez", "/readyz"):
        return _health(target)
    if target.path.rstrip("/") == "/version":
        return reply(200, encode(_VERSION), Form(pretty=True))
    if steps == ["api"]:
        core = {"": groups.get("", {})}
        if wanted.aggregated:
            return _whole(core, known)
        near = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return _said({"kind": "APIVersions", "versions": list(core[""]), "serverAddressByClientCIDRs": near}, wanted)
    if steps == ["openapi", "v2"]:
        return openapi.second(accept)
    if steps[:2] == ["openapi", "v3"]:
        return openapi.answer(groups, steps[2:])
    if steps == ["apis"]:
        rest = {name: versions for name, versions in groups.items() if name}
        if wanted.aggregated:
            return _whole(rest, known)
        listed = [_group(name, versions) for name, versions in rest.items()]
        return _said({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}, wanted)
    if steps[0] == "api" and len(steps) == 2 and steps[1] in groups.get("", {}):
        return _said(_resources("", steps[1], groups[""][steps[1]]), wanted)
    if steps[0] == "apis" and len(steps) == 2 and steps[1] in groups:
        group = _group(steps[1], groups[steps[1]])
        return _said({"kind": "APIGroup", "apiVersion": "v1", **group}, wanted)
    if steps[0] == "apis" and len(steps) == 3 and steps[2] in groups.get(steps[1], {}):
        return _said(_resources(steps[1], steps[2], groups[steps[1]][steps[2]]), wanted)
    if steps[0] == "apis" and len(steps) > 2 and steps[1] in groups:
        raise no_such_resource()
    raise no_such_path()


def served(registry: Registry, target: Target) -> Kind:
    """The kind that a path names; 404 in plain text for an unknown group, in JSON for a resource of a known one."""
    kind = registry.find(target.group, target.version, target.resource)
    if kind is not None and (not target.subresource or kind.sub(target.subresource)):
        return kind
    if target.group in registry.groups():
        raise no_such_resource()
    raise no_such_path()


def _said(content: dict[str, Any], wanted: Form) -> Reply:
    return reply(200, encode(content) + b"\n", wanted)
