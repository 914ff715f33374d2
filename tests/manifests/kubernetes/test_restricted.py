"""The alerter's pods are PodSecurity's `restricted` in every rendering, by a judge that agrees with a real one."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.kubernetes.podsecurity import violations
from tests.fakes.kubernetes.recorded import exchange

from .checks.cluster import Cluster, Pod
from .pod_security import Spec, baseline, restricted
from .rendering import Variant
from .variants import SINGLE, installed, objects

NOT_ANSWERED = {
    "forbidden sysctls",
    "seLinuxOptions",
    "forbidden AppArmor profiles",
    "procMount",
    "probe or lifecycle host",
}
"""What the tests' API server does not look at: nothing that is asked of it has any of these."""
_ENDED = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
HOST = {"hostPath volumes"}
"""What the exporter asks for in every rendering: directories of the node."""
MORE = {
    # Components, and what they add to it. They say so.
    "components/host-pid": {"host namespaces"},
    "components/mig": {"non-default capabilities"},
    "components/profiling-admin": {"non-default capabilities"},
    "components/openshift": {"seLinuxOptions"},
}


def _pods(variant: Variant, component: str) -> list[Pod]:
    every = Cluster(tuple(objects(variant))).pods
    return [pod for pod in every if pod.labels.get("app.kubernetes.io/component") == component]


@pytest.mark.parametrize("variant", SINGLE, ids=str)
def test_the_alerters_pod_is_restricted(variant: Variant) -> None:
    for pod in _pods(variant, "alerter"):
        assert restricted(pod.spec) == []


@pytest.mark.parametrize("variant", SINGLE, ids=str)
def test_the_exporters_pod_asks_for_no_more_than_is_said(variant: Variant) -> None:
    used = set(variant.components)
    # Overlays are of components: theirs count as well.
    used |= {name for name in MORE if name.rpartition("/")[2] == variant.kustomization.rpartition("/")[2]}
    allowed = HOST | {one for name in used for one in MORE.get(name, set())}
    for pod in _pods(variant, "exporter"):
        assert set(baseline(pod.spec)) == allowed


def test_there_are_pods_to_look_at() -> None:
    assert len(_pods(Variant("base"), "alerter")) == len(_pods(Variant("base"), "exporter")) == 1
    assert len(Cluster(tuple(installed())).pods) == 2


def test_each_namespace_says_which_pods_it_takes() -> None:
    """The exporter's are refused by any other level: the namespace must say so, where clusters have a default."""
    for variant in SINGLE:
        for one in objects(variant):
            if one["kind"] == "Namespace" and _pods(variant, "exporter"):
                assert one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def _names(message: str) -> list[str]:
    """The violations that a reply lists, without what is said of each in brackets."""
    return _listed(message.partition('": ')[2].partition('": ')[2] or message.partition('": ')[2])


def _listed(violated: str) -> list[str]:
    return sorted(name.strip() for name in _ENDED.sub("", violated).split(",") if name.strip())


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("07-admission/psa-baseline-hostpath-403", baseline),
        ("07-admission/psa-baseline-hostpid-403", baseline),
        ("07-admission/psa-restricted-hostpid-hostpath-403", restricted),
        ("07-admission/psa-restricted-plain-403", restricted),
    ],
)
def test_a_real_server_says_the_same(name: str, judge: Callable[[Spec], list[str]]) -> None:
    one = exchange(name)
    assert one.code == 403
    assert judge(json.loads(one.body or b"")["spec"]) == _names(one.object()["message"].partition(" is forbidden")[2])


def test_a_real_server_takes_the_same() -> None:
    one = exchange("07-admission/psa-restricted-ok-201")
    assert one.code == 201
    assert restricted(json.loads(one.body or b"")["spec"]) == []


def test_a_real_server_warns_of_the_same() -> None:
    one = exchange("07-admission/psa-restricted-daemonset-warning")
    said = one.answered["Warning"].replace('\\"', '"')
    spec = json.loads(one.body or b"")["spec"]["template"]["spec"]
    assert restricted(spec) == _names(said.rstrip('"'))


def _put(*path: str | int, to: object) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        part: Any = spec
        for key in path[:-1]:
            part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
        part[path[-1]] = to

    return change


_OWN: tuple[str | int, ...] = ("containers", 0, "securityContext")
_PROBE: tuple[str | int, ...] = ("containers", 0, "livenessProbe", "httpGet")


@pytest.mark.parametrize(
    ("spoil", "violated", "by_baseline"),
    [
        (_put("hostPID", to=True), "host namespaces", True),
        (_put("hostNetwork", to=True), "host namespaces", True),
        (_put("hostIPC", to=True), "host namespaces", True),
        (_put("containers", 0, "ports", 0, "hostPort", to=9837), "hostPort", True),
        (_put("securityContext", "sysctls", to=[{"name": "kernel.panic", "value": "1"}]), "forbidden sysctls", True),
        (_put("securityContext", "seLinuxOptions", to={"type": "spc_t"}), "seLinuxOptions", True),
        (_put(*_OWN, "seLinuxOptions", to={"role": "sysadm_r"}), "seLinuxOptions", True),
        (_put(*_OWN, "appArmorProfile", to={"type": "Unconfined"}), "forbidden AppArmor profiles", True),
        (_put(*_OWN, "privileged", to=True), "privileged", True),
        (_put(*_OWN, "procMount", to="Unmasked"), "procMount", True),
        (_put(*_PROBE, "host", to="127.0.0.1"), "probe or lifecycle host", True),
        (_put(*_OWN, "seccompProfile", to={"type": "Unconfined"}), "seccompProfile", True),
        (_put("securityContext", "seccompProfile", to={"type": "Unconfined"}), "seccompProfile", True),
        (_put("volumes", 0, to={"name": "config", "hostPath": {"path": "/etc"}}), "restricted volume types", False),
        (_put("volumes", 0, to={"name": "config", "nfs": {"path": "/"}}), "restricted volume types", False),
        (_put("securityContext", "seccompProfile", to={}), "seccompProfile", False),
        (_put("securityContext", "runAsNonRoot", to=False), "runAsNonRoot != true", False),
        (_put(*_OWN, "runAsNonRoot", to=False), "runAsNonRoot != true", False),
        (_put("securityContext", "runAsUser", to=0), "runAsUser=0", False),
        (_put(*_OWN, "runAsUser", to=0), "runAsUser=0", False),
        (_put(*_OWN, "allowPrivilegeEscalation", to=True), "allowPrivilegeEscalation != false", False),
        (_put(*_OWN, "capabilities", to={}), "unrestricted capabilities", False),
        (_put(*_OWN, "capabilities", "add", to=["CHOWN"]), "unrestricted capabilities", False),
        (_put(*_OWN, to={}), "unrestricted capabilities", False),
        (
            _put("initContainers", to=[{"name": "i", "securityContext": {"allowPrivilegeEscalation": False}}]),
            "unrestricted capabilities",
            False,
        ),
    ],
)
def test_a_pod_that_violates_it_is_refused(spoil: Callable[[Spec], None], violated: str, by_baseline: bool) -> None:
    (pod,) = _pods(Variant("base"), "alerter")
    spec = copy.deepcopy(pod.spec)
    spoil(spec)
    assert violated in restricted(spec)
    assert (violated in baseline(spec)) == by_baseline
    answered = {level: set(_listed(violations(spec, level))) for level in ("restricted", "baseline")}
    assert answered["restricted"] == set(restricted(spec)) - NOT_ANSWERED
    assert answered["baseline"] == set(baseline(spec)) - NOT_ANSWERED - {"seccompProfile"}
