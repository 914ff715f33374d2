"""The rights that manifests give to a service account, as the tests' API server has them, and what of them was used.

With the kinds that they are about: all that own pods, by the chains of the alerter's own tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.alerter.kubernetes.test_owners import CHAINS
from tests.fakes.kubernetes import KubernetesServer, Request, Rule
from tests.fakes.kubernetes.routing import target

NAMESPACE = "dutycycle"
NOBODY_KNOWS = ("example.com", "nvidia.com")
"""Groups of the chains that stand for any operator: a role cannot name them, and what is theirs may not be read."""
Right = tuple[str, str, str]
"""A verb, a group and a resource."""


@dataclass(frozen=True)
class Account:
    """A service account with the rights that are bound to it, everywhere or in one namespace."""

    name: str
    rules: tuple[Rule, ...]

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{NAMESPACE}:{self.name}"

    def join(self, server: KubernetesServer) -> str:
        """The token with which it may do there what it may."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
        server.add_user(self.user, f"token-of-{self.name}", *self.rules, groups=groups)
        return f"token-of-{self.name}"

    @property
    def rights(self) -> set[Right]:
        """Each by itself."""
        return {
            (verb, group, resource)
            for rule in self.rules
            for verb in rule.verbs
            for group in rule.groups
            for resource in rule.resources
        }

    def asked(self, requests: Iterable[Request]) -> set[Right]:
        """What it asked for, allowed or not. Paths that are no resources need no right: discovery."""
        return set(self._asked(requests))

    def _asked(self, requests: Iterable[Request]) -> Iterator[Right]:
        for one in requests:
            wanted = target(one.method, one.target)
            if one.user == self.user and wanted.is_resource:
                yield wanted.verb, wanted.group, wanted.full_resource


def account(objects: list[dict[str, Any]], name: str) -> Account:
    """The service account of that name in rendered manifests."""
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one.get("rules") or []
        for one in objects
        if one["kind"] in ("ClusterRole", "Role")
    }
    assert any(one["kind"] == "ServiceAccount" and one["metadata"]["name"] == name for one in objects)
    rules = []
    for one in objects:
        if one["kind"] not in ("ClusterRoleBinding", "RoleBinding") or not _is_of(one, name):
            continue
        where = one["metadata"].get("namespace", "")
        role = one["roleRef"]
        found = roles[role["kind"], where if role["kind"] == "Role" else "", role["name"]]
        rules += [_rule(each, where) for each in found]
    return Account(name, tuple(rules))


def _is_of(binding: dict[str, Any], name: str) -> bool:
    wanted = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return any(wanted == {key: one.get(key) for key in wanted} for one in binding["subjects"])


def _rule(given: dict[str, Any], namespace: str) -> Rule:
    assert set(given) <= {"verbs", "apiGroups", "resources", "resourceNames"}
    return Rule(
        verbs=tuple(given["verbs"]),
        resources=tuple(given["resources"]),
        groups=tuple(given["apiGroups"]),
        namespaces=(namespace,) if namespace else None,
    )


def install_owners(server: KubernetesServer) -> None:
    """Every kind of every chain is there from now on."""
    for kind in {kind.rstrip("*") for chain in CHAINS.values() for kind in chain}:
        version, _, name = kind.partition(" ")
        group, _, number = version.rpartition("/")
        if not any((one.api_version, one.name) == (version, name) for one in server.registry):
            server.install(group, number, name, f"{name.lower()}s", namespaced=name != "ClusterPolicy")
