"""What Grafana makes of a dashboard's JSON before it asks Prometheus: variables and steps.

As far as our dashboards use it, after Grafana's own code: `@grafana/prometheus` (escaping), `variables` (chained query
variables, All, custom all values) and the backend's interval calculation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.dashboards.answers.asking import instant, label_values, ranged

Model = Mapping[str, Any]
Row = dict[str, Any]

ALL = "$__all"
SCRAPE_MS = 30_000
"""The scrape interval that the data source is set to: the fleet's. Grafana takes it to be 15 s unless it is told."""
COLUMN = 60
"""Pixels of a column of the grid: a panel asks for a point each."""
MOST_POINTS = 11_000

_REFERENCE = re.compile(r"\$(?P<plain>\w+)|\$\{(?P<braced>\w+)(?::(?P<format>\w+))?\}|\[\[(?P<old>\w+)\]\]")
_ROUNDED = (
    (10, 1),
    (15, 10),
    (35, 20),
    (75, 50),
    (150, 100),
    (350, 200),
    (750, 500),
    (1_500, 1_000),
    (3_500, 2_000),
    (7_500, 5_000),
    (12_500, 10_000),
    (17_500, 15_000),
    (25_000, 20_000),
    (45_000, 30_000),
    (90_000, 60_000),
    (210_000, 120_000),
    (450_000, 300_000),
    (750_000, 600_000),
    (1_050_000, 900_000),
    (1_500_000, 1_200_000),
    (2_700_000, 1_800_000),
    (5_400_000, 3_600_000),
    (9_000_000, 7_200_000),
    (16_200_000, 10_800_000),
    (32_400_000, 21_600_000),
    (86_400_000, 43_200_000),
    (604_800_000, 86_400_000),
)
"""Milliseconds below which a step is rounded to what."""
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable stands for. `plain` values are those of variables that take one, which are no regexes."""

    values: tuple[str, ...]
    plain: bool
    everything: str | None = None
    """The custom value of All while All is chosen: it is filled in as it is."""


class Dashboard:
    """A dashboard over a range (seconds since 1970), with its variables resolved one after the other.

    `chosen` are variables that a link or a person sets.
    """

    def __init__(
        self, url: str, model: Model, start: float, end: float, chosen: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._url, self._model = url, model
        self._start, self._end = start, end
        self.variables: dict[str, Value] = {}
        self.options: dict[str, list[str]] = {}
        for variable in model["templating"]["list"]:
            self._resolve(variable, (chosen or {}).get(variable["name"]))

    def panels(self) -> list[Model]:
        """Those that ask, also in rows that are folded."""
        flat = [panel for row in self._model["panels"] for panel in (row, *row.get("panels", ()))]
        return [panel for panel in flat if panel.get("targets")]

    def query(self, panel: Model, target: Model) -> str:
        """A target's PromQL with everything filled in."""
        step = self._step(panel, target)
        return self._filled(target["expr"], step)

    def ask(self, panel: Model, target: Model) -> list[Row]:
        """What Prometheus answers to it: a vector at the range's end, or a matrix."""
        query = self.query(panel, target)
        if target.get("instant"):
            return instant(self._url, query, self._end)
        step = self._step(panel, target) / 1000
        # Grafana's backend aligns a range to its step.
        return ranged(self._url, query, self._start // step * step, self._end // step * step, step)

    def filled(self, text: str) -> str:
        """Any text of the dashboard's, such as a PromQL expression of no panel."""
        return self._filled(text, self._interval(1000, SCRAPE_MS))

    def _step(self, panel: Model, target: Model) -> int:
        points = panel.get("maxDataPoints") or COLUMN * panel["gridPos"]["w"]
        least = self._filled(target.get("interval", ""), None)
        return self._interval(points, _milliseconds(least) if least else SCRAPE_MS)

    def _interval(self, points: int, least: int) -> int:
        span = (self._end - self._start) * 1000
        step = max(_rounded(span / points), least)
        return max(step, _rounded(span / MOST_POINTS)) if span / step > MOST_POINTS else step

    def _filled(self, text: str, step: int | None) -> str:
        def value(match: re.Match[str]) -> str:
            name = match["plain"] or match["braced"] or match["old"]
            known = self._builtin(name, step)
            if known is not None:
                return known
            if name.isdigit():
                # A group of a regex: what is no variable stays as it is.
                return match[0]
            if name not in self.variables:
                raise LookupError(f"no variable {name!r}: {text}")
            return _written(self.variables[name], match["format"])

        return _REFERENCE.sub(value, text)

    def _builtin(self, name: str, step: int | None) -> str | None:
        seconds = round(self._end - self._start)
        found = {
            "__range": f"{seconds}s",
            "__range_s": f"{seconds}",
            "__range_ms": f"{seconds * 1000}",
            "__from": f"{self._start * 1000:.0f}",
            "__to": f"{self._end * 1000:.0f}",
        }
        if step is not None:
            found["__interval"] = _duration(step)
            found["__interval_ms"] = f"{step}"
            found["__rate_interval"] = _duration(max(step + SCRAPE_MS, 4 * SCRAPE_MS))
        return found.get(name)

    def _resolve(self, variable: Model, chosen: Sequence[str] | None) -> None:
        name, kind = variable["name"], variable["type"]
        plain = not (variable.get("multi") or variable.get("includeAll"))
        if kind in ("datasource", "textbox", "constant"):
            self.variables[name] = Value((variable["query"],), plain=True)
            return
        if kind == "custom":
            options = [option.strip() for option in variable["query"].split(",")]
        elif kind == "query":
            options = self._asked(variable)
        else:
            raise LookupError(f"a variable of the kind {kind!r}")
        self.options[name] = options
        current = chosen if chosen is not None else variable.get("current", {}).get("value", ())
        wanted = [current] if isinstance(current, str) else list(current)
        if wanted == [ALL]:
            all_value = variable.get("allValue")
            self.variables[name] = Value(tuple(options), plain, all_value or None)
            return
        # What is no longer there is given up; without any that is, the first is taken.
        kept = [value for value in wanted if value in options] or options[:1]
        self.variables[name] = Value(tuple(kept), plain)

    def _asked(self, variable: Model) -> list[str]:
        query = variable["query"] if isinstance(variable["query"], str) else variable["query"]["query"]
        query = self._filled(query, self._interval(1000, SCRAPE_MS))
        if (of := re.fullmatch(r"label_values\((?:(?P<selector>.+),\s*)?(?P<label>\w+)\)", query)) is not None:
            found = label_values(self._url, of["label"], of["selector"], self._start, self._end)
        elif (of := re.fullmatch(r"query_result\((?P<expr>.+)\)", query)) is not None:
            found = [_line(row) for row in instant(self._url, of["expr"], self._end)]
        else:
            raise LookupError(f"no query of a variable: {query}")
        found = _matched(found, variable.get("regex") or "")
        return sorted(found) if variable.get("sort") == 1 else found


def _line(row: Row) -> str:
    """A result as `query_result` has it."""
    labels = ",".join(f'{name}="{value}"' for name, value in row["metric"].items() if name != "__name__")
    time, value = row["value"]
    return f"{row['metric'].get('__name__', '')}{{{labels}}} {value} {float(time) * 1000:.0f}"


def _matched(values: Sequence[str], regex: str) -> list[str]:
    """What a variable's regex leaves: its first group where it has one."""
    if not regex:
        return list(dict.fromkeys(values))
    pattern = re.compile(regex.removeprefix("/").removesuffix("/"))
    matches = [match for value in values if (match := pattern.search(value))]
    return list(dict.fromkeys(match[1] if pattern.groups else match[0] for match in matches))


def _written(value: Value, form: str | None) -> str:
    if value.everything is not None:
        return value.everything
    match form:
        case None:
            if value.plain:
                return value.values[0].replace("\\", "\\\\").replace("'", "\\\\'") if value.values else ""
            return _either([_escaped(one, "\\\\") for one in value.values])
        case "regex":
            return _either([_escaped(one, "\\") for one in value.values])
        case "raw" | "csv":
            return ",".join(value.values)
        case "pipe":
            return "|".join(value.values)
    raise LookupError(f"no format {form!r}")


def _escaped(text: str, escape: str) -> str:
    """As a regex; in a PromQL string every backslash is written twice."""
    found = text.replace("\\", escape * 2)
    return re.sub(r"[$^*{}\[\]'+?.()|]", lambda match: escape + match[0], found)


def _either(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({'|'.join(values)})"


def _rounded(milliseconds: float) -> int:
    return next((step for below, step in _ROUNDED if milliseconds < below), 31_536_000_000)


def _milliseconds(duration: str) -> int:
    match = re.fullmatch(r">?(\d+)(ms|[smhdw])", duration)
    if match is None:
        raise LookupError(f"no interval: {duration!r}")
    return int(match[1]) * _UNITS[match[2]]


def _duration(milliseconds: int) -> str:
    for unit in ("d", "h", "m", "s"):
        if milliseconds % _UNITS[unit] == 0:
            return f"{milliseconds // _UNITS[unit]}{unit}"
    return f"{milliseconds}ms"
