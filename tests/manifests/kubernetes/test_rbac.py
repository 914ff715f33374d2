"""The rights that the manifests give are those that the programs use, recorded at the tests' API server.

None is missing, and none is too many.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.kubernetes.model import Owner
from dutycycle_exporter.attribution.kubernetes import ApiServer, KubernetesPods, Pace
from dutycycle_exporter.model import GpuReading
from tests.alerter.kubernetes.test_owners import CHAINS
from tests.alerter.kubernetes.watched import believe_at_once, kubeconfig, until, watched
from tests.exporter.attribution.kubernetes.usual import SELECTION
from tests.fakes import kubelet as kubelets
from tests.fakes.kubernetes import KubernetesServer, Rule, builders
from tests.manifests.kubernetes.access import NOBODY_KNOWS, Account, Right, account, install_owners
from tests.manifests.kubernetes.rendering import INSTALL, Variant, build, kustomizations, parsed

ALERTER, EXPORTER = "dutycycle-alerter", "dutycycle-exporter"
NODE, UUID = "gpu-node-a", "GPU-00000000-aaaa-4000-8000-000000000000"
ADMISSION = {("use", "security.openshift.io", "securitycontextconstraints")}
"""Rights that are not for requests: OpenShift looks at them when it lets a pod in."""


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    """With every kind of every chain."""
    with KubernetesServer() as found:
        install_owners(found)
        yield found


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kinds may not be read. The alerter waits for a minute before it believes that."""
    believe_at_once(monkeypatch)


def fill(server: KubernetesServer) -> dict[str, tuple[str, ...]]:
    """A pod below each chain; the chains of their pods' uids. Nodes too."""
    for number, chain in enumerate(CHAINS.values()):
        owner: tuple[dict[str, Any], ...] = ()
        for level, kind in reversed(list(enumerate(chain))):
            version, _, name = kind.rstrip("*").partition(" ")
            made = builders.workload(name, f"{name.lower()}-{number}-{level}", api_version=version, owners=owner)
            if name == "Pod":
                # Above others it is a driver or a leader, which holds no GPU here.
                made = builders.pod(f"pod-{number}-{level}", gpus=0, owners=owner)
            elif name == "ClusterPolicy":
                del made["metadata"]["namespace"]
            owner = (builders.owner(server.put(made)),)
        server.put(builders.pod(f"worker-{number}", uid=f"worker-{number}", owners=owner))
    server.put(builders.node(NODE))
    return {f"worker-{number}": chain for number, chain in enumerate(CHAINS.values())}


def seen(server: KubernetesServer, directory: Path, token: str, *, nodes: bool) -> tuple[dict[str, Owner], str]:
    """The jobs of the pods, as the alerter finds them with that token, and what it says that it may not."""
    config = kubeconfig(directory, server.url, {"token": token})
    with watched(directory, server, kubeconfig=config, nodes=nodes) as cluster:
        assert cluster.wait_synced(30)
        until(lambda: len(cluster.snapshot().owners) == len(CHAINS))
        if nodes:
            until(lambda: cluster.snapshot().nodes)
        # A list ends before its watch begins.
        until(lambda: server.watching == 1 + nodes)
        snapshot = cluster.snapshot()
        assert snapshot.error == ""
        return dict(snapshot.owners), snapshot.note


@pytest.mark.usefixtures("believing")
@pytest.mark.parametrize("nodes", [True, False])
def test_the_alerter_may_do_what_it_does_and_nothing_else(
    server: KubernetesServer, tmp_path: Path, nodes: bool
) -> None:
    """For every owner that the documentation names; rights on nodes are for `nodes: true` alone."""
    alerter = account(parsed(INSTALL.read_text()), ALERTER)
    chains = fill(server)
    server.requests.clear()
    owners, note = seen(server, tmp_path, alerter.join(server), nodes=nodes)
    assert note.startswith("may not read sweeps.example.com: "), "which is anybody's"
    asked = {right for right in alerter.asked(server.requests) if right[1] not in NOBODY_KNOWS}
    of_nodes = {right for right in alerter.rights if right[2] == "nodes"}
    assert of_nodes
    assert {*differing(alerter, asked)} == (set() if nodes else {("unused", right) for right in of_nodes})
    for uid, chain in chains.items():
        if not any(kind.startswith(NOBODY_KNOWS) for kind in chain):
            job = next(kind for kind in chain if kind.endswith("*")).rstrip("*")
            assert f"{owners[uid].group} {owners[uid].kind}" == job_of(job), uid


def job_of(kind: str) -> str:
    version, _, name = kind.partition(" ")
    return f"{version.rpartition('/')[0]} {name}"


