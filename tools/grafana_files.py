"""The dashboards as committed files: JSON to import, ConfigMaps for the sidecar, what Grafana provisions itself by."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import yaml

from dutycycle_dashboards.render import dashboards, text

_MADE = "# Made from dashboards/dutycycle_dashboards by `make generate`; do not edit.\n"
_LABELS = {
    "app.kubernetes.io/name": "dutycycle",
    "app.kubernetes.io/part-of": "dutycycle",
    "app.kubernetes.io/component": "dashboards",
}
_WHERE = "manifests/grafana"


def generators() -> Mapping[str, Callable[[], bytes]]:
    """Path from the root of the repository -> content."""
    models = dashboards()
    return {
        **{f"dashboards/json/{uid}.json": partial(_file, model) for uid, model in models.items()},
        **{f"{_WHERE}/{uid}.yaml": partial(_config_map, uid, model) for uid, model in models.items()},
        f"{_WHERE}/kustomization.yaml": _kustomization,
        f"{_WHERE}/provisioning/dashboards.yaml": _dashboards,
        f"{_WHERE}/provisioning/datasources.yaml": _datasources,
    }


def _file(model: Mapping[str, Any]) -> bytes:
    return text(model).encode()


def _config_map(uid: str, model: Mapping[str, Any]) -> bytes:
    """As short as JSON can be: `kubectl apply` keeps the whole of it in an annotation, which has 256 KiB at most."""
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": uid,
            "labels": {**_LABELS, "grafana_dashboard": "1"},
            "annotations": {"grafana_folder": "Dutycycle"},
        },
        "data": {f"{uid}.json": json.dumps(model, separators=(",", ":"))},
    }
    return _written(_MADE, made)


def _kustomization() -> bytes:
    about = """\
# The dashboards for Grafana's sidecar (kiwigrid/k8s-sidecar, as in the charts of Grafana and kube-prometheus-stack):
#   kubectl apply -k manifests/grafana
# Which label it looks for is sidecar.dashboards.label and labelValue of the chart, the folder's annotation
# sidecar.dashboards.folderAnnotation. Where yours differ, set them in an overlay: docs/dashboards.md shows one.
"""
    return _written(
        _MADE + about,
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "monitoring",
            "resources": [f"{uid}.yaml" for uid in dashboards()],
        },
    )


def _dashboards() -> bytes:
    about = """\
# For /etc/grafana/provisioning/dashboards. Put the files of `dutycycle-dashboards render DIR` into `path`. Changes that
# people make to these dashboards cannot be saved in Grafana: the files are what counts.
"""
    provider = {
        "name": "dutycycle",
        "orgId": 1,
        "folder": "Dutycycle",
        "folderUid": "dutycycle",
        "type": "file",
        "disableDeletion": False,
        "allowUiUpdates": False,
        "updateIntervalSeconds": 60,
        "options": {"path": "/var/lib/grafana/dashboards/dutycycle", "foldersFromFilesStructure": False},
    }
    return _written(_MADE + about, {"apiVersion": 1, "providers": [provider]})


def _datasources() -> bytes:
    about = """\
# For /etc/grafana/provisioning/datasources, where Grafana has no data source for the Prometheus of the exporters yet.
# `timeInterval` is how often that Prometheus scrapes.
"""
    source = {
        "name": "Prometheus",
        "uid": "dutycycle-prometheus",
        "orgId": 1,
        "type": "prometheus",
        "access": "proxy",
        "url": "http://localhost:9090",
        "jsonData": {"httpMethod": "POST", "timeInterval": "30s"},
    }
    return _written(_MADE + about, {"apiVersion": 1, "datasources": [source]})


def _written(head: str, content: Mapping[str, Any]) -> bytes:
    return (head + yaml.safe_dump(dict(content), sort_keys=False, width=10_000)).encode()
