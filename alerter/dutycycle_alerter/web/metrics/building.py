"""A metric family by its name in the table, to be filled."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from dutycycle_alerter.web.families import FAMILIES, Family, Kind


def gauge(name: str) -> GaugeMetricFamily:
    """A gauge without a series."""
    family = _family(name, "gauge")
    return GaugeMetricFamily(name, family.help, labels=family.labels)


def counter(name: str) -> CounterMetricFamily:
    """A counter without a series; `name` ends in `_total`."""
    family = _family(name, "counter")
    return CounterMetricFamily(name, family.help, labels=family.labels)


def histogram(name: str) -> HistogramMetricFamily:
    """A histogram without a series."""
    family = _family(name, "histogram")
    return HistogramMetricFamily(name, family.help, labels=family.labels)


def _family(name: str, kind: Kind) -> Family:
    family = FAMILIES[name]
    assert family.kind == kind, name  # noqa: S101 - the table says what it is
    return family
