"""Services, network policies, budgets, monitors, admission policies: whom they select, and by which port."""

from __future__ import annotations

from typing import Any

from ..checks import selectors, services
from .spoiling import ALERTER, CONTAINER, Spoiled, gone, more, new, put

_WEB = "Service dutycycle-alerter"
_HEADLESS = "Service dutycycle-exporter"
_POLICY = "NetworkPolicy dutycycle-exporter"
_MONITOR = "PodMonitor dutycycle-exporter"
_ENDPOINT = "spec podMetricsEndpoints 0"
_OWN = {"matchLabels": {"app.kubernetes.io/name": "dutycycle-alerter"}}
_OTHER = {"matchLabels": {"app.kubernetes.io/name": "dutycycle"}}


def _budget(**spec: Any) -> Any:
    return new("PodDisruptionBudget", "x", spec={"selector": _OWN, **spec})


def _route(service: str, port: str) -> Any:
    return new("Route", "x", spec={"to": {"kind": "Service", "name": service}, "port": {"targetPort": port}})


def _ingress(service: str, port: str) -> Any:
    backend = {"service": {"name": service, "port": {"name": port}}}
    return new("Ingress", "x", spec={"rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}]})


def _service_monitor(labels: dict[str, str], port: str) -> Any:
    return new("ServiceMonitor", "x", spec={"selector": {"matchLabels": labels}, "endpoints": [{"port": port}]})


ROWS = (
    Spoiled("a Service without ports", services.ports, put(_WEB, "spec ports", []), "spec.ports is empty"),
    Spoiled(
        "a Service's port over the last", services.ports, put(_WEB, "spec ports 0 port", 98370), "98370 is not between"
    ),
    Spoiled("a second port without a name", services.ports, more(_WEB, "spec ports", {"port": 1}), "needs a name"),
    Spoiled("a Service's port's name", services.ports, put(_WEB, "spec ports 0 name", "a_b"), "'a_b'"),
    Spoiled(
        "a Service's port twice",
        services.ports,
        more(_WEB, "spec ports", {"port": 9837, "name": "x"}),
        "port 9837 is there 2",
    ),
    Spoiled(
        "a Service's port's name twice",
        services.ports,
        more(_WEB, "spec ports", {"port": 1, "name": "http"}),
        "name http is there 2",
    ),
    Spoiled("another port, without a proxy", services.ports, put(_HEADLESS, "spec ports 0 port", 80), "headless, but"),
    Spoiled("a Service of no pod", services.selected, put(_WEB, "spec selector a", "b"), "matches no pod"),
    Spoiled(
        "a Service of all pods",
        services.selected,
        put(_WEB, "spec selector", {"app.kubernetes.io/part-of": "dutycycle"}),
        "of several",
    ),
    Spoiled(
        "a Service's port of no container",
        services.selected,
        put(_WEB, "spec ports 0 targetPort", "web"),
        "no port web",
    ),
    Spoiled(
        "a container's port by another name",
        services.selected,
        put(ALERTER, f"{CONTAINER} ports 0 name", "web"),
        "no port http",
    ),
    Spoiled("a Route to no Service", services.claims, _route("x", "http"), "no Service x"),
    Spoiled("a Route to no port", services.claims, _route("dutycycle-alerter", "web"), "no port web"),
    Spoiled("an Ingress to no Service", services.claims, _ingress("x", "http"), "no Service x"),
    Spoiled("an Ingress to no port", services.claims, _ingress("dutycycle-alerter", "web"), "no port web"),
    Spoiled(
        "a selector's operator",
        selectors.expressions,
        put(_MONITOR, "spec selector", {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}),
        "matchExpressions",
    ),
    Spoiled(
        "a selector of no values",
        selectors.expressions,
        put(_POLICY, "spec podSelector", {"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "matchExpressions",
    ),
    Spoiled(
        "a selector's label", selectors.expressions, put(_POLICY, "spec podSelector matchLabels a", "b c"), "'b c'"
    ),
    Spoiled(
        "a policy of no pod",
        selectors.network_policies,
        put(_POLICY, "spec podSelector", _OTHER),
        "podSelector matches no pod",
    ),
    Spoiled(
        "rules that do nothing", selectors.network_policies, put(_POLICY, "spec policyTypes", ["Egress"]), "do nothing"
    ),
    Spoiled(
        "a policy's port of no pod",
        selectors.network_policies,
        put(_POLICY, "spec ingress 0 ports 0 port", "web"),
        "no port web",
    ),
    Spoiled(
        "a policy's port over the last",
        selectors.network_policies,
        put(_POLICY, "spec egress 0 ports 0 port", 70000),
        "70000",
    ),
    Spoiled(
        "a range of ports by name",
        selectors.network_policies,
        put(_POLICY, "spec ingress 0 ports 0 endPort", 9),
        "endPort",
    ),
    Spoiled("a peer that is nobody", selectors.network_policies, more(_POLICY, "spec ingress 0 from", {}), "is nobody"),
    Spoiled(
        "a peer of no pod",
        selectors.network_policies,
        more(_POLICY, "spec ingress 0 from", {"podSelector": _OTHER}),
        "peer's podSelector",
    ),
    Spoiled(
        "an address that is none",
        selectors.network_policies,
        more(_POLICY, "spec ingress 0 from", {"ipBlock": {"cidr": "10.0.0.1/8"}}),
        "host bits",
    ),
    Spoiled(
        "an exception from elsewhere",
        selectors.network_policies,
        more(_POLICY, "spec ingress 0 from", {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.168.0.0/16"]}}),
        "outside of it",
    ),
    Spoiled(
        "addresses and pods",
        selectors.network_policies,
        more(_POLICY, "spec ingress 0 from", {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}),
        "stands alone",
    ),
    Spoiled("a budget of nothing", selectors.disruption_budgets, _budget(), "one of minAvailable"),
    Spoiled(
        "a budget of both",
        selectors.disruption_budgets,
        _budget(minAvailable=0, maxUnavailable=1),
        "one of minAvailable",
    ),
    Spoiled(
        "a budget of no pod", selectors.disruption_budgets, _budget(selector=_OTHER, maxUnavailable=1), "matches no pod"
    ),
    Spoiled("a budget that keeps nodes", selectors.disruption_budgets, _budget(minAvailable=1), "cannot be drained"),
    Spoiled("a monitor of no pod", selectors.monitors, put(_MONITOR, "spec selector", _OTHER), "matches nothing"),
    Spoiled(
        "a monitor of no port",
        selectors.monitors,
        put(_MONITOR, f"{_ENDPOINT} port", "http-metrics"),
        "no port http-metrics",
    ),
    Spoiled("a monitor of nothing", selectors.monitors, put(_MONITOR, "spec podMetricsEndpoints", []), "no endpoints"),
    Spoiled(
        "a monitor in another namespace",
        selectors.monitors,
        put(_MONITOR, "metadata namespace", "monitoring"),
        "matches nothing",
    ),
    Spoiled(
        "a monitor that waits too long",
        selectors.monitors,
        put(_MONITOR, f"{_ENDPOINT} scrapeTimeout", "1m"),
        "longer than interval",
    ),
    Spoiled("a monitor of no Service", selectors.monitors, _service_monitor({"a": "b"}, "http"), "matches nothing"),
    Spoiled(
        "a monitor of no Service's port",
        selectors.monitors,
        _service_monitor({"app.kubernetes.io/name": "dutycycle-alerter"}, "web"),
        "no port web",
    ),
    Spoiled(
        "a policy that nobody puts in force",
        selectors.admission,
        gone("MutatingAdmissionPolicyBinding dutycycle-user"),
        "in force",
    ),
    Spoiled(
        "a binding of no policy",
        selectors.admission,
        gone("MutatingAdmissionPolicy dutycycle-user"),
        "there is no MutatingAdm",
    ),
)
