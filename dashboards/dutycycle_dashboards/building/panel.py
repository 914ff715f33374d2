"""A panel: queries, size and Grafana's options, and what Grafana's classic model (schema 41) makes of them.

`may_be_empty` of a target is the reason why its query may rightly have no answer; it is for tests and is not rendered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from dutycycle_dashboards.building.links import DATASOURCE
from dutycycle_dashboards.building.units import BAD, FAIR, GOOD

Model = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """One query. `legend` is Prometheus' ({{label}}). Tables, bar charts and numbers ask at the range's end alone."""

    expr: str
    legend: str = ""
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Threshold:
    """From `value` on (None: from the lowest) it is shown in this colour."""

    value: float | None
    color: str


UTILIZATION = (Threshold(None, BAD), Threshold(15, "orange"), Threshold(25, FAIR), Threshold(50, GOOD))
"""Colours of a mean utilization in percent."""
ANY_IS_BAD = (Threshold(None, GOOD), Threshold(1, BAD))
PLAIN = (Threshold(None, "blue"),)
LINE = 9
"""Characters of a number's text that can be read, by column of the grid."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, `width` x `height` in cells of 24 columns. `interval` is the least step of its range queries, written
    to these: in a panel's own, Grafana 11.0 and 11.1 fill in no variable.
    """

    kind: str
    title: str
    description: str
    targets: tuple[Target, ...]
    width: int
    height: int
    options: Model
    defaults: Model
    overrides: tuple[Model, ...] = ()
    transformations: tuple[Model, ...] = ()
    form: Literal["time_series", "table", "heatmap"] = "time_series"
    instant: bool = False
    interval: str = ""
    max_points: int | None = None

    def sized(self, width: int, height: int) -> Panel:
        """The same panel in another size."""
        return replace(self, width=width, height=height)

    def model(self, number: int, x: int, y: int) -> Model:
        """As Grafana has it, at a place of the grid."""
        found: Model = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "options": self.options,
        }
        if self.targets:
            found |= {
                "datasource": DATASOURCE,
                "targets": [self._target(i, target) for i, target in enumerate(self.targets)],
                "fieldConfig": {"defaults": self.defaults, "overrides": list(self.overrides)},
            }
        if self.transformations:
            found["transformations"] = list(self.transformations)
        if self.max_points is not None:
            found["maxDataPoints"] = self.max_points
        return found

    def _target(self, place: int, target: Target) -> Model:
        least = {"interval": self.interval} if self.interval else {}
        return {
            "refId": ref(place),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": target.expr,
            **least,
            # Grafana puts a histogram's buckets in order by their names.
            "legendFormat": target.legend or ("{{le}}" if self.form == "heatmap" else "__auto"),
            "format": self.form,
            "instant": self.instant,
            "range": not self.instant,
        }


def ref(place: int) -> str:
    """The letter by which Grafana knows the target at this place, of 26 at most."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place]
