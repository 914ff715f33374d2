"""What the panels of the boards of users and of the fleet say is what is true, also where a filter is set."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dutycycle_dashboards import render
from dutycycle_dashboards.building.links import FLEET, USER, USERS
from tests.dashboards.answers import truth
from tests.dashboards.answers.fleet import DAY, END, HOUR, MIDNIGHT, Fleet
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

LATER = MIDNIGHT + DAY + 2 * HOUR
CLOSE = 0.01


class Board:
    """A board over the day; `said` is a panel's answer by the value of a label."""

    def __init__(self, server: PrometheusServer, uid: str, hours: float, **chosen: list[str]) -> None:
        self._dashboard = Dashboard(server.url, render.dashboards()[uid], LATER - hours * HOUR, LATER, chosen)

    def said(self, title: str, label: str = "", ref: str = "A") -> dict[str, float]:
        [panel] = [
            panel for panel in self._dashboard.panels() if panel["title"] == title and panel["targets"][0]["instant"]
        ]
        [target] = [target for target in panel["targets"] if target["refId"] == ref]
        rows = self._dashboard.ask(panel, target)
        return {row["metric"].get(label, ""): float(row["value"][1]) for row in rows}

    def number(self, title: str, ref: str = "A") -> float:
        [number] = self.said(title, ref=ref).values()
        return number


@pytest.fixture(scope="module")
def jobs(fleet: Fleet) -> pd.DataFrame:
    return truth.jobs(fleet)


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=CLOSE, abs=1e-6)


@pytest.mark.parametrize("hours", [27, 7 * 24])
@pytest.mark.parametrize("chosen", [{}, {"cluster": ["beta"]}, {"account": ["nlp", "bio"]}], ids=str)
def test_users(chosen: dict[str, list[str]], hours: float, fleet_server: PrometheusServer, jobs: pd.DataFrame) -> None:
    for label, values in chosen.items():
        jobs = jobs[jobs[label].isin(values)]
    users, board = truth.users(jobs), Board(fleet_server, USERS, hours, **chosen)
    bins = board.said("Users by mean utilization", "bin")
    assert {int(edge): number for edge, number in bins.items()} == truth.histogram(users)
    weights = board.said("GPU-hours by mean utilization of their user", "bin")
    assert {int(edge): number for edge, number in weights.items()} == close(truth.weights(users))
    assert board.number("Users under 15 %") == pytest.approx(truth.low_share(users))
    assert board.number("Median user") == pytest.approx(truth.median(users), abs=0.01)
    assert board.number("Users measured") == users["mean"].count()
    assert board.number("Users not measured") == users["mean"].isna().sum()
    assert board.number("Mean of GPU time") == close(100 * users["busy"].sum() / users["observed"].sum())
    assert board.number("Wasted") == close(users["wasted"].sum())


@pytest.mark.parametrize("hours", [27, 7 * 24])
@pytest.mark.parametrize(("title", "label"), [("Users", "user"), ("Accounts", "account")])
def test_tables(title: str, label: str, hours: float, fleet_server: PrometheusServer, jobs: pd.DataFrame) -> None:
    found, board = truth.users(jobs.assign(user=jobs[label])), Board(fleet_server, USERS, hours)
    assert board.said(title, label, "A") == close(found["allocated"].to_dict())
    assert board.said(title, label, "B") == close(found["busy"].to_dict())
    assert board.said(title, label, "C") == close(found["wasted"].to_dict())
    assert board.said(title, label, "D") == pytest.approx(found["mean"].dropna().to_dict(), abs=0.05)
    assert board.said(title, label, "E") == close((100 * found["observed"] / found["allocated"]).to_dict())


@pytest.mark.parametrize("hours", [27, 7 * 24])
def test_totals_of_the_fleet(hours: float, fleet_server: PrometheusServer, jobs: pd.DataFrame) -> None:
    board, total = Board(fleet_server, FLEET, hours), jobs[["allocated", "observed", "busy"]].sum()
    assert board.number("Allocated") == close(total["allocated"])
    assert board.number("Observed") == close(total["observed"])
    assert board.number("Busy") == close(total["busy"])
    assert board.number("Wasted") == close(total["observed"] - total["busy"])
    assert board.number("Mean utilization") == close(100 * total["busy"] / total["observed"])
    assert board.number("Users") == jobs["user"].nunique()
    kwh = (70 * total["allocated"] + 420 * total["busy"]) / 1000
    assert board.number("Energy") == close(kwh)
    # GPUs of nodes of which nothing was heard for a while are not known to have stood there: 12 of 671 hours.
    unallocated = truth.capacity_hours() - total["allocated"]
    assert unallocated - 14 <= board.number("Unallocated") <= unallocated + 3


@pytest.mark.parametrize("user", ["edge", "kay", "mia"])
def test_one_user(user: str, fleet_server: PrometheusServer, jobs: pd.DataFrame) -> None:
    board, total = Board(fleet_server, USER, 27, person=[user]), truth.users(jobs).loc[user]
    assert board.number("Allocated") == close(total["allocated"])
    assert board.number("Wasted") == close(total["wasted"])
    assert board.number("Mean utilization") == pytest.approx(total["mean"], abs=0.05)


def test_idle_gpus_are_those_that_do_nothing(fleet_server: PrometheusServer) -> None:
    model = render.dashboards()[FLEET]
    dashboard = Dashboard(fleet_server.url, model, MIDNIGHT + END - 6 * HOUR, MIDNIGHT + END)
    [panel] = [panel for panel in dashboard.panels() if panel["title"] == "Idle GPUs now"]
    assert [row["metric"]["user"] for row in dashboard.ask(panel, panel["targets"][0])] == ["dozy"]
