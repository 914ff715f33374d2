"""The User board beside others, and beside GPU time of which nobody knows whose it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dutycycle_dashboards import recording, render
from dutycycle_dashboards.building.links import USER
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

NOW = 1_790_000_000
STEP, RANGE = 300, 6 * 3600
UTILIZATION = {"ann": 0.8, "a.n": 0.3, "bob": 0.2, "cyd": 0.5, "": 0.1}
"""By user. One name matches another if it is taken for a regular expression; of the last it is not known who it is."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    lines = [
        f'{recording.increase(f"workload_gpu_{kind}_seconds_total", "5m")}{{user="{user}"}} {STEP * share} {at}'
        for kind in ("allocated", "observed", "busy")
        for user, busy in UTILIZATION.items()
        for share in (busy if kind == "busy" else 1.0,)
        for at in range(NOW - RANGE, NOW + 1, STEP)
    ]
    text = "\n".join([*lines, "# EOF", ""])
    with PrometheusServer(tmp_path_factory.mktemp("user"), openmetrics=text) as running:
        yield running


@pytest.mark.parametrize(("person", "below"), [("ann", 3 / 4), ("a.n", 1 / 4), ("bob", 0), ("cyd", 2 / 4)])
def test_users_below_are_users(person: str, below: float, server: PrometheusServer) -> None:
    board = Dashboard(server.url, render.dashboards()[USER], NOW - RANGE, NOW, {"person": [person]})
    [panel] = [panel for panel in board.panels() if panel["title"] == "Users below"]
    [row] = board.ask(panel, panel["targets"][0])
    assert float(row["value"][1]) == pytest.approx(below)
