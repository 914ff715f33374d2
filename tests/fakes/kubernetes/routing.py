"""What a request is about: the path and query of the API taken apart, before anything is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MOST_QUERY_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Target:
    """`verb` is that of authorization (list, watch, ...), in lower case the method's where it is no resource."""

    method: str
    path: str
    query: dict[str, str]
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def flag(self, name: str) -> bool:
        """A boolean of the query: present is true, unless it says otherwise."""
        return name in self.query and self.query[name].lower() not in ("false", "0")


def target(method: str, url: str) -> Target:
    parts = urlsplit(url)
    path = unquote(parts.path)
    listed = parse_qs(parts.query, keep_blank_values=True, max_num_fields=_MOST_QUERY_FIELDS)
    query = {name: values[0] for name, values in listed.items()}
    steps = [step for step in path.split("/") if step]
    if len(steps) >= 3 and steps[0] == "api":
        group, version, rest = "", steps[1], steps[2:]
    elif len(steps) >= 4 and steps[0] == "apis":
        group, version, rest = steps[1], steps[2], steps[3:]
    else:
        return Target(method, path, query, "get" if method == "HEAD" else method.lower())
    watched = rest[0] == "watch" and len(rest) > 1
    if watched:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
    resource, name, subresource = (*rest, "", "", "")[:3]
    if watched:
        query["watch"] = "true"
    asked = Target(method, path, query, "", True, group, version, namespace, resource, name, subresource)
    return Target(*(method, path, query, _verb(asked), True, group, version, namespace, resource, name, subresource))


def _verb(asked: Target) -> str:
    if asked.method in ("GET", "HEAD"):
        if asked.flag("watch"):
            return "watch"
        return "get" if asked.name else "list"
    if asked.method == "DELETE" and not asked.name:
        return "deletecollection"
    return _VERBS.get(asked.method, asked.method.lower())
