"""Pods that really run: what a container sees of its users, rights, mounts, network and probes."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import wait_for
from tests.exporter.certificates import Authority
from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.pods import Cluster, Node, Pod
from tests.fakes.pods.network import API_ADDRESS, GATEWAY
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image

pytestmark = [pytest.mark.timeout(TIMEOUT), pytest.mark.usefixtures("root")]
PATIENCE = 120.0
SAYING = """
import http.server, json, os, socket, sys
def status(name):
    return next(line.split()[1:] for line in open("/proc/self/status") if line.startswith(name + ":"))
def writes(path):
    try:
        open(path + "/x", "w").close()
    except OSError as error:
        return error.strerror
    return "yes"
def files(path):
    found = {name: os.stat(f"{path}/{name}") for name in os.listdir(path)}
    return {name: [oct(one.st_mode)[-4:], one.st_gid] for name, one in found.items()}
said = {
    "pid": os.getpid(), "pids": sorted(int(one) for one in os.listdir("/proc") if one.isdigit()),
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "capabilities": status("CapBnd") + status("CapEff"), "no_new_privs": status("NoNewPrivs"),
    "writes": {path: writes(path) for path in ("/", "/etc", "/tmp", "/data", "/node", "/node-rw", "/words")},
    "words": files("/words"), "keys": files("/words/keys"), "node": sorted(os.listdir("/node")),
    "environment": dict(os.environ), "arguments": sys.argv[1:], "host": socket.gethostname(),
    "name": socket.gethostbyname("web.ns.svc"),
    "account": sorted(os.listdir("/var/run/secrets/kubernetes.io/serviceaccount")),
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(said).encode()
        self.send_response(500 if os.path.exists("/data/broken") and self.path == "/alive" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""
PROBE = {"periodSeconds": 0.2, "timeoutSeconds": 20, "failureThreshold": 2}


def deployment(**security: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example.org/web:1",
        "command": ["python3", "-c", SAYING],
        "args": ["$(NODE)"],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            **security,
        },
        "startupProbe": {"httpGet": {"path": "/", "port": "http"}, **PROBE, "failureThreshold": 600},
        "livenessProbe": {"httpGet": {"path": "/alive", "port": "http"}, **PROBE},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "data", "mountPath": "/data"},
            {"name": "node", "mountPath": "/node", "readOnly": True},
            {"name": "node", "mountPath": "/node-rw"},
            {"name": "words", "mountPath": "/words"},
            {"name": "keys", "mountPath": "/words/keys"},
        ],
    }
    spec = {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"disk": "fast"},
        "securityContext": {"fsGroup": 2000},
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "8Mi"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "node", "hostPath": {"path": "/srv/shared", "type": "Directory"}},
            {"name": "words", "configMap": {"name": "words"}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        ],
    }
    metadata = {"name": "web", "namespace": "ns"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, "template": template}}


@pytest.fixture
def cluster(tmp_path: Path, exporter_image: Image) -> Iterator[Cluster]:
    authority = Authority(tmp_path)
    pair = authority.issue("kubernetes", f"IP:{API_ADDRESS}", "IP:127.0.0.1")
    with KubernetesServer(tls=(pair.cert, pair.key), namespaces=("ns",)) as server:
        for kind, name, more in (
            ("ServiceAccount", "default", {}),
            ("PersistentVolumeClaim", "data", {"spec": {}}),
            ("ConfigMap", "words", {"data": {"greeting": "hello"}}),
            ("Secret", "keys", {"data": {"key": base64.b64encode(b"secret").decode()}}),
            (
                "Service",
                "web",
                {
                    "spec": {
                        "clusterIP": "None",
                        "selector": {"app": "web"},
                        "ports": [],
                        "publishNotReadyAddresses": True,
                    }
                },
            ),
        ):
            server.put({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, **more})
        with Cluster(server, authority.pair.cert, {"web": exporter_image}, tmp_path) as found:
            (tmp_path / "slow").mkdir()
            (tmp_path / "fast/srv/shared").mkdir(parents=True)
            (tmp_path / "fast/srv/shared/file").touch()
            (tmp_path / "fast/srv/shared").chmod(0o777)
            found.nodes += [Node("slow", tmp_path / "slow"), Node("fast", tmp_path / "fast", labels={"disk": "fast"})]
            yield found


