"""The dashboards' variables: the data source, the chained filters, and the one that picks the recorded resolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dutycycle_dashboards.building.links import DATASOURCE
from dutycycle_dashboards.building.promql import FILTERS
from dutycycle_dashboards.recording import capacity

Model = dict[str, Any]

OWNERS = "user:workload_gpu_allocated_seconds:increase${res}"
"""Has a series for every owner of the range: what the filters' values are read from."""
FINE_UP_TO = 2 * 86400
"""Seconds of range up to which increments of 5 minutes are read, beyond it those of an hour."""
ALERTER = "http://localhost:9837"

_LABELS = {"model": "GPU model", "person": "User", "workload": "Job or pods"}


def datasource() -> Model:
    """Which Prometheus."""
    return {
        "name": "datasource",
        "label": "Data source",
        "description": "A Prometheus, Thanos, Mimir or VictoriaMetrics that scrapes the exporters",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "default", "value": "default"},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "refresh": 1,
        "regex": "",
        "options": [],
    }


def resolution() -> Model:
    """Hidden: `5m` for short ranges and `1h` for long ones, decided by the engine whenever the range changes. The first
    hour is recorded up to two hours after the rules were loaded: a range without any is of `5m`, too.
    """
    hours = f"count(last_over_time({capacity('1h')}[$__range]))"
    fine = f'label_replace(vector($__range_s) <= {FINE_UP_TO} or (vector(1) unless {hours}), "res", "5m", "", "")'
    coarse = f'label_replace(vector($__range_s) > {FINE_UP_TO} and {hours}, "res", "1h", "", "")'
    return _query(
        "res",
        f"query_result({fine} or {coarse})",
        description="Recorded increments that suit the time range",
        regex='/res="([^"]+)"/',
        hide=2,
        current={"text": "5m", "value": "5m"},
    )


def filters(names: Sequence[str] = FILTERS) -> tuple[Model, ...]:
    """Filters, each with the values that those before it leave."""
    found = []
    for place, name in enumerate(names):
        chosen = ", ".join(f'{other}=~"${other}"' for other in names[:place])
        found.append(
            _filter(
                name, f"label_values({OWNERS}{{{chosen}}}, {name})" if chosen else f"label_values({OWNERS}, {name})"
            )
        )
    return tuple(found)


def chosen(name: str, query: str, *, multi: bool = False, description: str = "") -> Model:
    """A value (or several) that must be chosen, of those that the query gives: the first unless it is set by a link."""
    return _query(name, query, description=description, multi=multi, hide=0)


def implied(name: str, query: str, *, description: str, regex: str = "") -> Model:
    """Hidden: all that the query gives, such as the nodes of the chosen jobs."""
    every = {"text": ["All"], "value": ["$__all"]}
    made = _query(name, query, description=description, regex=regex, multi=True, hide=2, current=every)
    return made | {"includeAll": True}


def alerter() -> Model:
    """Where the alerter's page is, for links."""
    return {
        "name": "alerter",
        "label": "Alerter's page",
        "description": "Its address, which links to incidents begin with",
        "type": "textbox",
        "query": ALERTER,
        "current": {"text": ALERTER, "value": ALERTER},
        "options": [{"selected": True, "text": ALERTER, "value": ALERTER}],
        "hide": 0,
    }


def _filter(name: str, query: str) -> Model:
    made = _query(name, query, description="", multi=True, hide=0, current={"text": ["All"], "value": ["$__all"]})
    return made | {"includeAll": True, "allValue": ".*"}


def _query(
    name: str,
    query: str,
    *,
    description: str,
    regex: str = "",
    multi: bool = False,
    hide: int = 0,
    current: Model | None = None,
) -> Model:
    return {
        "name": name,
        "label": _LABELS.get(name, name.capitalize()),
        "description": description,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "regex": regex,
        "refresh": 2,
        "sort": 1,
        "hide": hide,
        "includeAll": False,
        "multi": multi,
        "options": [],
        **({"current": current} if current else {}),
    }
