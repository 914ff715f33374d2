"""What a real server adds to an object that it is given: metadata, defaults, and who manages which field."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime
from typing import Any

from . import managers
from .kinds import Kind
from .store import Object

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PLAIN = {"ConfigMap", "Event", "Namespace", "Node", "Secret", "ServiceAccount", "Lease"}
_RBAC = "rbac.authorization.k8s.io"
_POD_TEMPLATES = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)
_BUDGET = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def now() -> datetime:
    return datetime.now(UTC)


def time_text(moment: datetime) -> str:
    """As in an object: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix() -> str:
    return "".join(random.choices(_LETTERS, k=5))


def uid() -> str:
    return str(uuid.uuid4())


def counts_generations(kind: Kind) -> bool:
    return kind.name not in _PLAIN and kind.group != _RBAC


def has_status(kind: Kind) -> bool:
    """Whether its status is written only through the subresource."""
    return kind.sub("status") is not None


def created(kind: Kind, content: Object, namespace: str, manager: str) -> Object:
    """A new object as it is stored, but for the resource version. The content must be valid."""
    given = content["metadata"]
    name = given.get("name") or f"{given['generateName']}{suffix()}"
    moment = time_text(now())
    metadata = {**given, "name": name, "uid": uid(), "creationTimestamp": moment}
    if kind.namespaced:
        metadata["namespace"] = namespace
    for system in ("resourceVersion", "generation", "deletionTimestamp", "managedFields", "selfLink"):
        metadata.pop(system, None)
    if counts_generations(kind):
        metadata["generation"] = 1
    found = {**content, "metadata": metadata}
    if has_status(kind):
        found.pop("status", None)
    found = defaulted(kind, found)
    fields = managers.owned(kind, found)
    if kind.name == "Event":
        fields.pop("f:eventTime", None)
    if fields:
        found["metadata"]["managedFields"] = [managers.entry(kind, manager, fields, moment)]
    return found


def defaulted(kind: Kind, content: Object) -> Object:
    """With the defaults of its kind; those of pods are the ones a scheduler, a kubelet or a monitor may look at."""
    found = dict(content)
    spec = dict(found.get("spec") or {})
    if kind.name == "Event" and not kind.group:
        return {"eventTime": None, "reportingComponent": "", "reportingInstance": "", **found}
    if kind.name == "PodDisruptionBudget":
        return {**found, "status": dict.fromkeys(_BUDGET, 0)}
    if kind.name == "NetworkPolicy":
        return {**found, "spec": _network_policy(spec)}
    if "matchConstraints" in spec and kind.group == "admissionregistration.k8s.io":
        return _policy(found, spec)
    if kind.custom or kind.name not in ("Pod", "Namespace", "Node", *_POD_TEMPLATES):
        return found
    if kind.name == "Pod":
        found["spec"] = _pod_spec(spec)
        found["status"] = {"phase": "Pending", "qosClass": _quality(found["spec"]), **(found.get("status") or {})}
        return found
    if kind.name == "Namespace":
        metadata = found["metadata"]
        labels = {"kubernetes.io/metadata.name": metadata["name"], **(metadata.get("labels") or {})}
        found["metadata"] = {**metadata, "labels": labels}
        return {**found, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    if kind.name == "Node":
        spec.setdefault("taints", [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
        empty = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(_NODE_INFO, "")}
        return {**found, "spec": spec, "status": {**empty, **(found.get("status") or {})}}
    if kind.name == "Job":
        found, spec = _job(found, spec)
    if kind.name == "DaemonSet":
        annotations = {"deprecated.daemonset.template.generation": "1", **(found["metadata"].get("annotations") or {})}
        found["metadata"] = {**found["metadata"], "annotations": annotations}
    template = dict(spec.get("template") or {})
    template["spec"] = _template_spec(dict(template.get("spec") or {}))
    return {**found, "spec": {**_SPEC_DEFAULTS[kind.name], **spec, "template": template}, "status": _first(kind)}


def _policy(found: Object, spec: dict[str, Any]) -> Object:
    wanted = spec["matchConstraints"]
    rules = [{**one, "scope": one.get("scope", "*")} for one in wanted.get("resourceRules") or ()]
    whole = {
        "namespaceSelector": {},
        "objectSelector": {},
        "matchPolicy": "Equivalent",
        **wanted,
        "resourceRules": rules,
    }
    first = {"status": {}} if found.get("kind") == "ValidatingAdmissionPolicy" else {}
    return {**found, "spec": {"failurePolicy": "Fail", **spec, "matchConstraints": whole}, **first}


_HISTORY = {"revisionHistoryLimit": 10}
_SPEC_DEFAULTS: dict[str, dict[str, Any]] = {
    "Deployment": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "progressDeadlineSeconds": 600,
        **_HISTORY,
    },
    "ReplicaSet": {"replicas": 1},
    "StatefulSet": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        **_HISTORY,
    },
    "DaemonSet": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        **_HISTORY,
    },
    "Job": {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    },
}


