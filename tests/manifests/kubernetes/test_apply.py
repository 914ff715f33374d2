"""The manifests are applied with a real kubectl: everything is created, a second time nothing changes, and all goes.

The API server is the tests' own: it checks what comes against the published schemas and keeps it, and nothing more.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes.controllers import end_namespaces
from tests.fakes.kubernetes.kubectl import NEWEST, Kubectl
from tests.manifests.kubernetes.applied import called, holds, kept
from tests.manifests.kubernetes.rendering import INSTALL, MANIFESTS, Variant, build, kustomizations
from tests.manifests.kubernetes.variants import COMPONENTS, SITES

OVERLAYS = [one for one in kustomizations() if one.startswith(("overlays/", "engines/"))]
ALWAYS_PATCHED = "PodDisruptionBudget"
"""Its selector is replaced and not merged: kubectl sends it each time, and says `configured` of what stays the same."""
PATIENCE = 60.0


def is_applied_twice(kubectl: Kubectl, objects: list[dict[str, Any]], *how: str | Path) -> None:
    server = kubectl.server
    first = kubectl.well("apply", *how)
    assert first.lines == sorted(f"{called(one)} created" for one in objects)
    assert first.err == ""
    for one in objects:
        assert holds(kept(server, one), one), f"{called(one)} is not what the manifest says"
    revision = server.revision
    second = kubectl.well("apply", *how)
    odd = [one for one in objects if one["kind"] == ALWAYS_PATCHED]
    told = [f"{called(one)} {'configured' if one in odd else 'unchanged'}" for one in objects]
    assert second.lines == sorted(told)
    assert [one.path.rpartition("/")[2] for one in second.writes] == [one["metadata"]["name"] for one in odd]
    assert server.revision == revision, "and what was sent for nothing has changed nothing"
    if odd:
        assert kubectl.well("diff", *how).out == ""


def test_install_yaml(kubectl: Kubectl) -> None:
    is_applied_twice(kubectl, list(yaml.safe_load_all(INSTALL.read_text())), "-f", INSTALL)


@pytest.mark.parametrize("kubectl", [NEWEST], indirect=True, ids=["kubectl"])
@pytest.mark.parametrize("site", [*OVERLAYS, *SITES])
@pytest.mark.usefixtures("operators")
def test_server_side(kubectl: Kubectl, tmp_path: Path, site: str) -> None:
    """Server-side apply takes over the fields of kubectl's own apply without a conflict, and changes nothing twice.

    The server's defaults conflict where they lie in an atomic field, which only the manifest can prevent.
    """
    variant = build(SITES.get(site) or Variant(site))
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(variant.text)
    objects = variant.objects()
    kubectl.well("apply", "-f", rendered)
    for _ in range(2):
        revision = kubectl.server.revision
        done = kubectl.well("apply", "--server-side", "-f", rendered)
        assert done.lines == sorted(f"{called(one)} serverside-applied" for one in objects)
        assert done.err == ""
    assert kubectl.server.revision == revision
    for one in objects:
        live = kept(kubectl.server, one)
        assert holds(live, one)
        owners = {(mine["manager"], mine["operation"]) for mine in live["metadata"]["managedFields"]}
        assert owners == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.usefixtures("operators")
def test_overlays(kubectl: Kubectl, overlay: str) -> None:
    is_applied_twice(kubectl, build(Variant(overlay)).objects(), "-k", MANIFESTS / overlay)


def test_every_overlay_of_the_issue_is_here() -> None:
    wanted = {"prometheus-operator", "annotations", "ha-postgres", "openshift", "mig"}
    assert wanted <= {one.partition("/")[2] for one in OVERLAYS}


@pytest.mark.parametrize("kubectl", [NEWEST], indirect=True, ids=["kubectl"])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.usefixtures("operators")
def test_components_on_an_overlay(kubectl: Kubectl, tmp_path: Path, site: str) -> None:
    """What is rendered: it is the same by every kubectl (test_builds)."""
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(build(SITES[site]).text)
    is_applied_twice(kubectl, build(SITES[site]).objects(), "-f", rendered)


def test_every_component_is_on_one() -> None:
    """An overlay or engine brings those of its own."""
    brought = {
        f"components/{path.name}"
        for one in OVERLAYS
        for given in (yaml.safe_load((MANIFESTS / one / "kustomization.yaml").read_text())["components"],)
        for path in map(Path, given)
    }
    assert {name for one in SITES.values() for name in one.components} | brought == set(COMPONENTS)


@pytest.mark.parametrize(
    ("overlay", "kinds"),
    [
        ("prometheus-operator", ["PodMonitor", "PrometheusRule"]),
        ("openshift", ["SecurityContextConstraints"]),
    ],
)
def test_an_overlay_for_an_operator_that_is_not_there(kubectl: Kubectl, overlay: str, kinds: list[str]) -> None:
    """Fails, names the kinds, and says what to do; kubectl takes no object of it before it knows all kinds."""
    done = kubectl("apply", "-k", MANIFESTS / "overlays" / overlay)
    assert done.code == 1
    for kind in kinds:
        assert f'no matches for kind "{kind}" in version' in done.err
    assert "ensure CRDs are installed first" in done.err


@pytest.mark.parametrize(
    ("overlay", "before", "after", "why"),
    [
        ("mig", "readOnlyRootFilesystem:", "readonlyRootFilesystem:", 'securityContext.readonlyRootFilesystem"'),
        ("mig", "containerPort: 9836", 'containerPort: "9836"', "cannot unmarshal string into Go struct field"),
        ("mig", "type: RuntimeDefault", "type: runtimeDefault", 'Unsupported value: "runtimeDefault"'),
        ("mig", "mountPath: /host/proc", "mountPat: /host/proc", 'volumeMounts[2].mountPat"'),
        ("prometheus-operator", "honorLabels:", "honourLabels:", 'podMetricsEndpoints[0].honourLabels"'),
        (
            "prometheus-operator",
            "podMetricsEndpoints:",
            "podMetricEndpoints:",
            'unknown field "spec.podMetricEndpoints"',
        ),
        ("openshift", "allowHostDirVolumePlugin: true", "allowHostDirVolumePlugin: yes please", "of type boolean"),
    ],
)
@pytest.mark.usefixtures("operators")
def test_a_typo_is_refused(kubectl: Kubectl, tmp_path: Path, overlay: str, before: str, after: str, why: str) -> None:
    text = build(Variant(f"overlays/{overlay}")).text
    assert before in text
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace(before, after))
    done = kubectl("apply", "-f", changed)
    assert done.code == 1
    assert why in done.err


def test_delete_leaves_nothing(kubectl: Kubectl) -> None:
    """The namespace goes when its controller has ended what is in it, here once all was asked for; kubectl waits."""
    before = everything(kubectl.server)
    kubectl.well("apply", "-f", INSTALL)
    assert everything(kubectl.server) != before
    count = len(list(yaml.safe_load_all(INSTALL.read_text())))
    running = kubectl.start("delete", "-f", INSTALL)
    deadline = time.monotonic() + PATIENCE
    while running.poll() is None and time.monotonic() < deadline:
        if sum(one.method == "DELETE" for one in list(kubectl.server.requests)) == count:
            end_namespaces(kubectl.server)
        time.sleep(0.02)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, err) == (0, "")
    assert len(out.splitlines()) == count
    assert everything(kubectl.server) == before


def everything(server: KubernetesServer) -> set[tuple[str, str, str]]:
    return {
        (kind.qualified_kind, one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for kind in server.registry
        for one in server.objects(kind.qualified)
    }
