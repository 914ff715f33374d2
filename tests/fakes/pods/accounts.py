"""The service accounts of a cluster: their tokens, and what the roles that are bound to them allow."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes.access import Rule


class Accounts:
    """Users of the tests' API server."""

    def __init__(self, server: KubernetesServer) -> None:
        self.server = server
        self._tokens: dict[tuple[str, str], str] = {}

    def token(self, namespace: str, account: str) -> str:
        """Of a ServiceAccount, which may do what roles that are bound to it say now."""
        if (namespace, account) not in self._tokens:
            self._tokens[namespace, account] = token = secrets.token_hex(16)
            self.server.add_user(
                f"system:serviceaccount:{namespace}:{account}",
                token,
                *self._rules(namespace, account),
                groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
            )
        return self._tokens[namespace, account]

    def _rules(self, namespace: str, account: str) -> Iterable[Rule]:
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            for binding in self.server.objects(kind):
                if subject not in [{key: one.get(key) for key in subject} for one in binding["subjects"]]:
                    continue
                where = binding["metadata"].get("namespace", "")
                reference = binding["roleRef"]
                role = self.server.get(reference["kind"], where, reference["name"])
                for rule in role["rules"]:
                    yield Rule(
                        tuple(rule["verbs"]),
                        tuple(rule.get("resources", ())),
                        tuple(rule.get("apiGroups", ())),
                        (where,) if where else None,
                        tuple(rule.get("nonResourceURLs", ())),
                    )