def _first(kind: Kind) -> dict[str, Any]:
    """The status of a workload that no controller has seen yet."""
    zeros = {
        "StatefulSet": ("replicas", "availableReplicas"),
        "ReplicaSet": ("replicas",),
        "DaemonSet": ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
    }
    return dict.fromkeys(zeros.get(kind.name, ()), 0)


def _job(found: Object, spec: dict[str, Any]) -> tuple[Object, dict[str, Any]]:
    """A job selects its pods by its own uid, which its labels and those of its template carry."""
    metadata = found["metadata"]
    values = (metadata["uid"], metadata["name"], metadata["uid"], metadata["name"])
    own = dict(zip(_JOB_LABELS, values, strict=True))
    template = dict(spec.get("template") or {})
    inner = dict(template.get("metadata") or {})
    inner["labels"] = {**(inner.get("labels") or {}), **own}
    template["metadata"] = inner
    # Where a job itself has no labels it takes those of its template.
    labels = metadata.get("labels") or inner["labels"]
    found["metadata"] = {**metadata, "labels": {**labels, **own}}
    selector = {"matchLabels": {_JOB_LABELS[0]: metadata["uid"]}}
    return found, {"selector": selector, **spec, "template": template}


def _container(container: dict[str, Any], *, requests: bool, mount: str) -> dict[str, Any]:
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    resources = dict(container.get("resources") or {})
    if requests and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    found = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if tag in ("", "latest") else "IfNotPresent",
        **container,
        "resources": resources,
    }
    if container.get("env"):
        found["env"] = [_variable(one) for one in container["env"]]
    if mount:
        path = "/var/run/secrets/kubernetes.io/serviceaccount"
        mounted = {"name": mount, "readOnly": True, "mountPath": path}
        found["volumeMounts"] = [*container.get("volumeMounts", ()), mounted]
    return found


_TEMPLATE_DEFAULTS: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


def _template_spec(spec: dict[str, Any]) -> dict[str, Any]:
    containers = [_container(one, requests=False, mount="") for one in spec.get("containers") or ()]
    found = {**_TEMPLATE_DEFAULTS, **spec, "containers": containers}
    if spec.get("volumes"):
        found["volumes"] = [_volume(one) for one in spec["volumes"]]
    return found


def _variable(variable: dict[str, Any]) -> dict[str, Any]:
    """With the version of a field's reference. The reference is atomic: a default in it is a change of the whole."""
    source = variable.get("valueFrom") or {}
    if "fieldRef" not in source:
        return variable
    return {**variable, "valueFrom": {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}}


def _ports(rule: dict[str, Any]) -> dict[str, Any]:
    """A network policy's rule. Lists of rules are atomic, with their ports' protocols."""
    return {**rule, "ports": [{"protocol": "TCP", **one} for one in rule["ports"]]} if rule.get("ports") else rule


def _network_policy(spec: dict[str, Any]) -> dict[str, Any]:
    rules = {name: [_ports(one) for one in spec[name]] for name in ("ingress", "egress") if spec.get(name)}
    return {**spec, **rules}


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    return {**volume, "hostPath": {"type": "", **volume["hostPath"]}} if volume.get("hostPath") else volume


def _tolerated(reason: str) -> dict[str, Any]:
    key = f"node.kubernetes.io/{reason}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    mount = f"kube-api-access-{suffix()}" if spec.get("automountServiceAccountToken", True) else ""
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources.append({"downwardAPI": {"items": [namespace]}})
    volume = {"name": mount, "projected": {"sources": sources, "defaultMode": 420}}
    account = spec.get("serviceAccountName") or "default"
    found = {
        **_TEMPLATE_DEFAULTS,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **spec,
        "serviceAccountName": account,
        "serviceAccount": account,
        "tolerations": [*spec.get("tolerations", ()), _tolerated("not-ready"), _tolerated("unreachable")],
    }
    if mount:
        found["volumes"] = [*spec.get("volumes", ()), volume]
    for name in ("containers", "initContainers"):
        if spec.get(name):
            found[name] = [_container(one, requests=True, mount=mount) for one in spec[name]]
    return found


def with_status(kind: Kind, content: Object) -> Object:
    """A status that a client wrote, with what an empty field of it reads as."""
    status = content.get("status") or {}
    if kind.name != "Pod" or not status.get("containerStatuses"):
        return content
    empty = {"state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    statuses = [{**empty, **one} for one in status["containerStatuses"]]
    return {**content, "status": {**status, "containerStatuses": statuses}}


def _quality(spec: dict[str, Any]) -> str:
    """The QoS class, which counts processors and memory alone."""
    seen = [one.get("resources") or {} for one in spec.get("containers", ())]
    counted = [
        [
            {name: part.get(name) for name in ("cpu", "memory")}
            for part in (one.get("limits", {}), one.get("requests", {}))
        ]
        for one in seen
    ]
    if all(value is None for pair in counted for part in pair for value in part.values()):
        return "BestEffort"
    if all(limits == requests and None not in limits.values() for limits, requests in counted):
        return "Guaranteed"
    return "Burstable"
