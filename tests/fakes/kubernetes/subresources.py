"""Subresources beside status: binding and eviction of pods, scale of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import patching, shaping
from .bodies import parsed
from .forms import Form, Reply, reply
from .kinds import Kind
from .routing import Target
from .status import Refusal, bad_request, failure, invalid, modified, no_such_resource, not_found
from .store import Object, Stored, encode

if TYPE_CHECKING:
    from .writing import Writer

_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


def answer(writer: Writer, kind: Kind, target: Target, headers: Mapping[str, str], body: bytes, wanted: Form) -> Reply:
    """404 for a subresource that discovery tells of and that is not kept here (log, exec, proxy and the like)."""
    stored = writer.there(kind, target)
    if target.subresource == "scale":
        return _scale(writer, kind, stored, target, headers, body, wanted)
    if target.subresource == "binding":
        return _bind(writer, stored, parsed(kind, headers, body), wanted)
    if target.subresource == "eviction":
        return _evict(writer, stored, parsed(kind, headers, body), target, wanted)
    raise no_such_resource()


def _success(code: int, wanted: Form) -> Reply:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return reply(code, encode(status) + b"\n", wanted)


def _with_condition(pod: Object, condition: dict[str, Any]) -> Object:
    status = pod.get("status", {})
    moment = shaping.time_text(shaping.now())
    added = {"status": "True", "lastProbeTime": None, "lastTransitionTime": moment, **condition}
    kept = [one for one in status.get("conditions", ()) if one["type"] != condition["type"]]
    return {**pod, "status": {**status, "conditions": [*kept, added]}}


def _bind(writer: Writer, stored: Stored, given: Object, wanted: Form) -> Reply:
    """What the scheduler does: the pod has a node from now on."""
    node = (given.get("target") or {}).get("name", "")
    pod = {**stored.object, "spec": {**stored.object["spec"], "nodeName": node}}
    writer.store.put(stored.kind, _with_condition(pod, {"type": "PodScheduled"}))
    return _success(201, wanted)


def _evict(writer: Writer, stored: Stored, given: Object, target: Target, wanted: Form) -> Reply:
    if (given.get("metadata") or {}).get("name", stored.name) != stored.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = given.get("deleteOptions") or {}
    if options.get("dryRun"):
        writer.delete(stored.kind, stored, options, target, wanted)
        return _success(201, wanted)
    for budget in _budgets(writer, stored):
        status = budget.object.get("status") or {}
        if status.get("disruptionsAllowed", 0) < 1:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            why = f"The disruption budget {budget.name} needs {needed} healthy pods and has {healthy} currently"
            details = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
            raise Refusal(429, failure(429, "TooManyRequests", _BUDGET, details))
    condition = {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    if not options.get("preconditions"):
        stored = writer.store.put(stored.kind, _with_condition(stored.object, condition))
    writer.delete(stored.kind, stored, options, target, wanted)
    return _success(201, wanted)


def _budgets(writer: Writer, pod: Stored) -> list[Stored]:
    labels = pod.object["metadata"].get("labels") or {}
    found = []
    for collection in writer.store.collections():
        if collection.kind.name != "PodDisruptionBudget":
            continue
        for budget in collection.items.values():
            wanted = (budget.object["spec"].get("selector") or {}).get("matchLabels") or {}
            if budget.namespace == pod.namespace and all(labels.get(name) == value for name, value in wanted.items()):
                found.append(budget)
    return found


def scale(stored: Stored) -> Object:
    """A workload as its Scale. Zero replicas are left out of its spec, as in a real one."""
    metadata = stored.object["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = stored.object["spec"].get("replicas", 0)
    selector = (stored.object["spec"].get("selector") or {}).get("matchLabels") or {}
    status: dict[str, Any] = {"replicas": (stored.object.get("status") or {}).get("replicas", 0)}
    status["selector"] = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _scale(
    writer: Writer, kind: Kind, stored: Stored, target: Target, headers: Mapping[str, str], body: bytes, wanted: Form
) -> Reply:
    if target.verb == "get":
        return reply(200, encode(scale(stored)) + b"\n", wanted)
    given = parsed(kind, {**dict(headers.items()), "Content-Type": ""}, body)
    if target.verb == "patch":
        given = patching.merge(scale(stored), given)
    sent = (given.get("metadata") or {}).get("resourceVersion")
    if sent not in (None, "", str(stored.revision)):
        raise modified(kind, stored.name)
    replicas = (given.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        details = {"name": stored.name, "group": "autoscaling", "kind": "Scale"}
        why = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(f'Scale.autoscaling "{stored.name}"', details, [("spec.replicas", why)])
    content = {**stored.object, "spec": {**stored.object["spec"], "replicas": replicas}}
    plain = Target(target.method, target.path, target.query, target.verb, True, name=target.name)
    writer.change(kind, stored, content, plain, headers, wanted)
    now = writer.store.get(kind, stored.namespace, stored.name)
    if now is None:
        raise not_found(kind, stored.name)
    return reply(200, encode(scale(now)) + b"\n", wanted)
