"""What Grafana does not check: that a dashboard leads somewhere, fits the grid, and says what it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dutycycle_dashboards.building.panel import LINE
from dutycycle_dashboards.building.units import AS_IT_IS, QUIET
from dutycycle_dashboards.render import dashboards

Model = dict[str, Any]

MODELS = dashboards()
BOARDS = pytest.mark.parametrize("uid", MODELS)

COLUMNS = 24
ANGULAR = {"graph", "singlestat", "table-old", "grafana-worldmap-panel", "grafana-piechart-panel"}
AT_ONE_INSTANT = {"table", "barchart", "stat", "gauge", "bargauge", "piechart"}
SHOWS_NOTHING_MEASURED = {"row", "text"}
BUILT_IN = {
    "__from",
    "__to",
    "__interval",
    "__interval_ms",
    "__range",
    "__range_s",
    "__range_ms",
    "__rate_interval",
    "__all",
    "__url_time_range",
    "__data",
    "__field",
    "__value",
    "__series",
    "__dashboard",
    "timeFilter",
}
VARIABLE = re.compile(r"\$\{([a-zA-Z_]\w*)[^}]*\}|\[\[(\w+)[^\]]*\]\]|\$([a-zA-Z_]\w*)")
"""What begins with a digit is a group of a regular expression."""


def every_panel(model: Model) -> Iterator[Model]:
    """Rows, panels, and the panels folded in rows."""
    for panel in model["panels"]:
        yield panel
        yield from panel.get("panels", [])


def shown(model: Model) -> Iterator[Model]:
    """Panels that show something measured."""
    return (panel for panel in every_panel(model) if panel["type"] not in SHOWS_NOTHING_MEASURED)


def texts(value: Any) -> Iterator[str]:
    """Every string of a part of a dashboard."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def variables(model: Model) -> set[str]:
    return {variable["name"] for variable in model["templating"]["list"]}


def used(text: str) -> set[str]:
    """The variables that a text has in it."""
    return {next(filter(None, found)) for found in VARIABLE.findall(text)}


def test_uids_and_titles_are_unique() -> None:
    assert [uid for uid in MODELS if MODELS[uid]["uid"] != uid] == []
    titles = Counter(model["title"] for model in MODELS.values())
    assert [title for title, count in titles.items() if count > 1] == []


@BOARDS
def test_a_dashboard_says_what_it_is(uid: str) -> None:
    model = MODELS[uid]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", uid)
    assert model["title"]
    assert model["description"]
    assert "dutycycle" in model["tags"]
    assert model["schemaVersion"] == 41
    assert model["time"]["from"].startswith("now-")
    assert model["time"]["to"] == "now"
    assert re.fullmatch(r"[1-9][0-9]*[smh]", model["refresh"])
    assert model.get("id") is None


@BOARDS
def test_ids_of_panels_are_unique(uid: str) -> None:
    ids = Counter(panel["id"] for panel in every_panel(MODELS[uid]))
    assert [number for number, count in ids.items() if count > 1 or number < 1] == []


@BOARDS
def test_no_two_panels_of_a_kind_have_the_same_title(uid: str) -> None:
    """A number and its course over time may."""
    titles = Counter((panel["type"], panel["title"]) for panel in every_panel(MODELS[uid]))
    assert [title for title, count in titles.items() if count > 1] == []


@BOARDS
def test_no_panel_is_of_angular(uid: str) -> None:
    assert [panel["title"] for panel in every_panel(MODELS[uid]) if panel["type"] in ANGULAR] == []


@BOARDS
def test_panels_are_within_the_grid_and_beside_each_other(uid: str) -> None:
    for listed in (MODELS[uid]["panels"], *(panel.get("panels", []) for panel in MODELS[uid]["panels"])):
        cells = [(panel["title"], panel["gridPos"]) for panel in listed]
        for title, at in cells:
            assert at["x"] >= 0, title
            assert at["y"] >= 0, title
            assert at["w"] > 0, title
            assert at["h"] > 0, title
            assert at["x"] + at["w"] <= COLUMNS, title
        assert [(one, other) for (one, a), (other, b) in combinations(cells, 2) if overlap(a, b)] == []


def overlap(a: Model, b: Model) -> bool:
    beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
    return not (beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])


