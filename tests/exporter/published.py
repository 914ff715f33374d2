"""What an exporter publishes, read back by prometheus_client: its parser is the judge of our text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector


class Published(Collector):
    """A collector of whatever a text says at the time."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def collect(self) -> Iterable[Metric]:
        return text_string_to_metric_families(self._text())


def registry_of(text: Callable[[], str]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Published(text))
    return registry
