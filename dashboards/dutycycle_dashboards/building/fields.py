"""How fields look: unit, thresholds, words for values, and what differs for one of them."""

from __future__ import annotations

from collections.abc import Mapping

from dutycycle_dashboards.building.links import Link
from dutycycle_dashboards.building.panel import Model, Threshold
from dutycycle_dashboards.building.units import AS_IT_IS, QUIET


def defaults_of(
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
    """What all fields of a panel have."""
    found: Model = {
        "unit": unit,
        "noValue": no_data,
        "color": {"mode": "palette-classic" if palette else "thresholds"},
        "thresholds": thresholds_model(thresholds),
    }
    for key, value in (("decimals", decimals), ("min", least), ("max", most), ("custom", custom)):
        if value is not None:
            found[key] = value
    if texts:
        found["mappings"] = [value_mapping(texts)]
    if link is not None:
        found["links"] = [link.model()]
    return found


def thresholds_model(thresholds: tuple[Threshold, ...]) -> Model:
    """Colours by value."""
    return {"mode": "absolute", "steps": [{"color": step.color, "value": step.value} for step in thresholds]}


def from_zero(thresholds: tuple[Threshold, ...]) -> tuple[Threshold, ...]:
    """The lowest colour begins at 0. Below is what is missing: "-" is neither good nor bad."""
    lowest, *others = thresholds
    return (Threshold(None, QUIET), Threshold(0, lowest.color), *others)


def value_mapping(texts: Mapping[str, str], colors: Mapping[str, str] | None = None) -> Model:
    """Words and colours in place of values."""
    colors = colors or {}
    options: Model = {}
    for place, value in enumerate({**texts, **colors}):
        options[value] = {"text": texts.get(value, value), "index": place}
        if value in colors:
            options[value]["color"] = colors[value]
    return {"type": "value", "options": options}


def color_override(name: str, color: str) -> Model:
    """The series of this name in this colour."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
    }


def label_override(name: str, texts: Mapping[str, str] | None) -> Model:
    """The field of this name as it is, or with other words in place of its values."""
    properties: list[Model] = [{"id": "unit", "value": AS_IT_IS}]
    if texts:
        properties.append({"id": "mappings", "value": [value_mapping(texts)]})
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}
