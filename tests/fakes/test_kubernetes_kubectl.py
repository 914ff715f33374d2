"""A real kubectl finds in the tests' API server what it finds in a real one: it asks the same, and is answered so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes.kubectl import NEWEST, OLDEST, Kubectl, serving
from tests.fakes.kubernetes.recorded import DIRECTORY
from tests.required import lacking

STEPS = {
    "1-apply-create-cold": ("apply", "dep.yaml"),
    "2-apply-unchanged": ("apply", "dep.yaml"),
    "3-apply-changed": ("apply", "dep2.yaml"),
    "4-apply-unknown-field": ("apply", "depbad.yaml"),
    "5-apply-server-side": (
        *("apply", "dep2.yaml", "--server-side", "--force-conflicts", "--field-manager=dutycycle"),
    ),
    "6-apply-dry-run-server": ("apply", "dep2.yaml", "--dry-run=server"),
    "10-delete": ("delete", "dep.yaml"),
    "11-apply-validate-false": ("apply", "dep.yaml", "--validate=false"),
    "12-delete-nowait": ("delete", "dep.yaml", "--wait=false"),
}
"""What was recorded, in turn: the verb, the file, and further arguments."""


@pytest.fixture(scope="module")
def serving_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubernetesServer, Path]]:
    with serving(tmp_path_factory.mktemp("api")) as both:
        yield both


@pytest.fixture(params=[NEWEST, OLDEST], ids=lambda program: program.name)
def kubectl(serving_api: tuple[KubernetesServer, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    server, authority = serving_api
    server.reset()
    return Kubectl(server, tmp_path, authority, request.param)


def as_json(text: str) -> str:
    """Old kubectls take what begins with a brace for JSON."""
    return json.dumps(yaml.safe_load(text))


def told(text: str) -> str:
    """Digests and time-outs are each server's and client's own."""
    return re.sub(r"hash=[0-9A-F.]+", "hash=", text).replace("&timeout=32s", "").replace("?timeout=32s", "")


def test_it_asks_what_it_asked_of_a_real_server(kubectl: Kubectl) -> None:
    recordings = DIRECTORY / "08-kubectl"
    if not recordings.exists():
        lacking("the recorded calls of kubectl beside the repository (../shared/data)")
    for name, (verb, file, *more) in STEPS.items():
        recorded = json.loads((recordings / f"{name}.json").read_text())
        done = kubectl(verb, "-n", "ml", "-f", recordings / file, *more)
        theirs = [(one["method"], told(one["path"])) for one in recorded["sequence"]]
        assert [(one.method, told(one.target)) for one in done.requests if "openapi" not in one.path] == [
            one for one in theirs if "openapi" not in one[1]
        ], name
        # From the third on the documents come out of kubectl's own cache, whose age is the machine's.
        assert {told(one.target) for one in done.requests if "openapi" in one.path} <= {
            path for _, path in theirs if "openapi" in path
        }, name
        if name != "10-delete":  # which newer ones say more words of
            said = recorded["exit_stdout"].replace("(cut)", "")
            assert done.out.replace(" from ml namespace", "") == said, name
        assert (done.code == 0) == (name != "4-apply-unknown-field"), f"{name}: {done.err}"
        if done.code:
            assert done.err.startswith(recorded["stderr_tail"][0].removesuffix("...(cut)")), name


def test_what_a_typo_in_a_manifest_is_answered(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    for content, why in BROKEN.items():
        manifest.write_text(as_json(content))
        done = kubectl("apply", "-f", manifest)
        assert done.code == 1, content
        assert why in done.err, content
        assert not [one for one in kubectl.server.objects("Service") if one["metadata"]["name"] == "s"]


SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: %s}"
DAEMONS = (
    "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: "
    "{metadata: {labels: {a: b}}, spec: {containers: [%s]}}}}"
)
BROKEN = {
    SERVICE % "{prots: [{port: 80}]}": 'strict decoding error: unknown field "spec.prots"',
    SERVICE % "{ports: [{port: 80, name: a, targetport: 1}]}": 'unknown field "spec.ports[0].targetport"',
    SERVICE % "{ports: [{port: http}]}": (
        "cannot be handled as a Service: json: cannot unmarshal string into Go struct field "
        "ServicePort.spec.ports.port of type int32"
    ),
    SERVICE % "{ports: [{name: http}]}": 'The Service "s" is invalid: spec.ports[0].port: Required value',
    SERVICE % "{type: Cluster, ports: [{port: 80}]}": (
        'spec.type: Unsupported value: "Cluster": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
        '"NodePort"'
    ),
    DAEMONS % "{name: c, image: i, imagePullPolicy: Alway}": (
        'spec.template.spec.containers[0].imagePullPolicy: Unsupported value: "Alway"'
    ),
    DAEMONS % "{name: c, image: i, volumeMounts: [{name: proc, mountPath: /host/proc}]}": (
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "proc"'
    ),
    DAEMONS
    % "{name: c, image: i, resources: {limits: {memory: lots}}}": "quantities must match the regular expression",
    DAEMONS % "{name: c, image: i, env: [{value: x}]}": "spec.template.spec.containers[0].env[0].name: Required value",
    "{apiVersion: v1, kind: Servic, metadata: {name: s}}": 'no matches for kind "Servic" in version "v1"',
    "{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {name: m}, spec: {}}": (
        'no matches for kind "PodMonitor" in version "monitoring.coreos.com/v1"\nensure CRDs are installed first'
    ),
}
"""Manifests by what kubectl says of them in the end."""


def test_amounts_are_kept_in_one_form(kubectl: Kubectl, tmp_path: Path) -> None:
    """So a manifest that writes them in another one is never what is there; kubectl says nothing of it."""
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(as_json(DAEMONS % "{name: c, image: i, resources: {limits: {cpu: 0.5, memory: 1024Mi}}}"))
    kubectl.well("apply", "-f", manifest)
    (container,) = kubectl.server.get("DaemonSet", "default", "d")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert [one.method for one in kubectl.well("apply", "-f", manifest).writes] == ["PATCH"]