@BOARDS
def test_every_panel_says_what_it_shows_and_what_it_means_that_there_is_nothing(uid: str) -> None:
    for panel in shown(MODELS[uid]):
        where = f"{uid}/{panel['title']}"
        assert panel["title"].strip(), where
        assert len(panel.get("description", "")) >= 20, f"{where} has no description"
        assert panel["targets"], where
        assert panel["fieldConfig"]["defaults"].get("noValue"), f"{where} says nothing where there is no data"


@BOARDS
def test_every_number_has_a_unit(uid: str) -> None:
    """State timelines show words."""
    for panel in shown(MODELS[uid]):
        units = [panel["fieldConfig"]["defaults"].get("unit")]
        overrides = panel["fieldConfig"]["overrides"]
        units += [one["value"] for each in overrides for one in each["properties"] if one["id"] == "unit"]
        if panel["type"] == "heatmap":
            units += [panel["options"].get("yAxis", {}).get("unit"), panel["options"].get("cellValues", {}).get("unit")]
        if panel["type"] != "state-timeline":
            assert any(units), f"{uid}/{panel['title']} has no unit"


@BOARDS
def test_tables_bars_and_numbers_ask_at_one_instant(uid: str) -> None:
    """A range query would count every step of the range."""
    for panel in shown(MODELS[uid]):
        for target in panel["targets"]:
            where = f"{uid}/{panel['title']}/{target['refId']}"
            assert target["instant"] is not target["range"], where
            if panel["type"] in AT_ONE_INSTANT:
                assert target["instant"], where
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@BOARDS
def test_every_query_goes_to_the_chosen_data_source(uid: str) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in shown(MODELS[uid]):
        assert [one["datasource"] for one in (panel, *panel["targets"])] == [chosen] * (1 + len(panel["targets"]))
    for variable in MODELS[uid]["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["datasource"] == chosen, variable["name"]


@BOARDS
def test_every_variable_that_is_used_is_there(uid: str) -> None:
    model = MODELS[uid]
    known = variables(model) | BUILT_IN
    parts = [*every_panel(model), *model["templating"]["list"], *model["annotations"]["list"], *model["links"]]
    for part in parts:
        name = part.get("title") or part.get("name")
        for text in texts({key: value for key, value in part.items() if key not in ("panels", "description")}):
            assert used(text) <= known, f"{uid}/{name}: {text[:200]}"


@BOARDS
def test_every_variable_is_described_and_comes_after_those_that_it_needs(uid: str) -> None:
    seen: set[str] = set()
    names = [variable["name"] for variable in MODELS[uid]["templating"]["list"]]
    assert len(set(names)) == len(names)
    for variable in MODELS[uid]["templating"]["list"]:
        needed = used(str(variable.get("query"))) | used(str(variable.get("datasource")))
        # `$res` picks the series that the values are read from: Grafana orders that by itself.
        assert needed & set(names) <= seen | {"res"}, variable["name"]
        seen.add(variable["name"])


def data_links(model: Model) -> Iterator[tuple[str, str, bool]]:
    """The title of the panel, the address, and whether it is a panel's own link."""
    for panel in every_panel(model):
        for link in panel.get("links", []):
            yield panel["title"], link.get("url", ""), True
        config = panel.get("fieldConfig", {})
        for link in config.get("defaults", {}).get("links", []):
            yield panel["title"], link["url"], False
        for override in config.get("overrides", []):
            for one in override["properties"]:
                if one["id"] == "links":
                    yield from ((panel["title"], link["url"], False) for link in one["value"])


@BOARDS
def test_links_lead_to_dashboards_and_variables_that_are_there(uid: str) -> None:
    for title, url, _ in data_links(MODELS[uid]):
        where = f"{uid}/{title}: {url}"
        if url.startswith("${alerter"):
            assert "alerter" in variables(MODELS[uid]), where
            assert re.match(r"\$\{alerter:raw\}/", url), where
            continue
        assert url.startswith("/d/"), where
        # In the query a variable of Grafana's stands for a whole `var-x=y`.
        parts = urlsplit(
            re.sub(r"\$\{(\w+):queryparam\}", r"var-\1=kept", url).replace("${__url_time_range}", "from=1&to=2")
        )
        other = parts.path.removeprefix("/d/").split("/")[0]
        assert other in MODELS, where
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        assert {"from", "to"} <= query.keys(), f"{where} loses the time range"
        assert {key.removeprefix("var-") for key in query if key.startswith("var-")} <= variables(MODELS[other]), where
        assert all(key.startswith("var-") for key in query.keys() - {"from", "to"}), where


@BOARDS
def test_values_in_links_are_encoded(uid: str) -> None:
    """A user or a job may be called anything."""
    for title, url, _ in data_links(MODELS[uid]):
        for found in re.findall(r"\$\{__(?:data|field|value)[^}]*\}", url):
            assert ":percentencode}" in found or found.endswith(":queryparam}"), f"{uid}/{title}: {found}"


@BOARDS
def test_every_dashboard_leads_to_the_others(uid: str) -> None:
    links = [link for link in MODELS[uid]["links"] if link["type"] == "dashboards"]
    assert [link for link in links if set(link["tags"]) <= set(MODELS[uid]["tags"])], "no link to the others"
    assert all(link["keepTime"] and link["includeVars"] for link in links)


def test_variables_of_a_name_take_the_same_on_every_dashboard() -> None:
    """The link to the others passes them on: of several values, or of `All`, one that takes a single value has none."""
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for model in MODELS.values():
        for variable in model["templating"]["list"]:
            kind = (bool(variable.get("multi")), bool(variable.get("includeAll")))
            kinds.setdefault(variable["name"], set()).add(kind)
    assert [name for name, found in kinds.items() if len(found) > 1] == []


@BOARDS
def test_what_a_number_says_without_data_can_be_read(uid: str) -> None:
    """It is one line, made as small as it takes."""
    for panel in shown(MODELS[uid]):
        if panel["type"] == "stat":
            assert len(panel["fieldConfig"]["defaults"]["noValue"]) <= LINE * panel["gridPos"]["w"], panel["title"]


@BOARDS
def test_what_is_missing_is_neither_good_nor_bad(uid: str) -> None:
    """Grafana shows what has no value in the colour of the lowest threshold."""
    for panel in shown(MODELS[uid]):
        config = panel["fieldConfig"]
        shades = [config["defaults"]["thresholds"]] if panel["type"] == "stat" else []
        if panel["type"] == "table":
            settings = [one for override in config["overrides"] for one in override["properties"]]
            shades += [one["value"] for one in settings if one["id"] == "thresholds"]
        assert all(shade["steps"][0]["color"] == QUIET for shade in shades), panel["title"]


@BOARDS
def test_labels_are_no_numbers(uid: str) -> None:
    """Of a process 4711 Grafana makes 4.71 K in a column of numbers, and of a bin 5 GPU-h."""
    for panel in shown(MODELS[uid]):
        units = {
            override["matcher"]["options"]: one["value"]
            for override in panel["fieldConfig"]["overrides"]
            for one in override["properties"]
            if one["id"] == "unit"
        }
        if panel["type"] == "barchart":
            assert units[panel["options"]["xField"]] == AS_IT_IS
        if panel["type"] == "table":
            names = next(one for one in panel["transformations"] if one["id"] == "organize")["options"]["renameByName"]
            labels = [title for name, title in names.items() if not name.startswith("Value")]
            assert all(units[title] == AS_IT_IS for title in labels), panel["title"]


@BOARDS
def test_low_is_red_in_heatmaps_of_utilization(uid: str) -> None:
    """As they are, Grafana shows schemes of two colours from green to red."""
    for panel in shown(MODELS[uid]):
        if panel["type"] == "heatmap":
            color = panel["options"]["color"]
            assert color["reverse"] == (color["scheme"] == "RdYlGn"), panel["title"]


@BOARDS
def test_what_links_read_says_nothing_where_there_is_nothing(uid: str) -> None:
    """Grafana hands over what the cell shows: a stand-in would be taken for a name."""
    for panel in shown(MODELS[uid]):
        for override in panel["fieldConfig"]["overrides"]:
            properties = {item["id"]: item["value"] for item in override["properties"]}
            read = re.findall(r'__data\.fields\["(.+?)"\]', str(properties.get("links", "")))
            says = {
                other["matcher"]["options"]: item["value"]
                for other in panel["fieldConfig"]["overrides"]
                for item in other["properties"]
                if item["id"] == "noValue"
            }
            assert not [title for title in read if says.get(title)], panel["title"]


@BOARDS
def test_steps_are_the_queries_own(uid: str) -> None:
    """Grafana 11.0 and 11.1 fill in no variable in a panel's."""
    assert not [panel["title"] for panel in every_panel(MODELS[uid]) if "interval" in panel]
