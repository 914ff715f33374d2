"""Every metric that a dashboard may ask for, with its labels: the components' tables, put together."""

from __future__ import annotations

from dutycycle_alerter.sources.prometheus import recorded
from dutycycle_alerter.web import families
from dutycycle_dashboards import recording
from dutycycle_exporter import contract

TARGET = ("instance", "job")
"""Labels of the scraped target, which Prometheus adds."""
SITES = frozenset(("cluster",))
"""Labels that a site may add to all that it scrapes. They can be missing: by them series are grouped, never chosen."""


def metrics() -> dict[str, frozenset[str]]:
    """Labels by metric, a histogram's series one by one."""
    found: dict[str, frozenset[str]] = {}
    published: list[contract.Family | families.Family] = [*contract.FAMILIES.values(), *families.FAMILIES.values()]
    for family in published:
        labels = frozenset((*family.labels, *TARGET))
        if family.kind == "histogram":
            found[f"{family.name}_bucket"] = labels | {"le"}
            found[f"{family.name}_sum"] = found[f"{family.name}_count"] = labels
        else:
            found[family.name] = labels
    found |= {rule.record: frozenset(rule.labels) for rule in recording.recorded().values()}
    return found | {rule.record: frozenset(recorded.LABELS) for rule in recorded.rules()}
