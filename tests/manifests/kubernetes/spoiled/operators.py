"""Servers for Prometheus' operator to run, and what these and its other objects refer to."""

from __future__ import annotations

from typing import Any

from ..checks import operators, references
from .spoiling import Spoil, Spoiled, every, new, put

_MONITOR = "PodMonitor dutycycle-exporter"
_RULE = "PrometheusRule dutycycle-alerts"
_KEY = {"name": "keys", "key": "a"}
_EVERYWHERE: dict[str, Any] = {"podMonitorNamespaceSelector": {}, "podMonitorSelector": {}}
_OURS = {"matchLabels": {"app.kubernetes.io/part-of": "dutycycle"}}
_OTHERS = {"matchLabels": {"app.kubernetes.io/part-of": "dutycyle"}}


def _server(kind: str = "Prometheus", **spec: Any) -> Spoil:
    return new(kind, "x", spec=spec)


def _account(*verbs: str, namespace: str = "dutycycle") -> Spoil:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}
    subjects = [{"kind": "ServiceAccount", "name": "x", "namespace": namespace}]
    return every(
        new("ServiceAccount", "x"),
        new("ClusterRole", "x", rules=rules),
        new("ClusterRoleBinding", "x", roleRef=reference, subjects=subjects),
    )


ROWS = (
    Spoiled(
        "a server of no monitor",
        operators.selectors,
        _server(podMonitorNamespaceSelector={}, podMonitorSelector=_OTHERS),
        "podMonitorSelector matches no PodMonitor",
    ),
    Spoiled(
        "a server that looks in its own namespace",
        operators.selectors,
        every(
            _server(podMonitorSelector=_OURS),
            *(
                put(f"PodMonitor {one}", "metadata namespace", "monitoring")
                for one in ("dutycycle-exporter", "dutycycle-alerter")
            ),
        ),
        "podMonitorSelector matches no PodMonitor",
    ),
    Spoiled(
        "a server that looks in others' namespaces",
        operators.selectors,
        _server(
            podMonitorNamespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "x"}}, podMonitorSelector={}
        ),
        "podMonitorSelector matches no PodMonitor",
    ),
    Spoiled(
        "a monitor that no server takes",
        operators.selectors,
        every(
            _server(podMonitorNamespaceSelector={}, podMonitorSelector=_OURS),
            put(_MONITOR, "metadata labels app.kubernetes.io/part-of", "dutycyle"),
        ),
        f"{_MONITOR.replace(' ', ' dutycycle/')}: none of",
    ),
    Spoiled(
        "a ruler of no rule",
        operators.selectors,
        _server("ThanosRuler", ruleNamespaceSelector={}, ruleSelector=_OTHERS),
        "ruleSelector matches no PrometheusRule",
    ),
    Spoiled(
        "a rule that no ruler takes",
        operators.selectors,
        every(
            _server("ThanosRuler", ruleNamespaceSelector={}, ruleSelector={"matchLabels": {"role": "alert-rules"}}),
            put(_RULE, "metadata labels role", "rules"),
        ),
        f"{_RULE.replace(' ', ' monitoring/')}: none of",
    ),
    Spoiled("a server of nothing", operators.selectors, _server(), "it selects nothing"),
    Spoiled(
        "a server that may not look for pods",
        operators.rights,
        every(_account("get", "list"), _server(serviceAccountName="x", **_EVERYWHERE)),
        "ServiceAccount x may not watch pods",
    ),
    Spoiled(
        "a server whose rights are another namespace's",
        operators.rights,
        every(_account("get", "list", "watch", namespace="monitoring"), _server(serviceAccountName="x", **_EVERYWHERE)),
        "ServiceAccount x may not get, list, watch pods",
    ),
    Spoiled(
        "a server's account that there is not",
        references.of_custom,
        _server(serviceAccountName="x", **_EVERYWHERE),
        "spec.serviceAccountName: there is no ServiceAccount x",
    ),
    Spoiled("a server's Secret", references.of_custom, _server(secrets=["keys"], **_EVERYWHERE), "no Secret keys"),
    Spoiled("a server's ConfigMap", references.of_custom, _server(configMaps=["x"], **_EVERYWHERE), "no ConfigMap x"),
    Spoiled(
        "a server's key of a Secret",
        references.of_custom,
        _server(thanos={"objectStorageConfig": _KEY}, **_EVERYWHERE),
        "spec.thanos.objectStorageConfig: there is no Secret keys",
    ),
    Spoiled(
        "a server's key of a ConfigMap",
        references.of_custom,
        _server(tlsConfig={"ca": {"configMap": _KEY}}, **_EVERYWHERE),
        "there is no ConfigMap keys",
    ),
    Spoiled(
        "a monitor's token",
        references.of_custom,
        put(_MONITOR, "spec podMetricsEndpoints 0 authorization", {"credentials": _KEY}),
        "credentials: there is no Secret keys",
    ),
    Spoiled(
        "a key that a server's Secret has not",
        references.of_custom,
        every(new("Secret", "keys", data={}), _server(additionalScrapeConfigs=_KEY, **_EVERYWHERE)),
        "Secret keys has no key a",
    ),
)
