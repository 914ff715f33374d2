"""Who may talk to whom: what scrapes reaches what it scrapes, and nobody else does; by the rendered NetworkPolicies."""

from __future__ import annotations

from typing import Any

import pytest

from .checks.cluster import Cluster, Pod
from .reachability import Peer, reaches
from .rendering import Object, Variant, named
from .variants import WITH_PODS, objects

METRICS, PAGE, HEALTH = 9836, 9837, 9838
API_PORTS = (443, 6443, 8443, 16443)
"""The API server's: of its Service, and of what is behind it (kubeadm's, minikube's, MicroK8s'), which often counts."""
OTHERS = {
    "a Prometheus": Peer("monitoring", {"app.kubernetes.io/name": "prometheus"}),
    "of a namespace that is let in": Peer("ingress-nginx", of_namespace={"dutycycle.io/access": "true"}),
    "of a namespace that is not": Peer("kube-system", of_namespace={"dutycycle.io/access": "false"}),
    "a user's": Peer("ml", {"app": "train"}),
    "one that calls itself the alerter": Peer("ml", {"app.kubernetes.io/name": "dutycycle-alerter"}),
    "another of our namespace": Peer("dutycycle", {"app": "debug"}),
    "another machine": Peer(),
    "OpenShift's Prometheus": Peer("openshift-monitoring"),
    "OpenShift's Prometheus for users": Peer("openshift-user-workload-monitoring"),
    "OpenShift's router": Peer("openshift-ingress", of_namespace={"policy-group.network.openshift.io/ingress": ""}),
}
SCRAPES = {"alerter", "a Prometheus", "of a namespace that is let in"}
LOOKS = {"a Prometheus", "of a namespace that is let in"}
ON_OPENSHIFT = {"OpenShift's Prometheus", "OpenShift's Prometheus for users"}


def _peer(pod: Pod) -> Peer:
    ports = {one["name"]: one["containerPort"] for one in pod.ports()}
    return Peer(pod.namespace, pod.labels, ports=ports)


def peers(found: list[Object]) -> dict[str, Peer]:
    ours = {pod.labels["app.kubernetes.io/component"]: _peer(pod) for pod in Cluster(tuple(found)).pods}
    assert set(ours) == {"exporter", "alerter"}
    return OTHERS | ours


def used(variant: Variant) -> set[str]:
    return {variant.kustomization.rpartition("/")[2], *(one.rpartition("/")[2] for one in variant.components)}


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_who_may_scrape_and_who_may_look(variant: Variant) -> None:
    found = objects(variant)
    everybody = peers(found)
    openshift = "openshift" in used(variant)
    for name, port, wanted in (
        ("exporter", METRICS, SCRAPES | (ON_OPENSHIFT if openshift else set())),
        *(
            ("alerter", port, LOOKS | (ON_OPENSHIFT | {"OpenShift's router"} if openshift else set()))
            for port in (PAGE, HEALTH)
        ),
    ):
        target = everybody[name]
        assert {one for one in everybody if reaches(found, everybody[one], target, port)} == wanted
        # And by no other port: what else the pod may come to listen at is not for anybody.
        assert [one for one in everybody if reaches(found, everybody[one], target, port + 100)] == []


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_the_exporter_opens_no_connection_but_to_the_api_server(variant: Variant) -> None:
    found = objects(variant)
    everybody = peers(found)
    exporter, api = everybody["exporter"], Peer(address="10.96.0.1")
    asks = "pod-names" in used(variant)
    assert {port: reaches(found, exporter, api, port) for port in API_PORTS} == dict.fromkeys(API_PORTS, asks)
    assert [
        name
        for name, one in everybody.items()
        for port in (PAGE, METRICS)
        if name != "another machine" and reaches(found, exporter, one, port)
    ] == []
    if not asks:
        assert [port for port in (53, 80, 8080, 10250) if reaches(found, exporter, api, port)] == []


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_the_alerter_may_ask_and_tell_whom_it_wants(variant: Variant) -> None:
    found = objects(variant)
    everybody = peers(found)
    alerter = everybody["alerter"]
    for port in (*API_PORTS, 25, 5432, 9090):
        assert reaches(found, alerter, Peer(), port), "Slack, mail, a database, the API server"
    assert reaches(found, alerter, everybody["a Prometheus"], 9090)
    assert reaches(found, alerter, Peer("kube-system", {"k8s-app": "kube-dns"}), 53, "UDP")


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_every_exporter_is_found_by_its_service(variant: Variant) -> None:
    """Also one that is not ready: that it has no GPU to show is in its metrics."""
    spec = named(objects(variant), "Service", "dutycycle-exporter")["spec"]
    assert (spec["clusterIP"], spec.get("publishNotReadyAddresses")) == ("None", True)


