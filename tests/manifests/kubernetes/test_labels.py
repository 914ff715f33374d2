"""Who is who: the labels by which selectors, monitors and people find everything, and the version that it is of."""

from __future__ import annotations

import pytest

from dutycycle_alerter import __version__

from .checks.cluster import Cluster, namespace, title
from .rendering import Object, Variant, named
from .variants import WITH_PODS, objects

PREFIX = "app.kubernetes.io/"
OURS = "dutycycle"


def _of(one: Object, which: str) -> str | None:
    found: str | None = (one["metadata"].get("labels") or {}).get(PREFIX + which)
    return found


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_everything_of_ours_can_be_found(variant: Variant) -> None:
    """`kubectl get -l app.kubernetes.io/part-of=dutycycle` shows it all. Others' namespaces have rules of their own."""
    ours = [one for one in objects(variant) if namespace(one) in ("", OURS)]
    assert [title(one) for one in ours if _of(one, "part-of") != OURS] == []
    unnamed = [title(one) for one in ours if not (_of(one, "name") and _of(one, "component"))]
    assert unnamed == [f"Namespace {OURS}"]
    pods = Cluster(tuple(objects(variant))).pods
    assert {pod.labels[PREFIX + "part-of"] for pod in pods} == {OURS}
    for pod in pods:
        assert (
            pod.labels[PREFIX + "name"] == f"{OURS}-{pod.labels[PREFIX + 'component']}" == pod.owner["metadata"]["name"]
        )


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_selectors_have_what_never_changes_alone(variant: Variant) -> None:
    """A workload's selector cannot be changed: with a version in it, an upgrade would be refused."""
    found = objects(variant)
    for kind in ("DaemonSet", "Deployment"):
        for one in (one for one in found if one["kind"] == kind):
            assert one["spec"]["selector"] == {"matchLabels": {PREFIX + "name": one["metadata"]["name"]}}
    for one in (one for one in found if one["kind"] == "Service"):
        assert one["spec"]["selector"] == {PREFIX + "name": one["metadata"]["name"]}
    for one in (one for one in found if one["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor")):
        selector = one["spec"].get("podSelector") or one["spec"].get("selector")
        assert selector == {"matchLabels": {PREFIX + "name": one["metadata"]["name"]}}


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_pods_are_of_this_version(variant: Variant) -> None:
    for pod in Cluster(tuple(objects(variant))).pods:
        assert pod.labels[PREFIX + "version"] == __version__
        for _, container in pod.containers():
            assert container["image"].endswith(f":{__version__}")


def test_what_is_installed_is_of_this_version() -> None:
    assert {_of(one, "version") for one in objects(Variant("base"))} == {__version__}


def test_a_change_of_the_configuration_makes_new_pods() -> None:
    """By its name, which is of its content: a Deployment whose ConfigMap changes in place goes on with the old one."""
    names = set()
    for variant in (Variant("base"), Variant("overlays/prometheus-operator"), Variant("overlays/annotations")):
        found = objects(variant)
        (held,) = (one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap" and namespace(one) == OURS)
        names.add(held)
        volumes = named(found, "Deployment", "dutycycle-alerter")["spec"]["template"]["spec"]["volumes"]
        assert [one["configMap"]["name"] for one in volumes if "configMap" in one] == [held]
    assert len(names) == 3
