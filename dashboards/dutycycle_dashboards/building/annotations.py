"""Marks on a dashboard's panels, from Grafana's own store: those that people set, and incidents by their tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Model = dict[str, Any]

_STORE = {"type": "datasource", "uid": "grafana"}
"""As a release from 10 on writes it where a person chooses Grafana's own store."""


def built_in() -> Model:
    """What every dashboard has: marks that people set on it."""
    return {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }


def tagged(name: str, tags: Sequence[str], *, every: bool = False, color: str = "red") -> Model:
    """Incidents that have one of these tags (`every`: all of them), as `dutycycle-dashboards annotate` writes them.

    Grafana makes several tags of a variable with several values, but then leaves out what is written before it: such a
    variable's values must be whole tags.
    """
    return {
        "datasource": _STORE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "name": name,
        "target": {"type": "tags", "tags": list(tags), "matchAny": not every, "limit": 100},
    }
