"""The manifests are applied with a real kubectl: everything is created, a second time nothing changes, and all goes.

The API server is the tests' own: it checks what comes against the published schemas and keeps it, and nothing more.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes.controllers import end_namespaces
from tests.fakes.kubernetes.kubectl import NEWEST, OLDEST, Done, Kubectl, serving
from tests.manifests.kubernetes.rendering import INSTALL, MANIFESTS, Variant, build, kustomizations
from tests.required import lacking

SCHEMAS = Path(sys.prefix) / "crd-schemas.json"
CUSTOM = {
    "monitoring.coreos.com/v1/PodMonitor": "podmonitors",
    "monitoring.coreos.com/v1/PrometheusRule": "prometheusrules",
    "monitoring.coreos.com/v1/ServiceMonitor": "servicemonitors",
    "security.openshift.io/v1/SecurityContextConstraints": "securitycontextconstraints",
}
"""The kinds that operators bring, and the names of their resources."""
CLUSTER_WIDE = ("SecurityContextConstraints",)
OVERLAYS = [one for one in kustomizations() if one.startswith("overlays/")]
ALWAYS_PATCHED = "PodDisruptionBudget"
"""Its selector is replaced and not merged: kubectl sends it each time, and says `configured` of what stays the same."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def serving_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubernetesServer, Path]]:
    with serving(tmp_path_factory.mktemp("api"), namespaces=("default", "kube-system", "monitoring")) as both:
        yield both


@pytest.fixture
def server(serving_api: tuple[KubernetesServer, Path]) -> KubernetesServer:
    """Without the kinds of any operator."""
    serving_api[0].reset()
    return serving_api[0]


