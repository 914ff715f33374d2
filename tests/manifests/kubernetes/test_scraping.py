"""What a real Prometheus keeps of an exporter's labels under the manifests' relabelings: all, and no pod of ours.

Debian's Prometheus knows no Kubernetes: what its discovery, and the operator, would say of a pod is said here.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.exporter.daemon import eventually
from tests.manifests.kubernetes.rendering import MANIFESTS
from tests.prometheus.server import PrometheusServer

LABELS: list[dict[str, str]] = [
    {"node": "n1", "gpu": "0", "workload": "k8s/ml/train-0/u1", "namespace": "ml", "pod": "train-0"},
    # A Slurm job on the same node is in no namespace.
    {"node": "n1", "gpu": "1", "workload": "slurm/7", "namespace": "", "pod": ""},
]
DISCOVERED = {
    "__meta_kubernetes_pod_node_name": "n1",
    "__meta_kubernetes_pod_container_port_name": "metrics",
    "__meta_kubernetes_pod_phase": "Running",
    "__meta_kubernetes_pod_name": "dutycycle-exporter-abcde",
}
BY_THE_OPERATOR = {
    "namespace": "dutycycle",
    "container": "exporter",
    "pod": "dutycycle-exporter-abcde",
    "endpoint": "metrics",
    "job": "dutycycle-exporter",
}
"""What it sets of every pod before it comes to the PodMonitor's own relabelings; `job` because of `jobLabel`."""


def page() -> bytes:
    series = (",".join(f'{name}="{value}"' for name, value in labels.items()) for labels in LABELS)
    return ("# TYPE gpu_allocation gauge\n" + "".join(f"gpu_allocation{{{one}}} 1\n" for one in series)).encode()


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(page())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its parent's name
        pass


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def setting(labels: dict[str, str]) -> list[dict[str, str]]:
    return [{"target_label": name, "replacement": value} for name, value in labels.items()]


def by_pod_monitor() -> dict[str, Any]:
    """The PodMonitor as the operator writes it into Prometheus' configuration: keys with underscores."""
    file = MANIFESTS / "components/prometheus-operator/podmonitor-exporter.yaml"
    spec = yaml.safe_load(file.read_text())["spec"]
    assert spec["jobLabel"] == "app.kubernetes.io/name"
    (endpoint,) = spec["podMetricsEndpoints"]
    own = [
        {re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", key): value for key, value in relabeling.items()}
        for relabeling in endpoint["relabelings"]
    ]
    return {
        "honor_labels": endpoint["honorLabels"],
        "relabel_configs": [*setting(DISCOVERED), *setting(BY_THE_OPERATOR), *own],
    }


def by_scrape_file() -> dict[str, Any]:
    jobs = yaml.safe_load((MANIFESTS / "components/annotations/prometheus-scrape.yaml").read_text())["scrape_configs"]
    (job,) = (one for one in jobs if one["job_name"] == "dutycycle-exporter")
    own = [{"target_label": "job", "replacement": job["job_name"]}, *job["relabel_configs"]]
    return {"honor_labels": job["honor_labels"], "relabel_configs": [*setting(DISCOVERED), *own]}


def asked(prometheus: PrometheusServer, query: str) -> list[dict[str, str]]:
    url = f"{prometheus.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return [series["metric"] for series in json.load(answer)["data"]["result"]]


@pytest.mark.parametrize("job", [by_pod_monitor, by_scrape_file])
def test_an_exporters_labels_stay_and_the_target_is_its_node(job: Any, target: str, tmp_path: Path) -> None:
    with PrometheusServer(tmp_path, targets=[target], scrape=yaml.safe_dump(job())) as prometheus:
        eventually(lambda: asked(prometheus, "gpu_allocation"), "it is scraped")
        found = asked(prometheus, "gpu_allocation")
        (up,) = asked(prometheus, "up")
    whose = {"instance": "n1", "job": "dutycycle-exporter"}
    assert up == {"__name__": "up", **whose}
    wanted = [{name: value for name, value in labels.items() if value} | whose for labels in LABELS]
    assert sorted(found, key=lambda labels: labels["gpu"]) == [{"__name__": "gpu_allocation", **one} for one in wanted]
