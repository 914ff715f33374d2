"""What the runner makes of a pod's specification, and what it refuses to overlook."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.pods.fields import UnsupportedFieldError
from tests.fakes.pods.probes import Asked
from tests.fakes.pods.spec import Image, PodPlan, Probe, Surroundings, expanded, in_bytes, plan

IMAGE = Image({"PATH": "/bin", "LANG": "C"}, (10001, 10001), "/work", ("program",), ("serve",))
OBJECTS = {("ConfigMap", "words"): {"greeting": "hello"}, ("Secret", "keys"): {"key": "secret"}}
AROUND = Surroundings(
    metadata={"name": "pod-1", "namespace": "ns", "uid": "u-1", "labels": {"app": "x"}},
    node="node-a",
    ip="10.0.0.9",
    host_ip="10.0.0.1",
    services={"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
    object_of=lambda kind, name: OBJECTS.get((kind, name)),
    image=lambda _: IMAGE,
)
SPEC: dict[str, Any] = {"enableServiceLinks": False, "containers": [{"name": "main", "image": "x"}]}


def planned(container: dict[str, Any] | None = None, **pod: Any) -> PodPlan:
    spec = copy.deepcopy(SPEC) | pod
    spec["containers"][0] |= container or {}
    return plan(spec, AROUND)


@pytest.mark.parametrize(
    ("given", "argv"),
    [
        ({}, ("program", "serve")),
        ({"args": ["-x"]}, ("program", "-x")),
        ({"args": []}, ("program",)),
        ({"command": ["other"]}, ("other",)),
        ({"command": ["other"], "args": ["-x"]}, ("other", "-x")),
        ({"args": ["$(A)$$(A)$(B)"], "env": [{"name": "A", "value": "1"}]}, ("program", "1$(A)$(B)")),
    ],
)
def test_command_and_args_are_put_in_the_places_of_the_images(given: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert planned(given).containers[0].argv == argv


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"value": "text"}, "text"),
        ({"value": "at $(KUBERNETES_SERVICE_HOST)"}, "at 10.96.0.1"),
        ({"value": "$(LATER)"}, "$(LATER)"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, "node-a"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, "10.0.0.9"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}, "x"),
        ({"valueFrom": {"configMapKeyRef": {"name": "words", "key": "greeting"}}}, "hello"),
        ({"valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}}, "secret"),
        ({"valueFrom": {"secretKeyRef": {"name": "none", "key": "key", "optional": True}}}, None),
    ],
)
def test_variables(given: dict[str, Any], value: str | None) -> None:
    variables = planned({"env": [{"name": "V", **given}, {"name": "LATER", "value": "1"}]}).containers[0].environment
    assert variables.get("V") == value
    assert (variables["PATH"], variables["HOSTNAME"]) == ("/bin", "pod-1")


@pytest.mark.parametrize(
    ("pod", "container", "user"),
    [
        ({}, {}, (10001, 10001)),
        ({"runAsUser": 5}, {}, (5, 0)),
        ({"runAsUser": 5, "runAsGroup": 6}, {}, (5, 6)),
        ({"runAsUser": 5}, {"runAsUser": 0}, (0, 0)),
    ],
)
def test_as_whom_it_runs(pod: dict[str, Any], container: dict[str, Any], user: tuple[int, int]) -> None:
    (found,) = planned({"securityContext": container}, securityContext=pod).containers
    assert (found.uid, found.gid) == user


def test_rights_are_those_that_are_left() -> None:
    (found,) = planned({"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}}).containers
    assert (found.capabilities, found.no_new_privileges, found.read_only) == (frozenset({"SYS_PTRACE"}), False, False)
    assert "SETUID" in planned().containers[0].capabilities


def without_volume(spec: dict[str, Any]) -> None:
    spec["containers"][0]["volumeMounts"] = [{"name": "none", "mountPath": "/x"}]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda spec: spec.update(hostNetwork=True), "spec.hostNetwork"),
        (lambda spec: spec.update(initContainers=[{}]), "spec: initContainers"),
        (lambda spec: spec.update(nodeNames="a"), "spec: nodeNames"),
        (lambda spec: spec.pop("enableServiceLinks") or spec.update(enableServiceLinks=True), "enableServiceLinks"),
        (lambda spec: spec["containers"][0].update(lifecycle={}), "containers.main: lifecycle"),
        (lambda spec: spec["containers"][0].update(securityContext={"privileged": True}), "privileged"),
        (lambda spec: spec["containers"][0].update(livenessProbe={"exec": {}}), "livenessProbe: exec"),
        (lambda spec: spec["containers"][0].update(env=[{"name": "V", "valueFrom": {"x": {}}}]), "env.V.valueFrom: x"),
        (
            lambda spec: spec["containers"][0].update(
                env=[{"name": "V", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]
            ),
            "there is no key k in the Secret none",
        ),
        (lambda spec: spec.update(securityContext={"runAsNonRoot": True, "runAsUser": 0}), "runs as root"),
        (without_volume, "volumeMounts of no volume"),
    ],
)
def test_what_would_be_left_out_is_refused(spoil: Callable[[dict[str, Any]], None], why: str) -> None:
    spec = copy.deepcopy(SPEC)
    spoil(spec)
    with pytest.raises(UnsupportedFieldError, match=why):
        plan(spec, AROUND)


def test_quantities_and_expansion() -> None:
    assert [in_bytes(one) for one in ("64Mi", "1Gi", "1M", 5)] == [64 * 2**20, 2**30, 10**6, 5]
    assert expanded("$(A) $$(A) $(A-B.c)", {"A": "1", "A-B.c": "2"}) == "1 $(A) 2"


@pytest.mark.parametrize(
    ("answers", "changes"),
    [
        ([False, False], [False, False]),
        ([False, False, False], [False, False, True]),
        ([False, False, True, False, False], [False] * 5),
        ([False, False, False, True, True], [False, False, True, False, True]),
    ],
)
def test_a_probe_changes_its_mind_after_so_many_answers_in_turn(answers: list[bool], changes: list[bool]) -> None:
    asked = Asked(Probe("/", 1, {}, 0, 1, 1, failures=3, successes=2), state=True)
    assert [asked.take(answer) for answer in answers] == changes
