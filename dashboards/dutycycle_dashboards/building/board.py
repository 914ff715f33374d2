"""A dashboard: its panels in sections, laid out in Grafana's grid of 24 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dutycycle_dashboards.building.links import TAG
from dutycycle_dashboards.building.panel import Panel

Model = dict[str, Any]

SCHEMA = 41
COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Section:
    """A row with a title that folds its panels; a collapsed one asks nothing until it is opened."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. Panels flow from left to right; each line of them is as high as its highest. `span` is the time
    range that it opens with, such as `24h` or `7d`.
    """

    uid: str
    title: str
    description: str
    variables: tuple[Model, ...]
    sections: tuple[Section, ...]
    span: str = "24h"
    refresh: str = "1m"
    annotations: tuple[Model, ...] = ()

    def model(self) -> Model:
        """Grafana's classic JSON model. Raises ValueError where a panel is wider than the grid."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "fiscalYearStartMonth": 0,
            "liveNow": False,
            "timezone": "browser",
            "time": {"from": f"now-{self.span}", "to": "now"},
            "timepicker": {},
            "refresh": self.refresh,
            "templating": {"list": list(self.variables)},
            "annotations": {"list": list(self.annotations)},
            "links": [_others()],
            "panels": _placed(self.sections),
        }


def targets(board: Board) -> dict[tuple[int, str], str]:
    """Why a query may have no answer, by its panel's id and its letter; empty where it must have one."""
    found = {}
    for number, panel in _numbered(board.sections):
        for target, model in zip(panel.targets, panel.model(number, 0, 0).get("targets", ()), strict=True):
            found[number, model["refId"]] = target.may_be_empty
    return found


def _numbered(sections: tuple[Section, ...]) -> list[tuple[int, Panel]]:
    """Panels with their ids: a section's row has the number before its first panel's."""
    found, number = [], 0
    for section in sections:
        number += 1
        for panel in section.panels:
            number += 1
            found.append((number, panel))
    return found


def _placed(sections: tuple[Section, ...]) -> list[Model]:
    found: list[Model] = []
    number = y = 0
    for section in sections:
        number += 1
        row: Model = {
            "id": number,
            "type": "row",
            "title": section.title,
            "collapsed": section.collapsed,
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            "panels": [],
        }
        panels, y = _lines(section.panels, number, y + 1)
        number += len(panels)
        if section.collapsed:
            row["panels"] = panels
            found.append(row)
            # Folded, its panels take no room; Grafana moves what is below when it is opened.
            y = row["gridPos"]["y"] + 1
        else:
            found += [row, *panels]
    return found


def _lines(panels: tuple[Panel, ...], number: int, y: int) -> tuple[list[Model], int]:
    found: list[Model] = []
    x = height = 0
    for panel in panels:
        if not 0 < panel.width <= COLUMNS:
            raise ValueError(f"the panel {panel.title!r} is {panel.width} columns wide, of {COLUMNS}")
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        number += 1
        found.append(panel.model(number, x, y))
        x, height = x + panel.width, max(height, panel.height)
    return found, y + height


def _others() -> Model:
    return {
        "type": "dashboards",
        "title": "Dutycycle",
        "tags": [TAG],
        "asDropdown": True,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "The other dashboards, with this one's filters and time range",
        "url": "",
    }
