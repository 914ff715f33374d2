"""Prometheus' HTTP API, as dashboards ask it."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

Row = dict[str, Any]


def instant(url: str, query: str, at: float) -> list[Row]:
    """A vector. Raises AssertionError where the query is refused."""
    return _results(_post(f"{url}/api/v1/query", {"query": query, "time": at}))


def ranged(url: str, query: str, start: float, end: float, step: float) -> list[Row]:
    """A matrix."""
    return _results(_post(f"{url}/api/v1/query_range", {"query": query, "start": start, "end": end, "step": step}))


def label_values(url: str, label: str, selector: str | None, start: float, end: float) -> list[str]:
    """Of the series that a selector matches, in the range."""
    asked = {"start": start, "end": end, **({"match[]": selector} if selector else {})}
    with urllib.request.urlopen(f"{url}/api/v1/label/{label}/values?{urllib.parse.urlencode(asked)}") as response:
        values: list[str] = json.load(response)["data"]
    return values


def _results(answer: dict[str, Any]) -> list[Row]:
    if answer["resultType"] == "scalar":
        return [{"metric": {}, "value": answer["result"]}]
    rows: list[Row] = answer["result"]
    return rows


def _post(url: str, form: dict[str, Any]) -> dict[str, Any]:
    body = urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(url, body, timeout=120) as response:
            data: dict[str, Any] = json.load(response)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{json.load(error).get('error')}\n{form['query']}") from error
    return data
