"""Panels: what each kind shows, as plain data of Grafana's classic dashboard model (schema 41).

A panel is made by the function of its kind and placed by its board. `may_be_empty` of a target is the reason why its
query may rightly have no answer; it is for tests and is not rendered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dutycycle_dashboards.links import DATASOURCE, Link

Model = dict[str, Any]

NO_DATA = "Nothing of this was measured in the range"
GOOD, FAIR, BAD, QUIET = "green", "yellow", "red", "text"

PERCENT = "percent"
RATIO = "percentunit"
GPU_HOURS = "suffix:GPU-h"
GPUS = "suffix:GPUs"
KWH = "kwatth"
SECONDS = "s"
COUNT = "short"
BYTES = "bytes"
BYTES_PER_SECOND = "Bps"
WATTS = "watt"
CELSIUS = "celsius"
HERTZ = "hertz"
WHEN = "dateTimeAsIso"
"""Of milliseconds since 1970: multiply Prometheus' seconds by 1000."""
CORES = "suffix:cores"
AS_IT_IS = "string"
"""Of labels: with any other unit Grafana shows those that are digits as numbers, the process 4711 as 4.71 K."""


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
_NARROW = 90
"""Pixels of a table's narrowest column: with Grafana's 150 the last columns are out of sight."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a label, or the value of the target at `value` (0 is the first). `gauge` draws a bar from
    `least` to `most` in the colours of the thresholds. `width` in pixels; without one the space is shared.
    """

    title: str
    label: str = ""
    value: int | None = None
    unit: str = COUNT
    decimals: int | None = None
    width: int | None = None
    link: Link | None = None
    gauge: bool = False
    least: float | None = None
    most: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """What is shown in place of these values."""
    or_link: Link | None = None
    """A second way to go on."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """The colours of these values."""
    missing: str = "-"
    """What an empty cell says."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, `width` x `height` in cells of 24 columns. `interval` is the least step of its range queries."""

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
    links: tuple[Link, ...] = ()
    form: Literal["time_series", "table", "heatmap"] = "time_series"
    instant: bool = False
    interval: str = ""
    max_points: int | None = None
    repeat: str = ""

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
        if self.interval:
            found["interval"] = self.interval
        if self.max_points is not None:
            found["maxDataPoints"] = self.max_points
        if self.repeat:
            found |= {"repeat": self.repeat, "repeatDirection": "h", "maxPerRow": 4}
        return found

    def _target(self, place: int, target: Target) -> Model:
        return {
            "refId": ref(place),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": target.expr,
            # Grafana puts a histogram's buckets in order by their names.
            "legendFormat": target.legend or ("{{le}}" if self.form == "heatmap" else "__auto"),
            "format": self.form,
            "instant": self.instant,
            "range": not self.instant,
        }


