"""What the Prometheus operator makes of PodMonitors: scrape configurations, here with the pods written down.

The pods' labels are those that Prometheus would find in the API server; which of them a monitor keeps is for Prometheus
to say, by the relabelling that the operator generates.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from tests.fakes.pods import Cluster, Pod
from tests.prometheus.server import PrometheusServer, program

_SNAKE = {
    "sourceLabels": "source_labels",
    "targetLabel": "target_label",
    "regex": "regex",
    "replacement": "replacement",
    "separator": "separator",
    "action": "action",
}


def scrape_configs(monitors: Iterable[Mapping[str, Any]], pods: Iterable[Pod], scale: float) -> list[dict[str, Any]]:
    """A job for each endpoint of each monitor. Durations are divided by `scale`."""
    targets = [_target(pod, name, port) for pod in pods for name, port in _ports(pod)]
    return [
        _job(monitor, number, endpoint, targets, scale)
        for monitor in monitors
        for number, endpoint in enumerate(monitor["spec"]["podMetricsEndpoints"])
    ]


def _ports(pod: Pod) -> list[tuple[str, int]]:
    return [(name, port) for container in pod.plan.containers for name, port in container.ports.items()]


def _target(pod: Pod, name: str, port: int) -> dict[str, Any]:
    meta = {
        "namespace": pod.metadata["namespace"],
        "pod_name": pod.name,
        "pod_node_name": pod.node,
        "pod_container_name": pod.plan.containers[0].name,
        "pod_container_port_name": name,
        **{f"pod_label_{re.sub('[^a-zA-Z0-9_]', '_', key)}": value for key, value in pod.metadata["labels"].items()},
    }
    labels = {f"__meta_kubernetes_{key}": value for key, value in meta.items()}
    return {"targets": [f"{pod.address}:{port}"], "labels": labels}


def _job(
    monitor: Mapping[str, Any], number: int, endpoint: Mapping[str, Any], targets: list[dict[str, Any]], scale: float
) -> dict[str, Any]:
    metadata, spec = monitor["metadata"], monitor["spec"]
    job_label = "__meta_kubernetes_pod_label_" + re.sub("[^a-zA-Z0-9_]", "_", spec["jobLabel"])
    keep = [
        {
            "action": "keep",
            "source_labels": [f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9_]', '_', key)}"],
            "regex": re.escape(value),
        }
        for key, value in spec["selector"]["matchLabels"].items()
    ]
    generated = [
        {"action": "keep", "source_labels": ["__meta_kubernetes_namespace"], "regex": metadata["namespace"]},
        {"action": "keep", "source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": endpoint["port"]},
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        {"target_label": "job", "replacement": f"{metadata['namespace']}/{metadata['name']}"},
        {"source_labels": [job_label], "target_label": "job", "regex": "(.+)", "replacement": "${1}"},
        {"target_label": "endpoint", "replacement": endpoint["port"]},
    ]
    own = [{_SNAKE[key]: value for key, value in rule.items()} for rule in endpoint.get("relabelings", ())]
    return {
        "job_name": f"podMonitor/{metadata['namespace']}/{metadata['name']}/{number}",
        "honor_labels": endpoint["honorLabels"],
        "metrics_path": endpoint["path"],
        "scrape_interval": _divided(endpoint["interval"], scale),
        "scrape_timeout": _divided(endpoint["scrapeTimeout"], scale),
        "static_configs": targets,
        "relabel_configs": [*keep, *generated, *own],
    }


def _divided(duration: str, scale: float) -> str:
    seconds = re.fullmatch(r"(\d+)s", duration)
    assert seconds is not None, duration
    return f"{round(1000 * int(seconds[1]) / scale)}ms"


class ClusterPrometheus(PrometheusServer):
    """In the cluster's network, where it reaches pods and only they reach it: as the Service of that name."""

    def __init__(self, directory: Path, cluster: Cluster, configs: list[dict[str, Any]]) -> None:
        self._cluster, self._configs = cluster, configs
        super().__init__(directory)

    def configure(self, targets: Iterable[str]) -> None:
        (self.directory / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": self._configs}))

    def start(self) -> None:
        super().start()
        port = int(self.url.rpartition(":")[2])
        self._cluster.services.lead("monitoring", "prometheus-operated", 9090, lambda: ("127.0.0.1", port))

    def series(self, selector: str) -> list[dict[str, str]]:
        """The labels of what it has of these now."""
        connection = http.client.HTTPConnection("127.0.0.1", timeout=20)
        connection.sock = self._cluster.network.connect("127.0.0.1", int(self.url.rpartition(":")[2]), 20)
        try:
            connection.request("GET", f"/api/v1/query?{urlencode({'query': selector})}")
            found = json.loads(connection.getresponse().read())["data"]["result"]
        finally:
            connection.close()
        return [one["metric"] for one in found]

    def _launch(self, *arguments: str) -> None:
        inside = ("nsenter", f"--net={self._cluster.network.nodes.path}", program("prometheus"))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*inside, *arguments], cwd=self.directory, stdout=log, stderr=log)
