"""A cluster as a whole: pods, their owners and nodes in one snapshot, from start to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.kubernetes import cluster as clusters
from dutycycle_alerter.kubernetes import fetching, lookups
from dutycycle_alerter.kubernetes.model import Node, Owner
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.kubernetes.watched import IMPATIENT, agrees, believe_at_once, kubeconfig, table, until, watched
from tests.fakes.kubernetes import KubernetesServer, Rule, builders

READ_PODS = Rule(("get", "list", "watch"), ("pods",), ("",))


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        yield found


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals are believed as soon as they repeat."""
    believe_at_once(monkeypatch)


def job(server: KubernetesServer, name: str = "train", pods: int = 2, **fields: object) -> None:
    made = server.put(builders.workload("Job", name, uid=f"{name}-uid", **fields))  # type: ignore[arg-type]
    for number in range(pods):
        server.put(builders.pod(f"{name}-{number}", uid=f"{name}-{number}", owners=(builders.owner(made),)))


def test_pods_owners_and_nodes(server: KubernetesServer, tmp_path: Path) -> None:
    job(server, annotations={"dutycycle.io/user": "ada"})
    server.put(builders.pod("bare", uid="bare"))
    server.put(builders.pod("web", gpus=0))
    node = builders.node("gpu-node-a")
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    server.put(node)
    with watched(tmp_path, server, nodes=True) as cluster:
        assert cluster.wait_synced(30)
        until(lambda: cluster.snapshot().nodes is not None and not cluster.snapshot().note)
        snapshot = cluster.snapshot()
        assert snapshot.owners["train-0"] == snapshot.owners["train-1"]
        created = snapshot.pods["train-0"].created
        assert created is not None
        train = Owner(
            *("ml", "Job", "train", "train-uid", "batch", created),
            annotations={"dutycycle.io/user": "ada"},
            chain=("Job",),
        )
        assert snapshot.owners["train-0"] == train
        assert snapshot.owners["bare"].kind == "Pod"
        assert set(snapshot.pods) == {"train-0", "train-1", "bare"}
        assert snapshot.nodes == {"gpu-node-a": Node("gpu-node-a", gpus=8)}
        assert (snapshot.fresh, snapshot.error, snapshot.note) == (True, "", "")
        assert snapshot.read_at is not None
        assert cluster.snapshot().pods is snapshot.pods
        with pytest.raises(TypeError):
            snapshot.pods["x"] = snapshot.pods["bare"]  # type: ignore[index]
        server.patch("Node", "", "gpu-node-a", {"spec": {"unschedulable": True}})
        until(lambda: cluster.snapshot().nodes == {"gpu-node-a": Node("gpu-node-a", schedulable=False, gpus=8)})
        before = dict(snapshot.pods)
        server.delete("Pod", "ml", "bare")
        until(lambda: cluster.snapshot().pods["bare"].gone)
        assert dict(snapshot.pods) == before
        assert cluster.snapshot().owners["bare"].kind == "Pod"
        counters = cluster.counters()
        assert (counters.relists, counters.failures, counters.waiting, counters.malformed) == (0, {}, 0, 0)
        assert counters.events >= 2
        assert counters.silent is not None


def test_a_reused_name_is_another_run(server: KubernetesServer, tmp_path: Path) -> None:
    server.put(builders.pod("web-0", uid="first"))
    with watched(tmp_path, server) as cluster:
        until(lambda: agrees(cluster, server))
        server.delete("Pod", "ml", "web-0")
        server.put(builders.pod("web-0", uid="second"))
        until(lambda: agrees(cluster, server))
        pods = cluster.snapshot().pods
        assert (pods["first"].gone, pods["second"].gone) == (True, False)
        assert {pod.name for pod in pods.values()} == {"web-0"}


def test_claims_for_devices_count(server: KubernetesServer, tmp_path: Path) -> None:
    server.put(builders.pod("dra", uid="dra", gpus=0, claims=("gpu",)))
    with watched(tmp_path, server) as cluster:
        until(lambda: agrees(cluster, server))
        assert cluster.snapshot().pods["dra"].claims == ("gpu",)


