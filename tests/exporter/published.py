"""What an exporter publishes, read back by prometheus_client: its parser is the judge of our text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


class Published(Collector):
    """A collector of whatever a text says at the time."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def collect(self) -> Iterable[Metric]:
        return text_string_to_metric_families(self._text())


def samples(text: str, name: str, **labels: str) -> list[Sample]:
    """The samples of that name with those labels, whatever their others are. Other lines are not read: tests ask for a
    value thousands of times.
    """
    lines = [line for line in text.split("\n") if line.startswith((f"{name}{{", f"{name} "))]
    return [
        sample
        for family in text_string_to_metric_families("\n".join(lines) + "\n")
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def registry_of(text: Callable[[], str]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Published(text))
    return registry
