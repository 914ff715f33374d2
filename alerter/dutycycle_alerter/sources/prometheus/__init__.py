"""The `prometheus` source: evidence from any PromQL engine that scrapes the exporters."""

from dutycycle_alerter.sources.prometheus.source import PrometheusSource

__all__ = ["PrometheusSource"]