def test_namespaces_are_watched_each(server: KubernetesServer, tmp_path: Path) -> None:
    """One that may not be read leaves the others known, and nothing fresh: what is missing is not known to be."""
    for namespace in ("a", "b", "c"):
        server.put(builders.pod("train", namespace=namespace, uid=namespace))
    server.add_user("alerter", "token", Rule(("get", "list", "watch"), ("pods",), ("",), ("a", "b")))
    path = kubeconfig(tmp_path, server.url, {"token": "token"})
    with watched(tmp_path, server, kubeconfig=path, namespaces=("a", "b")) as cluster:
        until(lambda: cluster.snapshot().fresh)
        assert set(cluster.snapshot().pods) == {"a", "b"}
        server.add_user("alerter", "token", Rule(("get", "list", "watch"), ("pods",), ("",), ("a",)))
        with server.inject("cut", path="namespaces/b/"):
            until(lambda: "/namespaces/b/pods: answered 403" in cluster.snapshot().error)
            assert set(cluster.snapshot().pods) == {"a", "b"}
            server.put(builders.pod("more", namespace="a", uid="more"))
            until(lambda: "more" in cluster.snapshot().pods)
            assert not cluster.snapshot().fresh


def test_a_selector_of_labels(server: KubernetesServer, tmp_path: Path) -> None:
    server.put(builders.pod("in", uid="in", labels={"gpu": "true"}))
    server.put(builders.pod("out", uid="out"))
    with watched(tmp_path, server, label_selector="gpu=true") as cluster:
        until(lambda: cluster.snapshot().fresh)
        assert table(cluster.snapshot()) == {"in": "Running"}
        server.patch("Pod", "ml", "out", {"metadata": {"labels": {"gpu": "true"}}})
        until(lambda: table(cluster.snapshot()) == {"in": "Running", "out": "Running"})


@pytest.mark.usefixtures("believing")
def test_nodes_that_may_not_be_read_are_no_trouble(server: KubernetesServer, tmp_path: Path) -> None:
    job(server, pods=1)
    server.add_user("alerter", "token", READ_PODS)
    path = kubeconfig(tmp_path, server.url, {"token": "token"})
    with watched(tmp_path, server, kubeconfig=path, nodes=True) as cluster:
        until(lambda: agrees(cluster, server))
        until(lambda: "may not read nodes" in cluster.snapshot().note)
        until(lambda: "may not read jobs.batch: grant get" in cluster.snapshot().note)
        snapshot = cluster.snapshot()
        assert (snapshot.nodes, snapshot.fresh, snapshot.error) == (None, True, "")
        assert snapshot.owners["train-0"].name == "train"


