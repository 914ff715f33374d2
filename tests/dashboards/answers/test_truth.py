"""What the dashboards say of the fleet is what is true of it: histogram, weights, shares, tables, totals."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from dutycycle_dashboards import recording
from dutycycle_dashboards.building import promql, variables
from tests.dashboards.answers import truth
from tests.dashboards.answers.asking import instant
from tests.dashboards.answers.fleet import DAY, HOUR, MIDNIGHT, Fleet
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

LATER = MIDNIGHT + DAY + 2 * HOUR
"""When everything has been recorded."""
RANGES = {"increments of 5 minutes": 27 * HOUR, "increments of an hour": 7 * DAY}
HALF_AN_HOUR = 1800.0
HALF_A_DAY = 12 * 3600
BOARD = {"panels": [], "templating": {"list": [variables.datasource(), variables.resolution(), *variables.filters()]}}


@pytest.fixture(params=RANGES)
def users_board(request: pytest.FixtureRequest, fleet_server: PrometheusServer) -> Dashboard:
    length = RANGES[request.param]
    board = Dashboard(fleet_server.url, BOARD, LATER - length, LATER)
    assert board.variables["res"].values == (("5m",) if length < 2 * DAY else ("1h",))
    return board


def test_a_long_range_is_of_five_minutes_until_an_hour_of_it_is_recorded_and_may_end_ahead(
    fleet_server: PrometheusServer,
) -> None:
    for end, resolution in ((MIDNIGHT - 30 * DAY, "5m"), (LATER, "1h"), (LATER + 5 * DAY, "1h")):
        board = Dashboard(fleet_server.url, BOARD, end - 7 * DAY, end)
        assert board.variables["res"].values == (resolution,)


@pytest.fixture(scope="module")
def jobs(fleet: Fleet) -> pd.DataFrame:
    return truth.jobs(fleet)


@pytest.fixture(scope="module")
def users(jobs: pd.DataFrame) -> pd.DataFrame:
    return truth.users(jobs)


def by(board: Dashboard, server: PrometheusServer, query: str, *labels: str) -> dict[str, float]:
    rows = instant(server.url, board.filled(query), LATER)
    return {"/".join(row["metric"].get(label, "") for label in labels): float(row["value"][1]) for row in rows}


def test_the_histogram_of_users_is_exact(
    users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame
) -> None:
    found = by(users_board, fleet_server, promql.users_per_bin(), "bin")
    assert {int(edge): number for edge, number in found.items()} == truth.histogram(users)


def test_users_on_an_edge_at_nothing_and_at_everything_are_in_their_bins(
    users_board: Dashboard, fleet_server: PrometheusServer
) -> None:
    means = by(users_board, fleet_server, promql.utilization(["user"]), "user")
    assert [means["edge"], means["zero"], means["full"]] == pytest.approx([25, 0, 100])
    assert "nemo" not in means


def test_their_weights_are_their_hours(
    users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame
) -> None:
    found = by(users_board, fleet_server, promql.hours_per_bin(), "bin")
    assert {int(edge): hours for edge, hours in found.items()} == pytest.approx(truth.weights(users), rel=0.01)


def test_the_share_of_low_users_and_the_median(
    users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame
) -> None:
    assert by(users_board, fleet_server, promql.share_of_low_users()) == {"": pytest.approx(truth.low_share(users))}
    assert by(users_board, fleet_server, promql.median_user()) == {"": pytest.approx(truth.median(users), abs=0.01)}


@pytest.mark.parametrize("kind", ["allocated", "observed", "busy"])
def test_hours_of_each_user_are_within_one_percent(
    kind: promql.Usage, users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame
) -> None:
    found = by(users_board, fleet_server, promql.hours(kind, ["user"]), "user")
    assert found == pytest.approx(users[kind].to_dict(), rel=0.01)


def test_means_and_waste_of_each_user(
    users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame
) -> None:
    means = by(users_board, fleet_server, promql.utilization(["user"]), "user")
    assert means == pytest.approx(users["mean"].dropna().to_dict(), abs=0.01)
    wasted = by(users_board, fleet_server, promql.wasted_hours(["user"]), "user")
    assert wasted == pytest.approx(users["wasted"].to_dict(), rel=0.01, abs=1e-6)


@pytest.mark.parametrize(
    "labels",
    [["cluster"], ["scheduler"], ["account"], ["partition"], ["namespace"], ["model"], ["cluster", "account", "user"]],
    ids=" ".join,
)
def test_hours_by_every_filter(
    labels: Sequence[str], users_board: Dashboard, fleet_server: PrometheusServer, jobs: pd.DataFrame
) -> None:
    summed = jobs.groupby(list(labels))["allocated"].sum()
    expected = {("/".join(key) if isinstance(key, tuple) else str(key)): hours for key, hours in summed.items()}
    assert by(users_board, fleet_server, promql.hours("allocated", labels), *labels) == pytest.approx(
        expected, rel=0.01
    )


def test_short_jobs_lose_nothing(users_board: Dashboard, fleet_server: PrometheusServer, users: pd.DataFrame) -> None:
    """A new series begins at 0 and an ended one shows its final value until it has been copied."""
    found = by(users_board, fleet_server, promql.hours("observed", ["user"]), "user")
    short = users[users["shortest"] < HALF_AN_HOUR]
    assert len(short) >= 5
    bias = {user: found[str(user)] / hours - 1 for user, hours in short["observed"].items()}
    print(bias)
    assert all(abs(one) < 0.005 for one in bias.values()), bias


def test_capacity_is_what_stood_there(users_board: Dashboard, fleet_server: PrometheusServer) -> None:
    resolution = users_board.variables["res"].values[0]
    assert resolution in ("5m", "1h")
    name = recording.capacity("5m" if resolution == "5m" else "1h")
    [found] = by(users_board, fleet_server, f"sum_over_time({name}[$__range]) / 3600").values()
    # Less what it could not see while exporters were away.
    assert truth.capacity_hours() - 13 <= found <= truth.capacity_hours() + 3


def test_quantiles_of_gpus_are_those_of_their_means(fleet_server: PrometheusServer, fleet: Fleet) -> None:
    # What was recorded at most 5 minutes ago, over 5 minutes that ended a minute before.
    moments = [at for at in range(HALF_A_DAY, 23 * 3600, 300) if truth.quiet(fleet, at - 720, at)]
    assert len(moments) > 5
    for at in moments:
        rows = instant(fleet_server.url, recording.quantiles(), MIDNIGHT + at)
        found = {float(row["metric"]["quantile"]): float(row["value"][1]) for row in rows}
        expected = truth.means_of_gpus(fleet, at).quantile(list(recording.QUANTILES)).to_dict()
        assert found == pytest.approx(expected, abs=0.5), at


def test_filters_leave_what_they_name(fleet_server: PrometheusServer, jobs: pd.DataFrame) -> None:
    chosen = {"cluster": ["beta"], "account": ["maths", "physics"]}
    board = Dashboard(fleet_server.url, BOARD, LATER - 27 * HOUR, LATER, chosen)
    some = jobs[(jobs["cluster"] == "beta") & jobs["account"].isin(["maths", "physics"])]
    expected = some.groupby("user")["allocated"].sum().to_dict()
    assert by(board, fleet_server, promql.hours("allocated", ["user"]), "user") == pytest.approx(expected, rel=0.01)
    assert set(board.options["user"]) == set(expected)
    assert set(board.options["account"]) == set(jobs[jobs["cluster"] == "beta"]["account"])
