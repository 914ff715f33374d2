"""Reviews: who am I, may I, whose token is this. They are answered and not kept."""

from __future__ import annotations

from typing import Any

from . import managers
from .access import User
from .forms import Form, Reply, reply
from .kinds import Kind
from .shaping import now, time_text
from .status import bad_request, invalid
from .store import Object, encode

_AUDIENCE = "https://kubernetes.default.svc"
_NONE_GIVEN = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
_PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", *_PUBLIC[:3], "/openapi", "/openapi/*", *_PUBLIC[3:]]


def is_review(kind: Kind) -> bool:
    return kind.verbs == ("create",)


def answer(kind: Kind, user: User, users: dict[str, User], given: Object, manager: str, wanted: Form) -> Reply:
    """201 with the review filled in."""
    head = {"kind": kind.name, "apiVersion": kind.api_version}
    spec = given.get("spec") or {}
    if kind.name == "SelfSubjectReview":
        made = {"creationTimestamp": time_text(now())}
        return _said({**head, "metadata": made, "status": {"userInfo": user.info()}}, wanted)
    if kind.name == "SelfSubjectRulesReview":
        return _said({**head, "metadata": {}, "spec": {}, "status": _rules(user, spec.get("namespace", ""))}, wanted)
    metadata = {
        "managedFields": [
            managers.entry(kind, manager, managers.owned(kind, {"metadata": {}, **given}), time_text(now()))
        ]
    }
    if kind.name == "TokenReview":
        return _said({**head, "metadata": metadata, "spec": spec, "status": _token(users, spec)}, wanted)
    if ("resourceAttributes" in spec) == ("nonResourceAttributes" in spec):
        raise invalid(f'.{kind.group} ""', {"group": kind.group}, [("spec.resourceAttributes", _NONE_GIVEN)])
    about = user
    if kind.name == "SubjectAccessReview":
        about = next((one for one in users.values() if one.name == spec.get("user")), User(spec.get("user", "")))
    return _said({**head, "metadata": metadata, "spec": spec, "status": _access(about, spec)}, wanted)


def _access(user: User, spec: dict[str, Any]) -> dict[str, Any]:
    paths = spec.get("nonResourceAttributes")
    if paths is not None:
        return {"allowed": user.may_read(paths.get("path", ""))}
    asked = spec["resourceAttributes"]
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource = f"{resource}/{asked['subresource']}"
    rule = user.rule(asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace", ""))
    if rule is None:
        return {"allowed": False}
    return {"allowed": True, "reason": rule.reason} if rule.reason else {"allowed": True}


def _token(users: dict[str, User], spec: dict[str, Any]) -> dict[str, Any]:
    token, audiences = spec.get("token", ""), spec.get("audiences") or [_AUDIENCE]
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = users.get(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    if _AUDIENCE not in audiences:
        shown = " ".join(f'"{one}"' for one in audiences)
        why = f'token audiences ["{_AUDIENCE}"] is invalid for the target audiences [{shown}]'
        return {"user": {}, "error": f"[invalid bearer token, {why}]"}
    return {"authenticated": True, "user": user.info(), "audiences": [_AUDIENCE]}


def _rules(user: User, namespace: str) -> dict[str, Any]:
    mine = [
        {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
        for rule in user.rules
        if rule.namespaces is None or namespace in rule.namespaces
    ]
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    own = [
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews},
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    paths = [{"verbs": ["get"], "nonResourceURLs": urls} for urls in (_PUBLIC, _DISCOVERY)]
    return {"resourceRules": [*mine, *own], "nonResourceRules": paths, "incomplete": False}


def _said(content: Object, wanted: Form) -> Reply:
    return reply(201, encode(content) + b"\n", wanted)