def ref(place: int) -> str:
    """The letter by which Grafana knows the target at this place, of 26 at most."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place]


def stat(
    title: str,
    description: str,
    *targets: Target,
    unit: str = COUNT,
    decimals: int | None = None,
    thresholds: tuple[Threshold, ...] = PLAIN,
    no_data: str = NO_DATA,
    link: Link | None = None,
    texts: Mapping[str, str] | None = None,
    width: int = 4,
    height: int = 4,
) -> Panel:
    """Single numbers, one per series, at the range's end. `no_data` is written in one line however small it becomes:
    of more than `LINE` characters a column nobody can read it.
    """
    return Panel(
        kind="stat",
        title=title,
        description=description,
        targets=targets,
        width=width,
        height=height,
        options={
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "showPercentChange": False,
            "textMode": "value_and_name" if len(targets) > 1 else "auto",
            "wideLayout": True,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
        defaults=_defaults(unit, _from_zero(thresholds), no_data, decimals=decimals, link=link, texts=texts),
        instant=True,
    )


def timeseries(
    title: str,
    description: str,
    *targets: Target,
    unit: str = COUNT,
    least: float | None = 0,
    most: float | None = None,
    soft_most: float | None = None,
    stacked: bool = False,
    bars: bool = False,
    fill: int = 0,
    table_legend: bool = False,
    legend: bool = True,
    no_data: str = NO_DATA,
    link: Link | None = None,
    colors: Mapping[str, str] | None = None,
    interval: str = "",
    gap: float | None = None,
    repeat: str = "",
    width: int = 12,
    height: int = 8,
) -> Panel:
    """Lines (or bars) over time. `colors` by the series' name. Lines end where samples are missing, and join over `gap`
    milliseconds at most where it is given. The axis reaches `soft_most` at least.
    """
    custom: Model = {
        "drawStyle": "bars" if bars else "line",
        "lineWidth": 1,
        "fillOpacity": 60 if bars or stacked else fill,
        "showPoints": "auto",
        "spanNulls": gap if gap is not None else False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    if soft_most is not None:
        custom["axisSoftMax"] = soft_most
    display = "table" if table_legend else "list"
    return Panel(
        kind="timeseries",
        title=title,
        description=description,
        targets=targets,
        width=width,
        height=height,
        options={
            "legend": {
                "calcs": ["mean", "max"] if table_legend else [],
                "displayMode": display if legend else "hidden",
                "placement": "right" if table_legend else "bottom",
                "showLegend": legend,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        defaults=_defaults(unit, PLAIN, no_data, least=least, most=most, custom=custom, link=link, palette=True),
        overrides=tuple(_color(name, color) for name, color in (colors or {}).items()),
        interval=interval,
        repeat=repeat,
    )


def barchart(
    title: str,
    description: str,
    target: Target,
    *,
    x: str,
    unit: str = COUNT,
    series: str = "",
    most: float | None = None,
    thresholds: tuple[Threshold, ...] = (),
    texts: Mapping[str, str] | None = None,
    no_data: str = NO_DATA,
    width: int = 12,
    height: int = 9,
) -> Panel:
    """Bars over the values of the label `x`, sorted by it and shown as `texts` have them; asked at the range's end.
    `series` names the bars, which have the colours of the thresholds where there are any.
    """
    name = series or title
    return Panel(
        kind="barchart",
        title=title,
        description=description,
        targets=(target,),
        width=width,
        height=height,
        form="table",
        instant=True,
        options={
            "xField": x,
            "orientation": "vertical",
            "showValue": "auto",
            "stacking": "normal",
            "groupWidth": 0.9,
            "barWidth": 0.97,
            "barRadius": 0,
            "fullHighlight": False,
            "xTickLabelRotation": 0,
            "xTickLabelMaxLength": 20,
            "xTickLabelSpacing": 0,
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
        defaults=_defaults(
            unit,
            thresholds or PLAIN,
            no_data,
            least=0,
            most=most,
            custom={"fillOpacity": 80, "lineWidth": 0},
            palette=not thresholds,
        ),
        overrides=(_as_it_is(x, texts),),
        transformations=(
            {"id": "sortBy", "options": {"sort": [{"field": x, "desc": False}]}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {x: 0, "Value": 1},
                    "renameByName": {"Value": name},
                },
            },
        ),
    )


def heatmap(
    title: str,
    description: str,
    target: Target,
    *,
    unit: str = PERCENT,
    rows: str = "",
    buckets: bool = False,
    least: float | None = None,
    most: float | None = None,
    scheme: str = "RdYlGn",
    no_data: str = NO_DATA,
    interval: str = "",
    max_points: int = 200,
    width: int = 24,
    height: int = 10,
) -> Panel:
    """Colours over time: one row per series (legend), or, with `buckets`, a classic histogram's buckets by `le`.
    `rows` is the unit of the row's axis where that is a number (of buckets' edges). `least` and `most` fix the colours.
    """
    color: Model = {
        "mode": "scheme",
        "scheme": scheme,
        "fill": "dark-orange",
        "scale": "exponential",
        "exponent": 0.5 if buckets else 1,
        "steps": 64,
        # Grafana turns schemes of two colours about: unless they are turned again, low is green.
        "reverse": scheme == "RdYlGn",
    }
    color |= {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    return Panel(
        kind="heatmap",
        title=title,
        description=description,
        targets=(target,),
        width=width,
        height=height,
        form="heatmap" if buckets else "time_series",
        interval=interval,
        max_points=max_points,
        options={
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": unit},
            "color": color,
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-9 if buckets else -1},
            "legend": {"show": True},
            "rowsFrame": {"layout": "le" if buckets else "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False} | ({"unit": rows} if rows else {}),
        },
        defaults={"custom": {"scaleDistribution": {"type": "linear"}}, "noValue": no_data, "unit": unit},
    )


def state_timeline(
    title: str,
    description: str,
    *targets: Target,
    unit: str = COUNT,
    texts: Mapping[str, str] | None = None,
    thresholds: tuple[Threshold, ...] = PLAIN,
    no_data: str = NO_DATA,
    interval: str = "",
    max_points: int | None = None,
    form: Literal["time_series", "table"] = "time_series",
    mappings: tuple[Model, ...] = (),
    transformations: tuple[Model, ...] = (),
    link: Link | None = None,
    width: int = 24,
    height: int = 8,
) -> Panel:
    """One row per series, with what it was when. `texts`, `mappings` and `thresholds` say how a value looks. From a
    `form` of table, `transformations` make the rows.
    """
    made = _defaults(
        unit,
        thresholds,
        no_data,
        texts=texts,
        link=link,
        custom={"fillOpacity": 80, "lineWidth": 0},
    )
    if mappings:
        made["mappings"] = [*made.get("mappings", ()), *mappings]
    return Panel(
        kind="state-timeline",
        title=title,
        description=description,
        targets=targets,
        width=width,
        height=height,
        interval=interval,
        max_points=max_points,
        form=form,
        transformations=transformations,
        options={
            "alignValue": "left",
            "mergeValues": True,
            "rowHeight": 0.9,
            "showValue": "auto",
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
        defaults=made,
    )


def table(
    title: str,
    description: str,
    targets: Sequence[Target],
    columns: Sequence[Column],
    *,
    sort: str = "",
    ascending: bool = False,
    no_data: str = NO_DATA,
    width: int = 24,
    height: int = 10,
) -> Panel:
    """Rows by the labels that the targets share; asked at the range's end. Only the columns are shown, in their order.

    Sorted by the column with the title `sort`, the largest first unless `ascending`. Every target but the first only
    has rows that the first has, too: where one alone answers, it is the first.
    """
    fields = {_field(column, len(targets)): column for column in columns}
    rename = {name: column.title for name, column in fields.items()}
    if len(targets) > 1:
        # Where all targets but one have no answer, Grafana gives that one's values no letter.
        first = next((column.title for column in columns if column.value == 0), None)
        rename |= {"Value": first} if first else {}
    shown: Model = {"id": "filterFieldsByName", "options": {"include": {"names": [*fields, *rename.keys() - fields]}}}
    order: Model = {
        "id": "organize",
        "options": {
            "excludeByName": {},
            "indexByName": {name: place for place, name in enumerate(fields)},
            "renameByName": rename,
        },
    }
    return Panel(
        kind="table",
        title=title,
        description=description,
        targets=tuple(targets),
        width=width,
        height=height,
        form="table",
        instant=True,
        options={
            "cellHeight": "sm",
            "enablePagination": True,
            "frameIndex": 0,
            "showHeader": True,
            "sortBy": [{"displayName": sort, "desc": not ascending}] if sort else [],
        },
        defaults={
            "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False}
            | {"minWidth": _NARROW},
            "noValue": no_data,
            "unit": COUNT,
        },
        overrides=tuple(_column(column) for column in columns),
        transformations=(*([{"id": "merge", "options": {}}] if len(targets) > 1 else []), shown, order),
    )


def text(title: str, description: str, content: str, *, width: int = 24, height: int = 3) -> Panel:
    """Markdown."""
    return Panel(
        kind="text",
        title=title,
        description=description,
        targets=(),
        width=width,
        height=height,
        options={"mode": "markdown", "content": content},
        defaults={},
    )


def _defaults(
    unit: str,
    thresholds: tuple[Threshold, ...],
    no_data: str,
    *,
    decimals: int | None = None,
    least: float | None = None,
    most: float | None = None,
    custom: Model | None = None,
    link: Link | None = None,
    texts: Mapping[str, str] | None = None,
    palette: bool = False,
) -> Model:
    found: Model = {
        "unit": unit,
        "noValue": no_data,
        "color": {"mode": "palette-classic" if palette else "thresholds"},
        "thresholds": _thresholds(thresholds),
    }
    for key, value in (("decimals", decimals), ("min", least), ("max", most), ("custom", custom)):
        if value is not None:
            found[key] = value
    if texts:
        found["mappings"] = [_mapping(texts)]
    if link is not None:
        found["links"] = [link.model()]
    return found


def _thresholds(thresholds: tuple[Threshold, ...]) -> Model:
    return {"mode": "absolute", "steps": [{"color": step.color, "value": step.value} for step in thresholds]}


def _from_zero(thresholds: tuple[Threshold, ...]) -> tuple[Threshold, ...]:
    """The lowest colour begins at 0. Below is what is missing: "-" is neither good nor bad."""
    lowest, *others = thresholds
    return (Threshold(None, QUIET), Threshold(0, lowest.color), *others)


def _mapping(texts: Mapping[str, str], colors: Mapping[str, str] | None = None) -> Model:
    colors = colors or {}
    options: Model = {}
    for place, value in enumerate({**texts, **colors}):
        options[value] = {"text": texts.get(value, value), "index": place}
        if value in colors:
            options[value]["color"] = colors[value]
    return {"type": "value", "options": options}


def _color(name: str, color: str) -> Model:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
    }


def _as_it_is(name: str, texts: Mapping[str, str] | None) -> Model:
    properties: list[Model] = [{"id": "unit", "value": AS_IT_IS}]
    if texts:
        properties.append({"id": "mappings", "value": [_mapping(texts)]})
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}


def _field(column: Column, targets: int) -> str:
    if column.value is None:
        return column.label
    return f"Value #{ref(column.value)}" if targets > 1 else "Value"


def _column(column: Column) -> Model:
    # Without it a cell that is empty shows the text of an empty table.
    properties: list[Model] = [{"id": "noValue", "value": column.missing}]
    properties.append({"id": "unit", "value": AS_IT_IS if column.value is None else column.unit})
    for key, value in (
        ("decimals", column.decimals),
        ("min", column.least),
        ("max", column.most),
        ("custom.width", column.width),
    ):
        if value is not None:
            properties.append({"id": key, "value": value})
    if column.thresholds:
        properties.append({"id": "color", "value": {"mode": "thresholds"}})
        properties.append({"id": "thresholds", "value": _thresholds(_from_zero(column.thresholds))})
    if column.gauge:
        properties.append({"id": "custom.cellOptions", "value": {"type": "gauge", "mode": "basic"}})
    elif column.thresholds or column.colors:
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    if column.texts or column.colors:
        properties.append({"id": "mappings", "value": [_mapping(column.texts, column.colors)]})
    if links := [link.model() for link in (column.link, column.or_link) if link is not None]:
        properties.append({"id": "links", "value": links})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}
