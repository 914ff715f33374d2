"""Panels of each kind but tables: numbers, lines, bars, heatmaps, states over time, text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dutycycle_dashboards.building.fields import color_override, defaults_of, from_zero, label_override
from dutycycle_dashboards.building.links import Link
from dutycycle_dashboards.building.panel import PLAIN, Model, Panel, Target, Threshold
from dutycycle_dashboards.building.units import COUNT, NO_DATA, PERCENT


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
        defaults=defaults_of(unit, from_zero(thresholds), no_data, decimals=decimals, link=link, texts=texts),
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
        defaults=defaults_of(unit, PLAIN, no_data, least=least, most=most, custom=custom, link=link, palette=True),
        overrides=tuple(color_override(name, color) for name, color in (colors or {}).items()),
        interval=interval,
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
        defaults=defaults_of(
            unit,
            thresholds or PLAIN,
            no_data,
            least=0,
            most=most,
            custom={"fillOpacity": 80, "lineWidth": 0},
            palette=not thresholds,
        ),
        overrides=(label_override(x, texts),),
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
    made = defaults_of(
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
