"""Which kinds of objects the server knows, and what a real one says of each in discovery."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Sub:
    """A subresource. `group`, `version` and `kind` are those of what it takes; empty for the object's own."""

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


STATUS = Sub("status", _STATUS)
SCALE = Sub("scale", _STATUS, "Scale", "autoscaling", "v1")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `custom`: a CustomResourceDefinition made it; items of its lists carry kind and apiVersion."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Sub, ...] = ()
    verbs: tuple[str, ...] = VERBS
    custom: bool = False
    fields: tuple[str, ...] = field(default=())
    """Field selectors beside metadata.name and metadata.namespace."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What a custom kind's definition says its objects are like. None: anything."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As in messages: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As in validation messages: `Pod`, `Job.batch`."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def hash(self) -> str:
        """storageVersionHash, which real servers compute from the names alone."""
        digest = hashlib.sha256(f"{self.group}/{self.version}/{self.name}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    def sub(self, name: str) -> Sub | None:
        return next((one for one in self.subresources if one.name == name), None)

    def resources(self) -> list[dict[str, Any]]:
        """What an APIResourceList says of it."""
        one: dict[str, Any] = {
            "name": self.plural,
            "singularName": self.name.lower(),
            "namespaced": self.namespaced,
            "kind": self.name,
            "verbs": list(self.verbs),
        }
        if self.short:
            one["shortNames"] = list(self.short)
        if self.categories:
            one["categories"] = list(self.categories)
        if "list" in self.verbs and self.name != "ComponentStatus":
            one["storageVersionHash"] = self.hash
        found = [one]
        for sub in self.subresources:
            shown: dict[str, Any] = {
                "name": f"{self.plural}/{sub.name}",
                "singularName": "",
                "namespaced": self.namespaced,
            }
            if sub.group:
                shown |= {"group": sub.group, "version": sub.version}
            found.append({**shown, "kind": sub.kind or self.name, "verbs": list(sub.verbs)})
        return found

    def aggregated(self) -> dict[str, Any]:
        """What an APIGroupDiscoveryList says of it."""
        one: dict[str, Any] = {
            "resource": self.plural,
            "responseKind": {"group": "", "version": "", "kind": self.name},
            "scope": "Namespaced" if self.namespaced else "Cluster",
            "singularResource": self.name.lower(),
            "verbs": list(self.verbs),
        }
        if self.short:
            one["shortNames"] = list(self.short)
        if self.categories:
            one["categories"] = list(self.categories)
        if self.subresources:
            one["subresources"] = [
                {
                    "subresource": sub.name,
                    "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind or self.name},
                    "verbs": list(sub.verbs),
                }
                for sub in self.subresources
            ]
        return one


_PROXY = ("create", "delete", "get", "patch", "update")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_REVIEW = ("create",)
_POD_SUBS = (
    Sub("attach", ("create", "get"), "PodAttachOptions"),
    Sub("binding", ("create",), "Binding"),
    Sub("ephemeralcontainers", _STATUS),
    Sub("eviction", ("create",), "Eviction", "policy", "v1"),
    Sub("exec", ("create", "get"), "PodExecOptions"),
    Sub("log", ("get",)),
    Sub("portforward", ("create", "get"), "PodPortForwardOptions"),
    Sub("proxy", _PROXY, "PodProxyOptions"),
    Sub("resize", _STATUS),
    STATUS,
)
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_NODE_SUBS = (Sub("proxy", _PROXY, "NodeProxyOptions"), STATUS)
_NAMESPACE_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
_ADMISSION = (
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", ()),
    ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", ()),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", (STATUS,)),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", ()),
)

BUILTIN: tuple[Kind, ...] = (
    Kind("", "v1", "ConfigMap", "configmaps", short=("cm",)),
    Kind("", "v1", "Event", "events", short=("ev",), fields=("involvedObject.name", "involvedObject.uid", "reason")),
    Kind(
        *("", "v1", "Namespace", "namespaces", False),
        short=("ns",),
        subresources=(Sub("finalize", ("update",)), STATUS),
        verbs=_NAMESPACE_VERBS,
        fields=("status.phase",),
    ),
    Kind("", "v1", "Node", "nodes", False, ("no",), subresources=_NODE_SUBS, fields=("spec.unschedulable",)),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), subresources=(STATUS,)),
    Kind("", "v1", "Pod", "pods", True, ("po",), _ALL, _POD_SUBS, fields=_POD_FIELDS),
    Kind("", "v1", "Secret", "secrets", fields=("type",)),
    Kind(
        *("", "v1", "ServiceAccount", "serviceaccounts"),
        short=("sa",),
        subresources=(Sub("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
    ),
    Kind("", "v1", "Service", "services", True, ("svc",), _ALL, (Sub("proxy", _PROXY, "ServiceProxyOptions"), STATUS)),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), _ALL, (STATUS,)),
    Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), _ALL, (SCALE, STATUS)),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), _ALL, (SCALE, STATUS)),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), _ALL, (SCALE, STATUS)),
    Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), _ALL, (STATUS,)),
    Kind("batch", "v1", "Job", "jobs", True, (), _ALL, (STATUS,), fields=("status.successful",)),
    Kind(
        *("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
        short=("crd", "crds"),
        categories=_EXTENSIONS,
        subresources=(STATUS,),
    ),
    Kind("coordination.k8s.io", "v1", "Lease", "leases"),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",)),
    Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), subresources=(STATUS,)),
    Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
    Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
    Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", subresources=(STATUS,)),
    Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, fields=("spec.nodeName", "spec.driver")),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",)),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=_REVIEW),
    Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=_REVIEW),
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=_REVIEW),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=_REVIEW),
    Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=_REVIEW),
    *(
        Kind("admissionregistration.k8s.io", "v1", name, plural, False, (), _EXTENSIONS, subs)
        for name, plural, subs in _ADMISSION
    ),
)
"""What is there from the start. More comes with `install`."""