_POD = Peer("a", {"app": "x"}, {"stage": "test"}, {"web": 8080})
_OTHER = Peer("b", {"app": "y"}, {"stage": "live"})


def _policy(**spec: Any) -> Object:
    return {"kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "a"}, "spec": spec}


def _from(*peers: dict[str, Any], ports: list[dict[str, Any]] | None = None) -> Object:
    return _policy(podSelector={}, ingress=[{"from": list(peers), "ports": ports or []}])


@pytest.mark.parametrize(
    ("policies", "source", "there"),
    [
        pytest.param([], _OTHER, True, id="no policy"),
        pytest.param([_policy(podSelector={})], _OTHER, False, id="a policy without rules"),
        pytest.param([_policy(podSelector={"matchLabels": {"app": "z"}})], _OTHER, True, id="a policy of other pods"),
        pytest.param([_policy(podSelector={}, policyTypes=["Egress"])], _OTHER, True, id="a policy of the other way"),
        pytest.param([_policy(podSelector={}, ingress=[{}])], _OTHER, True, id="a rule for all"),
        pytest.param([_policy(podSelector={}, ingress=[{}])], Peer(), True, id="a rule for all, also from outside"),
        pytest.param([_policy(podSelector={}), _from()], _OTHER, True, id="what one of them allows"),
        pytest.param([_from({"podSelector": {}})], _OTHER, False, id="pods of its own namespace"),
        pytest.param([_from({"podSelector": {}})], Peer("a"), True, id="from its own namespace"),
        pytest.param([_from({"namespaceSelector": {}})], _OTHER, True, id="pods of every namespace"),
        pytest.param([_from({"namespaceSelector": {}})], Peer(), False, id="pods, not machines"),
        pytest.param(
            [_from({"namespaceSelector": {"matchLabels": {"stage": "live"}}})], _OTHER, True, id="a namespace by label"
        ),
        pytest.param(
            [_from({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}})],
            _OTHER,
            True,
            id="a namespace by name",
        ),
        pytest.param(
            [_from({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}})],
            _OTHER,
            False,
            id="pods of every namespace, by label",
        ),
        pytest.param(
            [_from({"namespaceSelector": {"matchLabels": {"stage": "test"}}}, {"podSelector": {}})],
            _OTHER,
            False,
            id="neither of two",
        ),
        pytest.param([_from({"ipBlock": {"cidr": "192.0.2.0/24"}})], Peer(), True, id="an address"),
        pytest.param(
            [_from({"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.1/32"]}})], Peer(), False, id="but not this"
        ),
        pytest.param([_from({"ipBlock": {"cidr": "0.0.0.0/0"}})], _OTHER, False, id="addresses, not pods"),
        pytest.param([_from(ports=[{"port": 8080}])], _OTHER, True, id="a port"),
        pytest.param([_from(ports=[{"port": 8081}])], _OTHER, False, id="another port"),
        pytest.param([_from(ports=[{"port": "web"}])], _OTHER, True, id="a port by name"),
        pytest.param([_from(ports=[{"port": "metrics"}])], _OTHER, False, id="a name that there is not"),
        pytest.param([_from(ports=[{"port": 8000, "endPort": 8080}])], _OTHER, True, id="a range"),
        pytest.param([_from(ports=[{"port": 8080, "protocol": "UDP"}])], _OTHER, False, id="another protocol"),
        pytest.param([_from(ports=[{"protocol": "TCP"}])], _OTHER, True, id="a protocol alone"),
    ],
)
def test_who_reaches_a_pod(policies: list[Object], source: Peer, there: bool) -> None:
    assert reaches(policies, source, _POD, 8080) == there


@pytest.mark.parametrize(
    ("spec", "there"),
    [
        pytest.param({"policyTypes": ["Egress"]}, False, id="nowhere"),
        pytest.param({"policyTypes": ["Ingress"]}, True, id="of the other way"),
        pytest.param({"egress": []}, True, id="an empty list without its type"),
        pytest.param({"egress": [{"to": [{"namespaceSelector": {}}]}]}, True, id="to pods"),
        pytest.param({"egress": [{"to": [{"podSelector": {}}]}]}, False, id="in its own namespace"),
        pytest.param({"egress": [{"ports": [{"port": 53}]}]}, False, id="by another port"),
    ],
)
def test_whom_a_pod_reaches(spec: dict[str, Any], there: bool) -> None:
    assert reaches([_policy(podSelector={}, **spec)], _POD, _OTHER, 443) == there


def test_both_must_allow_it() -> None:
    closed = _policy(podSelector={}, policyTypes=["Ingress"])
    assert not reaches([closed], _OTHER, _POD, 8080)
    assert not reaches([closed], Peer("a", {"app": "z"}), _POD, 8080)
    assert reaches([closed], _POD, _OTHER, 8080)