def differing(who: Account, asked: set[Right]) -> Iterator[tuple[str, Right]]:
    """Rights that were missing, and rights that nobody used."""
    yield from (("missing", right) for right in asked - who.rights)
    yield from (("unused", right) for right in who.rights - asked)


@pytest.mark.usefixtures("believing")
def test_a_right_that_is_missing_makes_another_object_the_job(server: KubernetesServer, tmp_path: Path) -> None:
    """And one that is too many is seen too: this is what the tests here would say."""
    alerter = account(parsed(INSTALL.read_text()), ALERTER)
    rules = [
        replace(rule, resources=tuple(one for one in rule.resources if one != "replicasets")) for rule in alerter.rules
    ]
    spoiled = replace(alerter, rules=(*rules, Rule(("list",), ("secrets",), ("",))))
    chains = fill(server)
    server.requests.clear()
    owners, note = seen(server, tmp_path, spoiled.join(server), nodes=True)
    assert note.startswith("may not read replicasets.apps, sweeps.example.com: ")
    asked = {right for right in spoiled.asked(server.requests) if right[1] not in NOBODY_KNOWS}
    above = [("argoproj.io", "rollouts"), ("serving.kserve.io", "inferenceservices")]
    above += [("serving.knative.dev", name) for name in ("revisions", "configurations", "services")]
    assert set(differing(spoiled, asked)) == {
        ("missing", ("get", "apps", "replicasets")),
        ("unused", ("list", "", "secrets")),
        *(("unused", ("get", group, name)) for group, name in above),
    }
    deployed = next(uid for uid, chain in chains.items() if chain[-1] == "apps/v1 Deployment*" and len(chain) == 2)
    assert owners[deployed].kind == "ReplicaSet"


def test_the_rights_are_the_same_in_every_overlay() -> None:
    base = account(parsed(INSTALL.read_text()), ALERTER).rights
    for overlay in kustomizations():
        if overlay.startswith("overlays/"):
            objects = build(Variant(overlay)).objects()
            assert account(objects, ALERTER).rights == base, overlay
            assert account(objects, EXPORTER).rights <= ADMISSION, overlay


@pytest.mark.parametrize(
    ("components", "claims"),
    [(("components/pod-names",), False), (("components/pod-names", "components/dra"), True)],
    ids=["pods", "claims"],
)
def test_the_exporter_may_do_what_it_does_and_nothing_else(
    server: KubernetesServer, tmp_path: Path, components: tuple[str, ...], claims: bool
) -> None:
    exporter = account(build(Variant("base", components)).objects(), EXPORTER)
    server.requests.clear()
    assert named(server, tmp_path, exporter.join(server), claims=claims) == ["k8s/ml/train/u-train"]
    assert set(differing(exporter, exporter.asked(server.requests))) == set()


def test_without_the_components_the_exporter_has_no_rights_and_no_token() -> None:
    objects = parsed(INSTALL.read_text())
    assert account(objects, EXPORTER).rights == set()
    (daemons,) = (one for one in objects if one["kind"] == "DaemonSet")
    assert daemons["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def named(server: KubernetesServer, directory: Path, token: str, *, claims: bool) -> list[str]:
    """The workloads on the node's one GPU, as the exporter names them by the kubelet and the API server."""
    device = {"name": "gpu-7", "attributes": {"uuid": {"string": UUID}}}
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    server.put(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "slice"},
            "spec": {"nodeName": NODE, "driver": "gpu.nvidia.com", "pool": pool, "devices": [device]},
        }
    )
    server.put(builders.pod("train", uid="u-train", node=NODE))
    file = directory / "token"
    file.write_text(token)
    held = (
        kubelets.pod("train", "ml", claims=[kubelets.claim("gpu-7", pool=NODE)])
        if claims
        else kubelets.pod("train", "ml", {"nvidia.com/gpu": [UUID]})
    )
    pace = Pace(interval=0.05, timeout=5, api_timeout=5, refresh=0.2, patience=30, stale=600)
    # Sockets have short names.
    with tempfile.TemporaryDirectory(prefix="dc-") as short:
        path = Path(short) / "kubelet.sock"
        with kubelets.FakeKubelet(path, held):
            api = ApiServer(server.url, file)
            pods = KubernetesPods(node=NODE, socket=path, selection=SELECTION, api=api, pace=pace)
            pods.start()
            try:
                return eventually(lambda: _with_uids(pods))
            finally:
                pods.stop()


def _with_uids(pods: KubernetesPods) -> list[str]:
    """Once the API server has told them: the kubelet knows none."""
    found = pods.allocations((GpuReading(UUID, 0, "H200", minor=0),), {})
    return [one.workload.id for one in found if one.workload.id.count("/") == 3]


def eventually(found: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + 30
    while not (names := found()):
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)
    return names
