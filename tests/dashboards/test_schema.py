"""The dashboards are what Grafana's own types say: of the dashboard, of each panel's kind and of each query."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from dutycycle_dashboards.render import dashboards
from tests.required import lacking

SCHEMA = Path(__file__).resolve().parents[2] / ".venv" / "grafana-schema.json"
MODELS = dashboards()

Checked = Callable[[dict[str, Any]], list[str]]


@pytest.fixture(scope="module")
def checked() -> Checked:
    """What Grafana's types have against a dashboard, each objection with the place that it is about."""
    if not SCHEMA.exists():
        lacking(f"{SCHEMA.name} (`make test` makes it)")
    definitions = json.loads(SCHEMA.read_text())["definitions"]
    made: dict[str, jsonschema_rs.Draft7Validator] = {}

    def objections(kind: str, value: dict[str, Any], where: str) -> Iterator[str]:
        if kind not in definitions:
            yield f"{where}: there is no type {kind}"
            return
        if kind not in made:
            made[kind] = jsonschema_rs.Draft7Validator({"$ref": f"#/definitions/{kind}", "definitions": definitions})
        for error in made[kind].iter_errors(value):
            yield f"{where}/{'/'.join(map(str, error.instance_path))}: {error.message[:300]}"

    def panels(listed: list[dict[str, Any]], where: str) -> Iterator[str]:
        for panel in listed:
            name = f"{where}/{panel.get('title')}"
            kind = "Panel_" + panel["type"].replace("-", "_")
            yield from panels(panel.get("panels", []), name)
            # What is folded in a row is checked by its own kind, above.
            yield from objections(kind, panel | ({"panels": []} if panel["type"] == "row" else {}), name)

    def all_of_it(model: dict[str, Any]) -> list[str]:
        return [*objections("Frame", model, model["uid"]), *panels(model["panels"], model["uid"])]

    return all_of_it


@pytest.mark.parametrize("uid", MODELS)
def test_a_dashboard_is_of_grafanas_types(uid: str, checked: Checked) -> None:
    assert checked(MODELS[uid]) == []


def of_type(model: dict[str, Any], *kinds: str) -> dict[str, Any]:
    """The first panel of one of these kinds, folded or not."""
    every = [inner for panel in model["panels"] for inner in (panel, *panel.get("panels", []))]
    return next(panel for panel in every if panel["type"] in kinds)


def _dashboard(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda model: model.__setitem__(key, value)


def _panel(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(model: dict[str, Any]) -> None:
        part: Any = of_type(model, "stat", "table", "timeseries", "barchart")
        for key in path[:-1]:
            part = part[int(key) if isinstance(part, list) else key]
        part[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_dashboard("schemaVersion", "41"), id="a string for a number"),
        pytest.param(_dashboard("tags", "dutycycle"), id="a string for a list"),
        pytest.param(_dashboard("graphTooltip", 7), id="a number that means nothing"),
        pytest.param(_dashboard("colour", "red"), id="an unknown key of the dashboard"),
        pytest.param(_dashboard("templating", {"list": [{"name": "x", "type": "guess"}]}), id="an unknown variable"),
        pytest.param(_panel("titel", value="x"), id="an unknown key of a panel"),
        pytest.param(_panel("gridPos", "w", value="12"), id="a string for a width"),
        pytest.param(_panel("options", "colour", value="x"), id="an unknown option of a panel's kind"),
        pytest.param(_panel("fieldConfig", "defaults", "units", value="s"), id="an unknown setting of fields"),
        pytest.param(_panel("fieldConfig", "defaults", "custom", value={"wobble": 1}), id="an unknown custom setting"),
        pytest.param(_panel("targets", "0", "instant", value="yes"), id="a string for a truth value in a query"),
        pytest.param(_panel("targets", "0", "query", value="up"), id="an unknown key of a query"),
        pytest.param(_panel("targets", "0", "format", value="graph"), id="an unknown format of a query"),
        pytest.param(_panel("type", value="graph"), id="an Angular panel"),
    ],
)
def test_what_is_not_of_grafanas_types_is_refused(spoil: Callable[[dict[str, Any]], None], checked: Checked) -> None:
    """The schema would not be much of a test if it took everything."""
    model = copy.deepcopy(next(iter(MODELS.values())))
    assert checked(model) == []
    spoil(model)
    assert checked(model) != []
