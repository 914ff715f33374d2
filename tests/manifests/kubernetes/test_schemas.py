"""Every object is what the schemas of the oldest and the newest Kubernetes say, strictly; custom ones what theirs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from . import schemas
from .rendering import Object, Variant, named
from .schemas import NEWEST, OLDEST, SINCE
from .variants import EVERY, SINGLE, installed, objects


def _newer(one: Object, version: str) -> bool:
    """Versions of one digit before the point and two after it: they compare as text."""
    return SINCE.get(one["kind"], OLDEST) > version


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("variant", EVERY, ids=str)
def test_what_is_rendered_is_what_the_schemas_say(variant: Variant, version: str) -> None:
    found = objects(variant)
    assert found
    checked = [one for one in found if not _newer(one, version)]
    assert [said for one in checked for said in schemas.objections(one, version)] == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_what_is_installed_is_what_the_schemas_say(version: str) -> None:
    assert [said for one in installed() for said in schemas.objections(one, version)] == []


@pytest.mark.parametrize("kind", SINCE)
def test_what_is_newer_than_the_oldest_is_in_a_component_alone(kind: str) -> None:
    """It is not there a version before, or the table would be out of date, and nothing but its component has it."""
    holding = {str(variant) for variant in SINGLE if any(one["kind"] == kind for one in objects(variant))}
    assert holding == {"base + components/creator-policy"}
    before = f"1.{int(SINCE[kind].removeprefix('1.')) - 1}"
    for one in objects(Variant("base", ("components/creator-policy",))):
        if one["kind"] == kind:
            assert schemas.objections(one, SINCE[kind]) == []
            assert schemas.objections(one, before) == [
                f"{kind} {one['metadata']['name']}: no schema is published for {one['apiVersion']}/{kind}"
            ]


def _set(*path: str | int, to: object) -> Callable[[Object], None]:
    def change(one: Object) -> None:
        part: Any = one
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


_CONTAINER: tuple[str | int, ...] = ("spec", "template", "spec", "containers", 0)
_ENDPOINT: tuple[str | int, ...] = ("spec", "podMetricsEndpoints", 0)


@pytest.mark.parametrize(
    ("kind", "name", "spoil"),
    [
        pytest.param("DaemonSet", "dutycycle-exporter", spoil, id=what)
        for what, spoil in {
            "an unknown key of a container": _set(*_CONTAINER, "imagePullPolcy", to="Always"),
            "an unknown key of a security context": _set(*_CONTAINER, "securityContext", "priviledged", to=False),
            "an unknown key of a pod": _set("spec", "template", "spec", "hostPid", to=True),
            "a number for a string": _set(*_CONTAINER, "env", 0, to={"name": "A", "value": 1}),
            "a string for a number": _set(*_CONTAINER, "ports", 0, "containerPort", to="9836"),
            "a version that there is not": _set("apiVersion", to="apps/v1beta1"),
            "a kind that there is not": _set("kind", to="DeamonSet"),
        }.items()
    ]
    + [
        pytest.param("PodMonitor", "dutycycle-exporter", spoil, id=what)
        for what, spoil in {
            "an unknown key of a monitor": _set("spec", "honorLabels", to=True),
            "an unknown key of an endpoint": _set(*_ENDPOINT, "honourLabels", to=True),
            "a duration that is none": _set(*_ENDPOINT, "interval", to="15 seconds"),
            "an action that is none": _set(*_ENDPOINT, "relabelings", to=[{"action": "rename"}]),
            "a monitor of a version that there is not": _set("apiVersion", to="monitoring.coreos.com/v2"),
        }.items()
    ]
    + [
        pytest.param("PrometheusRule", "dutycycle-recording", spoil, id=what)
        for what, spoil in {
            "an unknown key of a rule": _set("spec", "groups", 0, "rules", 0, "labls", to={}),
            "a rule without an expression": _set("spec", "groups", 0, "rules", 0, to={"record": "a:b"}),
            "an unknown key of a group": _set("spec", "groups", 0, "every", to="1m"),
        }.items()
    ],
)
def test_what_is_not_as_the_schemas_say_is_refused(kind: str, name: str, spoil: Callable[[Object], None]) -> None:
    """The schemas would not be much of a test if they took everything."""
    one = copy.deepcopy(named(objects(Variant("overlays/prometheus-operator")), kind, name))
    assert schemas.objections(one, OLDEST) == []
    spoil(one)
    assert schemas.objections(one, OLDEST)
    assert schemas.objections(one, NEWEST)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_set("allowHostPid", to=True), id="an unknown key"),
        pytest.param(_set("volumes", to="hostPath"), id="a string for a list"),
        pytest.param(lambda one: one.pop("allowPrivilegedContainer"), id="a key that is missing"),
    ],
)
def test_security_context_constraints_are_refused(spoil: Callable[[Object], object]) -> None:
    one = named(objects(Variant("overlays/openshift")), "SecurityContextConstraints", "dutycycle-exporter")
    assert schemas.objections(one, NEWEST) == []
    spoil(one)
    assert schemas.objections(one, NEWEST)