@pytest.fixture(params=[NEWEST, OLDEST], ids=lambda program: program.name)
def kubectl(
    server: KubernetesServer,
    serving_api: tuple[KubernetesServer, Path],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Kubectl:
    return Kubectl(server, tmp_path, serving_api[1], request.param)


@pytest.fixture
def operators(server: KubernetesServer) -> Iterator[None]:
    """With the kinds of the operators, as their definitions describe them."""
    if not SCHEMAS.exists():
        lacking(f"{SCHEMAS.name} (`make test` fetches it)")
    published = json.loads(SCHEMAS.read_text())["$defs"]
    for name, plural in CUSTOM.items():
        group, version, kind = name.split("/")
        namespaced = kind not in CLUSTER_WIDE
        server.install(group, version, kind, plural, namespaced=namespaced, status=False, schema=published[name])
    yield
    for name in CUSTOM:
        server.uninstall(name.rpartition("/")[2])


def called(one: dict[str, Any]) -> str:
    """As kubectl calls an object."""
    group = one["apiVersion"].rpartition("/")[0]
    return f"{one['kind'].lower()}{'.' if group else ''}{group}/{one['metadata']['name']}"


def kept(server: KubernetesServer, wanted: dict[str, Any]) -> dict[str, Any]:
    group = wanted["apiVersion"].rpartition("/")[0]
    kind = f"{wanted['kind']}.{group}" if group else wanted["kind"]
    return server.get(kind, wanted["metadata"].get("namespace", ""), wanted["metadata"]["name"])


def holds(live: Any, wanted: Any) -> bool:
    """Whether all that a manifest says is there; a server adds to it."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(holds(live.get(name), inner) for name, inner in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(holds(one, other) for one, other in zip(live, wanted, strict=True))
    return bool(live == wanted)


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


def test_install_yaml(kubectl: Kubectl) -> None:
    is_applied_twice(kubectl, list(yaml.safe_load_all(INSTALL.read_text())), "-f", INSTALL)


def test_server_side(kubectl: Kubectl) -> None:
    """Also over what was applied by kubectl itself: its fields are taken over, and the second time nothing changes."""
    objects = list(yaml.safe_load_all(INSTALL.read_text()))
    kubectl.well("apply", "-f", INSTALL)
    for _ in range(2):
        revision = kubectl.server.revision
        done = kubectl.well("apply", "--server-side", "-f", INSTALL)
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
        ("mig", "mountPath: /host/proc", "mountPat: /host/proc", 'volumeMounts[1].mountPat"'),
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


def test_what_differs_is_shown(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.well("apply", "-f", INSTALL)
    assert kubectl.well("diff", "-f", INSTALL).out == ""
    changed = tmp_path / "changed.yaml"
    changed.write_text(INSTALL.read_text().replace("replicas: 1", "replicas: 2"))
    done = kubectl("diff", "-f", changed)
    assert done.code == 1
    assert "-  replicas: 1\n+  replicas: 2\n" in done.out
    assert kubectl.server.get("Deployment", "dutycycle", "dutycycle-alerter")["spec"]["replicas"] == 1


def test_a_dry_run_at_the_server_checks_and_keeps_nothing(kubectl: Kubectl) -> None:
    kubectl.well("apply", "-f", INSTALL)
    revision = kubectl.server.revision
    done = kubectl.well("apply", "--dry-run=server", "-f", INSTALL)
    assert all(line.endswith("unchanged (server dry run)") for line in done.lines)
    spoiled = INSTALL.read_text().replace("image: dutycycle-alerter:", "image: elsewhere/dutycycle-alerter:")
    done = piped(kubectl, spoiled, "--dry-run=server")
    assert [line for line in done.lines if "unchanged" not in line] == [
        "deployment.apps/dutycycle-alerter configured (server dry run)"
    ]
    assert kubectl.server.revision == revision


def piped(kubectl: Kubectl, text: str, *more: str) -> Done:
    path = kubectl.home / "changed.yaml"
    path.write_text(text)
    return kubectl.well("apply", "-f", path, *more)


@pytest.mark.parametrize(
    ("before", "after", "what", "where", "change"),
    [
        (
            "image: dutycycle-exporter:",
            "image: registry.example/dutycycle-exporter:",
            "daemonset.apps/dutycycle-exporter",
            "daemonsets/dutycycle-exporter",
            "image",
        ),
        (
            "replicas: 1",
            "replicas: 0",
            "deployment.apps/dutycycle-alerter",
            "deployments/dutycycle-alerter",
            "replicas",
        ),
    ],
)
def test_a_change_is_one_patch(kubectl: Kubectl, before: str, after: str, what: str, where: str, change: str) -> None:
    """Of the object that is changed, and of what is changed in it."""
    kubectl.well("apply", "-f", INSTALL)
    text = INSTALL.read_text()
    assert text.count(before) == 1
    old = {called(one): kept(kubectl.server, one) for one in yaml.safe_load_all(text)}
    done = piped(kubectl, text.replace(before, after))
    assert [line for line in done.lines if not line.endswith(" unchanged")] == [f"{what} configured"]
    (write,) = done.writes
    assert (write.method, write.path.endswith(where)) == ("PATCH", True)
    now = {called(one): kept(kubectl.server, one) for one in yaml.safe_load_all(text)}
    assert [name for name in now if now[name] != old[name]] == [what]
    assert now[what]["metadata"]["generation"] == old[what]["metadata"]["generation"] + 1
    assert differing(old[what]["spec"], now[what]["spec"]) == {change}


def differing(one: Any, other: Any, name: str = "") -> set[str]:
    """The names of the innermost fields that are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {found for key in {*one, *other} for found in differing(one.get(key), other.get(key), key)}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {found for a, b in zip(one, other, strict=True) for found in differing(a, b, name)}
    return set() if one == other else {name}


def test_a_changed_configuration_is_a_new_config_map_and_a_new_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    """Its name is a digest of what is in it, so that the deployment changes with it."""
    kubectl.well("apply", "-f", INSTALL)
    site = tmp_path / "site"
    site.mkdir()
    (site / "config.yaml").write_text((MANIFESTS / "base/alerter/config.yaml").read_text() + "# changed\n")
    # Kustomize takes no absolute paths.
    (site / "kustomization.yaml").write_text(json.dumps(SITE | {"resources": [relative(MANIFESTS / "base", site)]}))
    done = kubectl.well("apply", "-k", site)
    changed = [line for line in done.lines if not line.endswith(" unchanged")]
    assert [line.partition(" ")[2] for line in changed] == ["created", "configured"]
    (created,) = (line.partition(" ")[0].rpartition("/")[2] for line in changed if line.endswith("created"))
    volumes = kubectl.server.get("Deployment", "dutycycle", "dutycycle-alerter")["spec"]["template"]["spec"]["volumes"]
    assert created in [one["configMap"]["name"] for one in volumes if "configMap" in one]
    assert [one.method for one in done.writes] == ["POST", "PATCH"]


SITE = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "namespace": "dutycycle",
    "configMapGenerator": [{"name": "dutycycle-alerter", "behavior": "replace", "files": ["config.yaml"]}],
}


def relative(path: Path, directory: Path) -> str:
    return "/".join([".."] * len(directory.resolve().parts[1:]) + list(path.resolve().parts[1:]))


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
