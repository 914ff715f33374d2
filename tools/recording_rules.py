"""The recording rules as files: for Prometheus itself, and as a PrometheusRule for the operator."""

from __future__ import annotations

from typing import Any

import yaml

from dutycycle_alerter.sources.prometheus import recorded
from dutycycle_dashboards import recording

_MADE = (
    "# Made from alerter/dutycycle_alerter/sources/prometheus/recorded.py and\n"
    "# dashboards/dutycycle_dashboards/recording.py by `make generate`; do not edit.\n"
)
_LABELS = {
    "app.kubernetes.io/name": "dutycycle",
    "app.kubernetes.io/part-of": "dutycycle",
    "app.kubernetes.io/component": "recording-rules",
}


def plain() -> bytes:
    """For `rule_files` of Prometheus, or the ruler of Thanos, Mimir or VictoriaMetrics."""
    return _written(_groups())


def prometheus_rule() -> bytes:
    """For the Prometheus operator. Its rule selector may want further labels: see the kustomization beside it."""
    return _written(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "dutycycle-recording", "labels": _LABELS},
            "spec": _groups(),
        }
    )


def _groups() -> dict[str, Any]:
    """The copies first: the dashboards' groups are made from them."""
    copies = _group(recorded.GROUP, recorded.INTERVAL, {rule.record: rule.expr for rule in recorded.rules()})
    further = [
        _group(group.name, group.interval, {rule.record: rule.expr for rule in group.rules})
        for group in recording.groups()
    ]
    return {"groups": [copies, *further]}


def _group(name: str, interval: str, rules: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "interval": interval, "rules": [{"record": r, "expr": e} for r, e in rules.items()]}


def _written(content: dict[str, Any]) -> bytes:
    return (_MADE + yaml.safe_dump(content, sort_keys=False, width=10_000)).encode()
