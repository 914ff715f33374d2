"""Who asks, and whether they may: bearer tokens, rules, and the words of a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .routing import Target
from .status import Refusal, failure, unauthorized

_NOSNIFF = (("X-Content-Type-Options", "nosniff"),)
_PUBLIC = ("/version", "/version/", "/healthz", "/livez", "/readyz")
_DISCOVERY = ("/api", "/apis", "/openapi")
_SELF = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows `verbs` on `resources` of `groups`; "*" is any. `namespaces` None: everywhere, cluster scope too.

    A subresource is named as `pods/status`. `paths` are what else may be read, not resources: "/metrics".
    """

    verbs: tuple[str, ...] = ("get", "list", "watch")
    resources: tuple[str, ...] = ("pods",)
    groups: tuple[str, ...] = ("",)
    namespaces: tuple[str, ...] | None = None
    paths: tuple[str, ...] = ()
    reason: str = ""
    """What an access review says of it."""


ALL = Rule(("*",), ("*",), ("*",), None, ("*",))


def _has(wanted: str, given: Iterable[str]) -> bool:
    return any(one in ("*", wanted) for one in given)


@dataclass(frozen=True, slots=True)
class User:
    name: str
    rules: tuple[Rule, ...] = ()
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    anonymous: bool = False

    def rule(self, verb: str, group: str, resource: str, namespace: str) -> Rule | None:
        """The rule that allows it."""
        if not self.anonymous and verb == "create" and (group, resource) in _SELF:
            return Rule((verb,), (resource,), (group,))
        for rule in self.rules:
            if (
                _has(verb, rule.verbs)
                and _has(group, rule.groups)
                and _has(resource, rule.resources)
                and (rule.namespaces is None or (namespace and _has(namespace, rule.namespaces)))
            ):
                return rule
        return None

    def may_read(self, path: str) -> bool:
        """Paths that are no resources."""
        if path in _PUBLIC or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return True
        if not self.anonymous and path.startswith(_DISCOVERY):
            return True
        return any(_has(path, rule.paths) for rule in self.rules)

    def info(self) -> dict[str, Any]:
        """As UserInfo."""
        found: dict[str, Any] = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        found["groups"] = [*self.groups, "system:authenticated"]
        if self.extra:
            found["extra"] = {name: list(values) for name, values in self.extra}
        return found


ANONYMOUS = User("system:anonymous", anonymous=True)


def authenticate(authorization: str | None, users: dict[str, User], *, anonymous: bool) -> User:
    """Who asks; 401 for a token that nobody has, and for none where `anonymous` is off.

    Anything but a bearer token counts as none, and an empty one too.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        if not anonymous:
            raise unauthorized()
        return ANONYMOUS
    if token not in users:
        raise unauthorized()
    return users[token]


def authorize(user: User, target: Target) -> None:
    """403 where no rule allows it, whether or not the thing exists."""
    if not target.is_resource:
        if user.may_read(target.path):
            return
        message = f'forbidden: User "{user.name}" cannot {target.verb} path "{target.path}"'
        raise Refusal(403, failure(403, "Forbidden", message, {}), _NOSNIFF)
    if user.rule(target.verb, target.group, target.full_resource, target.namespace) is None:
        raise Refusal(403, forbidden(user, target), _NOSNIFF)


def forbidden(user: User, target: Target) -> dict[str, Any]:
    resource = f"{target.resource}.{target.group}" if target.group else target.resource
    who = f'{resource} "{target.name}"' if target.name else resource
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = (
        f'{who} is forbidden: User "{user.name}" cannot {target.verb} resource "{target.full_resource}" '
        f'in API group "{target.group}" {where}'
    )
    details = {"name": target.name} if target.name else {}
    if target.group:
        details["group"] = target.group
    return failure(403, "Forbidden", message, {**details, "kind": target.resource})