def said(cluster: Cluster, pod: Pod) -> dict[str, Any]:
    connection = http.client.HTTPConnection(pod.address)
    connection.sock = cluster.network.connect(pod.address, 8080, 20)
    connection.request("GET", "/")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def test_a_container_sees_what_its_pod_says_and_nothing_else(cluster: Cluster) -> None:
    (pod,) = cluster.roll_out(deployment())
    wait_for(lambda: pod.ready, "it is ready", within=PATIENCE)
    found = said(cluster, pod)
    assert (pod.node, found["environment"]["NODE"], found["arguments"]) == ("fast", "fast", ["fast"])
    assert (found["pid"], found["pids"], found["host"]) == (1, [1], pod.name)
    assert (found["uid"], found["gid"], found["groups"]) == (10001, 10001, [2000])
    assert (found["capabilities"], found["no_new_privs"]) == (["0" * 16] * 2, ["1"])
    assert found["writes"] == {
        "/": "Read-only file system",
        "/etc": "Read-only file system",
        "/tmp": "yes",
        "/data": "yes",
        "/node": "Read-only file system",
        "/node-rw": "yes",
        "/words": "Read-only file system",
    }
    assert found["words"]["greeting"] == ["0644", 2000]
    assert found["keys"] == {"key": ["0440", 2000]}
    assert "file" in found["node"]
    assert found["name"] == pod.address
    assert found["account"] == ["ca.crt", "namespace", "token"]
    # Nothing of what it wrote, or was mounted, is in its image.
    image = cluster._images["web"].root
    assert not (image / "words").exists()
    assert not (image / "tmp/x").exists()
    # The tests' own variables and files are not its.
    assert "PYTEST_CURRENT_TEST" not in found["environment"]


def test_root_without_capabilities_and_root_with_those_that_are_left(cluster: Cluster) -> None:
    (pod,) = cluster.roll_out(deployment(runAsUser=0, capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}))
    wait_for(lambda: pod.ready, "it is ready", within=PATIENCE)
    found = said(cluster, pod)
    assert (found["uid"], found["capabilities"]) == (0, [f"{1 << 12:016x}"] * 2)


def test_a_container_that_is_not_alive_or_ends_is_started_again_with_its_volumes(
    cluster: Cluster, tmp_path: Path
) -> None:
    (pod,) = cluster.roll_out(deployment())
    wait_for(lambda: pod.ready, "it is ready", within=PATIENCE)
    claim = tmp_path / "claims/ns/data"
    (claim / "broken").touch()
    wait_for(lambda: pod.restarts == 1, "it is killed", within=PATIENCE)
    (claim / "broken").unlink()
    wait_for(lambda: pod.ready, "it is ready again", within=PATIENCE)
    assert (claim / "x").exists()
    running = pod.lives["main"].running
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    wait_for(lambda: pod.restarts == 2, "it has ended", within=PATIENCE)
    assert pod.lives["main"].reasons == ["liveness", "it ended"]
    conditions = cluster.server.get("Pod", "ns", pod.name)["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["Ready"] == "False"


def test_the_network_is_the_clusters_alone(cluster: Cluster) -> None:
    (pod,) = cluster.roll_out(deployment())
    wait_for(lambda: pod.ready, "it is ready", within=PATIENCE)
    with socket.create_server(("127.0.0.1", 0)) as outside:
        address = outside.getsockname()
        for host in ("127.0.0.1", GATEWAY):
            with pytest.raises(ConnectionRefusedError):
                pod._namespace.within(partial(socket.create_connection, (host, address[1]), 20))
        cluster.network.offer("10.96.1.99", 80, address)
        pod._namespace.within(partial(socket.create_connection, ("10.96.1.99", 80), 20)).close()
    assert "web.ns.svc.ns.svc.cluster.local" in cluster.network.dns.asked


def test_nothing_is_left(cluster: Cluster, tmp_path: Path) -> None:
    (pod,) = cluster.roll_out(deployment())
    wait_for(lambda: pod.ready, "it is ready", within=PATIENCE)
    running = pod.lives["main"].running
    assert running is not None
    pids = [running.pid, pod._namespace.pid]
    cluster.end(pod)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/pod-{pod.name}-*"))
