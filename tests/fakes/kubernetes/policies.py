"""Admission policies: what is created is changed or refused as those say that are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import expressions, patching
from .access import User
from .kinds import Kind
from .routing import Target
from .status import about, bad_field, refusal
from .store import Object, Store

GROUP = "admissionregistration.k8s.io"
_MUTATING, _VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"


def compiles(kind: Kind, content: Object) -> None:
    """422 for a policy with an expression that means nothing."""
    if kind.group != GROUP:
        return
    spec = content.get("spec") or {}
    for path, expression in _expressions(spec):
        try:
            expressions.program(expression)
        except expressions.CompileError as error:
            shown = expression.replace("\\", "\\\\").replace('"', '\\"')
            why = f'Invalid value: "{shown}": compilation failed: {error}'
            raise bad_field(kind, content["metadata"]["name"], [(path, why)]) from None


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, one in enumerate(spec.get("matchConditions") or ()):
        yield f"spec.matchConditions[{index}].expression", one["expression"]
    for index, one in enumerate(spec.get("mutations") or ()):
        if "applyConfiguration" in one:
            yield f"spec.mutations[{index}].applyConfiguration.expression", one["applyConfiguration"]["expression"]
    for index, one in enumerate(spec.get("validations") or ()):
        yield f"spec.validations[{index}].expression", one["expression"]


def mutated(store: Store, kind: Kind, content: Object, user: User, target: Target) -> Object:
    """What is created, as policies have it."""
    for _, policy in _bound(store, _MUTATING):
        if not _matches(policy["spec"], kind, content, user, target):
            continue
        for mutation in policy["spec"].get("mutations") or ():
            expression = mutation["applyConfiguration"]["expression"]
            applied = expressions.evaluate(expression, _request(content, user, target), content, None)
            content = patching.merge(content, applied)
    return content


def validated(store: Store, kind: Kind, content: Object, user: User, target: Target) -> None:
    """403 where a policy says no."""
    for binding, policy in _bound(store, _VALIDATING):
        if not _matches(policy["spec"], kind, content, user, target):
            continue
        for validation in policy["spec"].get("validations") or ():
            if expressions.evaluate(validation["expression"], _request(content, user, target), content, None):
                continue
            told = validation.get("message") or f"failed expression: {validation['expression']}"
            name = content["metadata"].get("name", "")
            why = (
                f"{_VALIDATING} '{policy['metadata']['name']}' with binding '{binding['metadata']['name']}' "
                f"denied request: {told}"
            )
            details = {**about(kind, name), "causes": [{"message": why}]}
            raise refusal(403, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {why}', details)


def _bound(store: Store, name: str) -> Iterator[tuple[Object, Object]]:
    """Bindings with their policies, in the order of their names."""
    collections = {one.kind.name: one for one in store.collections() if one.kind.group == GROUP}
    if name not in collections or f"{name}Binding" not in collections:
        return
    policies = {one.name: one.object for one in collections[name].items.values()}
    bindings = collections[f"{name}Binding"]
    for key in list(bindings.keys):
        binding = bindings.items[key].object
        if binding["spec"]["policyName"] in policies:
            yield binding, policies[binding["spec"]["policyName"]]


def _matches(spec: Mapping[str, Any], kind: Kind, content: Object, user: User, target: Target) -> bool:
    wanted = spec.get("matchConstraints") or {}
    if wanted.get("namespaceSelector") or wanted.get("objectSelector") or wanted.get("excludeResourceRules"):
        raise ValueError("selectors of policies are not heeded here")
    if not any(_named(rule, kind, target) for rule in wanted.get("resourceRules") or ()):
        return False
    request = _request(content, user, target)
    try:
        conditions = spec.get("matchConditions") or ()
        return all(expressions.evaluate(one["expression"], request, content, None) for one in conditions)
    except RuntimeError:
        if spec.get("failurePolicy") == "Ignore":
            return False
        raise


def _named(rule: Mapping[str, Any], kind: Kind, target: Target) -> bool:
    asked = (
        ("operations", {"create": "CREATE"}.get(target.verb, target.verb.upper())),
        ("apiGroups", kind.group),
        ("apiVersions", kind.version),
        ("resources", kind.plural),
    )
    return all(value in rule[name] or "*" in rule[name] for name, value in asked)


def _request(content: Object, user: User, target: Target) -> dict[str, Any]:
    return {
        "operation": "CREATE",
        "namespace": target.namespace,
        "name": content["metadata"].get("name", ""),
        "userInfo": user.info(),
    }
