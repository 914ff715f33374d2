"""Tables: rows by the labels that queries share, with the columns that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dutycycle_dashboards.building.fields import from_zero, thresholds_model, value_mapping
from dutycycle_dashboards.building.links import Link
from dutycycle_dashboards.building.panel import Model, Panel, Target, Threshold, ref
from dutycycle_dashboards.building.units import AS_IT_IS, COUNT, NO_DATA

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
    handed_over = _handed_over(columns)
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
        overrides=tuple(_column(column, handed_over) for column in columns),
        transformations=(*([{"id": "merge", "options": {}}] if len(targets) > 1 else []), shown, order),
    )


def _field(column: Column, targets: int) -> str:
    if column.value is None:
        return column.label
    return f"Value #{ref(column.value)}" if targets > 1 else "Value"


def _handed_over(columns: Sequence[Column]) -> frozenset[str]:
    """The titles of the columns whose cells links read."""
    links = (link for column in columns for link in (column.link, column.or_link) if link is not None)
    return frozenset(title for link in links for title in link.fields)


def _column(column: Column, handed_over: frozenset[str]) -> Model:
    # Without it a cell that is empty shows the text of an empty table. A link would be handed what it shows.
    properties: list[Model] = [{"id": "noValue", "value": "" if column.title in handed_over else "-"}]
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
        properties.append({"id": "thresholds", "value": thresholds_model(from_zero(column.thresholds))})
    if column.gauge:
        properties.append({"id": "custom.cellOptions", "value": {"type": "gauge", "mode": "basic"}})
    elif column.thresholds or column.colors:
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    if column.texts or column.colors:
        properties.append({"id": "mappings", "value": [value_mapping(column.texts, column.colors)]})
    if links := [link.model() for link in (column.link, column.or_link) if link is not None]:
        properties.append({"id": "links", "value": links})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}
