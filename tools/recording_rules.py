"""The recording rules as files: for Prometheus itself, and as a PrometheusRule for the operator."""

from __future__ import annotations

from typing import Any

import yaml

from dutycycle_alerter.sources.prometheus.recorded import GROUP, INTERVAL, rules

_MADE = "# Made from alerter/dutycycle_alerter/sources/prometheus/recorded.py by `make generate`; do not edit.\n"
_LABELS = {"app.kubernetes.io/name": "dutycycle", "app.kubernetes.io/component": "recording-rules"}


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
    listed = [{"record": rule.record, "expr": rule.expr} for rule in rules()]
    return {"groups": [{"name": GROUP, "interval": INTERVAL, "rules": listed}]}


def _written(content: dict[str, Any]) -> bytes:
    return (_MADE + yaml.safe_dump(content, sort_keys=False, width=10_000)).encode()
