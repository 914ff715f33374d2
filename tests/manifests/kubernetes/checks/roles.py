"""Who may do what: rules, the bindings to them, and that both are meant for somebody who is there."""

from __future__ import annotations

from collections.abc import Iterator

from .cluster import Cluster, name, namespace, title

_BUILT_IN = ("view", "edit", "admin", "cluster-admin")
_GROUP = "rbac.authorization.k8s.io"
_VERBS = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "impersonate",
    "bind",
)


def rules(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("Role", "ClusterRole"):
        given = one.get("rules") or []
        if not given and "aggregationRule" not in one:
            yield f"{title(one)}: rules are empty"
        for index, rule in enumerate(given):
            where = f"{title(one)}: rules[{index}]"
            if not rule.get("verbs"):
                yield f"{where}: no verbs"
            if rule.get("nonResourceURLs"):
                if rule.get("resources") or rule.get("apiGroups") or one["kind"] == "Role":
                    yield f"{where}: nonResourceURLs stand alone, in a ClusterRole"
            elif not rule.get("resources") or not rule.get("apiGroups"):
                yield f"{where}: apiGroups and resources are needed"
            for part in ("verbs", "resources", "apiGroups"):
                if "*" in (rule.get(part) or ()):
                    yield f"{where}: {part} are *: everything"
                if len(set(rule.get(part) or ())) != len(rule.get(part) or ()):
                    yield f"{where}: {part} has one twice"
            for verb in rule.get("verbs") or ():
                if verb not in (*_VERBS, "*"):
                    yield f"{where}: there is no verb {verb}"


def bindings(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("RoleBinding", "ClusterRoleBinding"):
        role = one.get("roleRef") or {}
        kind, called = role.get("kind"), role.get("name", "")
        if role.get("apiGroup") != _GROUP:
            yield f"{title(one)}: roleRef.apiGroup is {role.get('apiGroup')}"
        if one["kind"] == "ClusterRoleBinding" and kind != "ClusterRole":
            yield f"{title(one)}: a ClusterRoleBinding is to a ClusterRole"
        known = kind == "ClusterRole" and (called.startswith("system:") or called in _BUILT_IN)
        within = namespace(one) if kind == "Role" else ""
        if not known and not cluster.has(str(kind), called, within):
            yield f"{title(one)}: there is no {kind} {called}"


def subjects(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("RoleBinding", "ClusterRoleBinding"):
        if not one.get("subjects"):
            yield f"{title(one)}: subjects are empty"
        for subject in one.get("subjects") or ():
            if subject["kind"] == "ServiceAccount":
                if subject.get("apiGroup"):
                    yield f"{title(one)}: a ServiceAccount is of no apiGroup"
                if not subject.get("namespace"):
                    yield f"{title(one)}: the namespace of ServiceAccount {subject['name']} is missing"
                elif not cluster.has("ServiceAccount", subject["name"], subject["namespace"]):
                    yield f"{title(one)}: there is no ServiceAccount {subject['namespace']}/{subject['name']}"
            elif subject.get("apiGroup") != _GROUP:
                yield f"{title(one)}: apiGroup of {subject['kind']} {subject['name']}"
    for one in cluster.of("SecurityContextConstraints"):
        for user in one.get("users") or ():
            account = user.removeprefix("system:serviceaccount:").split(":")
            if len(account) != 2 or not cluster.has("ServiceAccount", account[1], account[0]):
                yield f"{title(one)}: users: there is no {user}"


def unused(cluster: Cluster) -> Iterator[str]:
    bound = {
        (one["roleRef"].get("kind"), namespace(one) if one["roleRef"].get("kind") == "Role" else "", role)
        for one in cluster.of("RoleBinding", "ClusterRoleBinding")
        if (role := (one.get("roleRef") or {}).get("name"))
    }
    for one in cluster.of("Role", "ClusterRole"):
        aggregated = any("aggregate-to-" in label for label in one["metadata"].get("labels") or {})
        if not aggregated and (one["kind"], namespace(one), name(one)) not in bound:
            yield f"{title(one)}: nobody has it"