@pytest.mark.usefixtures("believing")
def test_nodes_that_nothing_is_heard_of_are_not_known(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that is taken away would else leave nodes for ever that are long gone."""
    server.put(builders.node("gpu-node-a"))
    server.add_user("alerter", "token", READ_PODS, Rule(("list", "watch"), ("nodes",), ("",)))
    path = kubeconfig(tmp_path, server.url, {"token": "token"})
    with watched(tmp_path, server, kubeconfig=path, nodes=True) as cluster:
        until(lambda: agrees(cluster, server) and cluster.snapshot().nodes is not None)
        server.add_user("alerter", "token", READ_PODS)
        with server.inject("cut", path="/nodes$"):
            server.put(builders.node("gpu-node-b"))
            until(lambda: "may not read nodes" in cluster.snapshot().note)
        assert set(cluster.snapshot().nodes or ()) == {"gpu-node-a"}
        monkeypatch.setattr(clusters, "_NODES_SILENT", 0.0)
        snapshot = cluster.snapshot()
        assert (snapshot.nodes, snapshot.fresh, snapshot.error) == (None, True, "")
        assert "what was known of nodes is too old" in snapshot.note


def test_what_fails_while_it_is_read_is_not_fresh(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod may have been missing for a moment: what is absent from a fresh snapshot does not exist."""
    with watched(tmp_path, server) as cluster:
        until(lambda: cluster.snapshot().fresh)
        views = cluster._views

        def slowly() -> object:
            server.stop()
            until(lambda: cluster.counters().failures)
            return views()

        monkeypatch.setattr(cluster, "_views", slowly)
        snapshot = cluster.snapshot()
        assert (snapshot.fresh, bool(snapshot.error)) == (False, True)


@pytest.mark.usefixtures("believing")
def test_a_right_that_is_granted_counts_from_the_next_renewal(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the job is the object that may not be read."""
    monkeypatch.setattr(fetching, "REMEMBERED", 0.1)
    monkeypatch.setattr(lookups, "_HOUSEKEEPING", 0.05)
    annotations = {"dutycycle.io/user": "ada"}
    web = server.put(
        builders.workload("Deployment", "web", uid="web-uid", api_version="apps/v1", annotations=annotations)
    )
    replicas = server.put(
        builders.workload("ReplicaSet", "web-1", uid="rs-uid", api_version="apps/v1", owners=(builders.owner(web),))
    )
    server.put(builders.pod("web-1-0", uid="web-1-0", owners=(builders.owner(replicas),)))
    server.add_user("alerter", "token", READ_PODS)
    path = kubeconfig(tmp_path, server.url, {"token": "token"})
    with watched(tmp_path, server, kubeconfig=path, time_scale=6000.0) as cluster:
        assert cluster.wait_synced(30)
        assert cluster.snapshot().owners["web-1-0"].uid == "rs-uid"
        server.add_user("alerter", "token", READ_PODS, Rule(("get",), ("replicasets", "deployments"), ("apps",)))
        until(lambda: cluster.snapshot().owners["web-1-0"].uid == "web-uid")
        assert cluster.snapshot().owners["web-1-0"].annotations == {"dutycycle.io/user": "ada"}
        assert not cluster.snapshot().note


def test_owners_are_looked_for_again_where_it_failed(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then nothing is said of whose the pod is; the others' owners are found meanwhile."""
    monkeypatch.setattr(lookups, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(fetching, "_LONGEST_REST", 0.05)
    monkeypatch.setattr(fetching, "_FIRST_REST", 0.05)
    job(server, pods=1)
    with server.inject("error", code=500, path="/jobs/"), watched(tmp_path, server) as cluster:
        until(lambda: cluster.counters().failures.get("owner", 0) > 1)
        server.put(builders.pod("bare", uid="bare"))
        until(lambda: "bare" in cluster.snapshot().owners)
        snapshot = cluster.snapshot()
        assert (set(snapshot.owners), snapshot.fresh) == ({"bare"}, True)
        assert "answered 500" in snapshot.note
        assert not cluster.wait_synced(0.0)
        server.heal()
        until(lambda: "train-0" in cluster.snapshot().owners)
        until(lambda: cluster.snapshot().note == "")


def test_many_jobs_at_once(server: KubernetesServer, tmp_path: Path) -> None:
    """The watch does not wait for owners, and the server is not stormed for them."""
    rate = 10.0
    with watched(tmp_path, server, per_second=rate) as cluster:
        for number in range(40):
            job(server, f"job{number}", pods=1)
        until(lambda: agrees(cluster, server))
        assert cluster.counters().waiting > 0
        assert cluster.wait_synced(30)
    asked = [request.at for request in server.requests if "/jobs/" in request.path]
    assert len(asked) == 40
    assert asked[-1] - asked[0] >= 38 / rate


def test_one_job_of_many_pods_is_asked_for_once(server: KubernetesServer, tmp_path: Path) -> None:
    job(server, pods=30)
    with watched(tmp_path, server) as cluster:
        assert cluster.wait_synced(30)
    assert sum("/jobs/" in request.path for request in server.requests) == 1


def test_what_is_over_is_forgotten_after_a_while(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "_HOUSEKEEPING", 0.02)
    job(server)
    with watched(tmp_path, server, remember=0.5, time_scale=10.0) as cluster:
        assert cluster.wait_synced(30)
        server.delete("Pod", "ml", "train-0")
        until(lambda: set(cluster.snapshot().pods) == {"train-1"})
        until(lambda: set(cluster.snapshot().owners) == {"train-1"})


def test_what_people_write_on_a_job_that_runs_is_read(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "RENEWAL", 0.1)
    monkeypatch.setattr(lookups, "_HOUSEKEEPING", 0.02)
    job(server)
    with watched(tmp_path, server) as cluster:
        assert cluster.wait_synced(30)
        server.patch("Job.batch", "ml", "train", {"metadata": {"annotations": {"dutycycle.io/user": "bob"}}})
        until(lambda: cluster.snapshot().owners["train-1"].annotations.get("dutycycle.io/user") == "bob")


@pytest.mark.parametrize("action", ["silent", "hang"])
def test_it_ends_also_while_the_server_hangs(server: KubernetesServer, tmp_path: Path, action: str) -> None:
    job(server)
    with watched(tmp_path, server, pace=IMPATIENT, timeout=0.6, nodes=True) as cluster:
        until(lambda: agrees(cluster, server))
        with server.inject(action):
            if action == "hang":
                with server.inject("end"):
                    server.put(builders.pod("more"))
                    until(lambda: cluster.snapshot().error)
            cluster.close()
            until(lambda: not [one for one in threading.enumerate() if one.name.startswith("kubernetes-")])
    assert not cluster.wait_synced(0.0)


def test_it_ends_before_it_began(server: KubernetesServer, tmp_path: Path) -> None:
    settings = KubernetesCluster(kubeconfig=kubeconfig(tmp_path, server.url))
    cluster = clusters.Cluster(settings)
    cluster.close()
    assert not cluster.snapshot().fresh
    assert not server.requests


def test_a_server_that_is_away_is_waited_for_in_vain(server: KubernetesServer, tmp_path: Path) -> None:
    server.stop()
    with watched(tmp_path, server) as cluster:
        assert not cluster.wait_synced(0.1)
        assert not cluster.snapshot().fresh


def test_a_restart_of_the_server_takes_nothing_away(
    server: KubernetesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server answers 403 to everybody for a moment after its start. What comes meanwhile waits, and is then right."""
    monkeypatch.setattr(fetching, "_FIRST_REST", 0.05)
    monkeypatch.setattr(fetching, "_LONGEST_REST", 0.05)
    monkeypatch.setattr(lookups, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(lookups, "_LONGEST_PAUSE", 0.1)
    server.install("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    node = builders.node("gpu-node-a")
    server.put(node)

    def jobset(number: int) -> None:
        api = "jobset.x-k8s.io/v1alpha2"
        users = {"dutycycle.io/user": f"user-{number}"}
        made = server.put(
            builders.workload("JobSet", f"set-{number}", uid=f"set-{number}", api_version=api, annotations=users)
        )
        job(server, f"job-{number}", pods=4, owners=(builders.owner(made),))

    def owners(count: int) -> dict[str, tuple[str, str]]:
        return {
            f"job-{number}-{one}": (f"k8s/ml/jobset/set-{number}/set-{number}", f"user-{number}")
            for number in range(count)
            for one in range(4)
        }

    def known() -> dict[str, tuple[str, str]]:
        found = cluster.snapshot().owners
        return {uid: (owner.workload, owner.annotations.get("dutycycle.io/user", "")) for uid, owner in found.items()}

    for number in range(25):
        jobset(number)
    with watched(tmp_path, server, nodes=True) as cluster:
        until(lambda: known() == owners(25) and cluster.snapshot().nodes is not None)
        for restart in range(1, 4):
            # Owners that are still looked for when the server restarts, and pods that come meanwhile.
            with server.inject("error", code=500, path="/(jobs|jobsets)/"):
                for number in range(25 * restart, 25 * restart + 15):
                    jobset(number)
                until(lambda: agrees(cluster, server))
                server.stop()
            for number in range(25 * restart + 15, 25 * (restart + 1)):
                jobset(number)
            expected = owners(25 * (restart + 1))
            server.compact()
            server.start(forbidden_for=0.35)

            def none_is_wrong(expected: dict[str, tuple[str, str]] = expected) -> bool:
                assert known().items() <= expected.items()
                return known() == expected

            until(none_is_wrong)
            until(lambda: agrees(cluster, server))
            server.patch("Node", "", "gpu-node-a", {"spec": {"unschedulable": restart % 2 == 1}})
            until(lambda: cluster.snapshot().nodes["gpu-node-a"].schedulable == (restart % 2 == 0))  # type: ignore[index] # noqa: B023
            assert "may not read" not in cluster.snapshot().note
        assert cluster.counters().failures["forbidden"] > 0
