"""What the dashboards say where nothing is known: no number, and no histogram of zeros."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dutycycle_dashboards import render
from tests.dashboards.answers.fleet import HOUR, MIDNIGHT
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

SAYS_SO = {"Broken now"}
"""Panels whose news it is that nobody answers."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    directory: Path = tmp_path_factory.mktemp("nothing")
    with PrometheusServer(directory) as server:
        yield server


@pytest.mark.parametrize("uid", render.dashboards())
@pytest.mark.parametrize("hours", [6, 7 * 24])
def test_nothing_known_is_no_number(uid: str, hours: float, empty: PrometheusServer) -> None:
    board = Dashboard(empty.url, render.dashboards()[uid], MIDNIGHT - hours * HOUR, MIDNIGHT)
    said: list[Any] = [
        (panel["title"], target["refId"])
        for panel in board.panels()
        for target in panel["targets"]
        if panel["title"] not in SAYS_SO and board.ask(panel, target)
    ]
    assert said == []
