"""The labels that the ways to scrape give a target: our PodMonitors and jobs, the chart's job, Slurm's files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from tests.prometheus.saying import ALERTER, EXPORTER, Series

Part = Literal["exporter", "alerter"]

_TARGET = re.compile(rf'job="(?:{EXPORTER}|{ALERTER})",instance="(?P<host>\w+):\d+"')


def _pod_monitor(part: Part, host: str) -> dict[str, str]:
    """The exporter's instance is its node; `namespace`, `pod` and so on are dropped there."""
    if part == "exporter":
        return {"job": "dutycycle-exporter", "instance": host}
    return {
        "job": "dutycycle-alerter",
        "instance": f"10.0.0.{_number(host)}:9837",
        "namespace": "dutycycle",
        "pod": f"dutycycle-alerter-{host}",
        "container": "alerter",
        "endpoint": "http",
    }


def _scrape_file(part: Part, host: str) -> dict[str, str]:
    """manifests/components/annotations/prometheus-scrape.yaml."""
    return {"job": f"dutycycle-{part}", "instance": host if part == "exporter" else f"dutycycle-alerter-{host}"}


def _chart(part: Part, host: str) -> dict[str, str]:
    """The job for all annotated pods of the Prometheus chart: the pods' labels are the targets'."""
    return {
        "job": "kubernetes-pods",
        "instance": f"10.0.0.{_number(host)}:{9836 if part == 'exporter' else 9837}",
        "namespace": "dutycycle",
        "pod": f"dutycycle-{part}-{host}",
        "node": host,
        "app_kubernetes_io_name": f"dutycycle-{part}",
        "app_kubernetes_io_part_of": "dutycycle",
        "app_kubernetes_io_version": "1.2",
        "pod_template_generation": "1",
    }


def _slurm(part: Part, host: str) -> dict[str, str]:
    """manifests/slurm/prometheus.yml: the files of targets name the node."""
    if part == "exporter":
        return {"job": "dutycycle-exporter", "instance": f"{host}:9836", "node": host}
    return {"job": "dutycycle-alerter", "instance": f"{host}:9837"}


WAYS: dict[str, Callable[[Part, str], dict[str, str]]] = {
    "PodMonitor": _pod_monitor,
    "scrape file": _scrape_file,
    "chart": _chart,
    "Slurm": _slurm,
}


def scraped(way: str, series: Series) -> Series:
    """The same series with the labels that its target has that way. A series keeps its own (`honor_labels`)."""
    labels = WAYS[way]

    def relabelled(name: str) -> str:
        found = _TARGET.search(name)
        if not found:
            return name
        target = labels("exporter" if "exporter" in found[0] else "alerter", found["host"])
        rest = name.replace(found[0], "")
        own = set(re.findall(r"(\w+)=\"", rest))
        return name.replace(found[0], _written({key: value for key, value in target.items() if key not in own}))

    return {relabelled(name): values for name, values in series.items()}


def of_cluster(cluster: str, series: Series, label: str = "cluster") -> Series:
    """As an engine has them to which the Prometheus servers of several clusters write."""
    return {
        name.replace("{", f'{{{label}="{cluster}",', 1) if "{" in name else f'{name}{{{label}="{cluster}"}}': values
        for name, values in series.items()
    }


def _written(labels: dict[str, str]) -> str:
    return ",".join(f'{key}="{value}"' for key, value in labels.items())


def _number(host: str) -> int:
    """Some number of its own for each host."""
    return int.from_bytes(host.encode()) % 251
