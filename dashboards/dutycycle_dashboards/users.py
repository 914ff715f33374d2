"""Users: how many use their GPUs how well, and who."""

from __future__ import annotations

from dutycycle_dashboards import promql, variables
from dutycycle_dashboards.board import Board, Section
from dutycycle_dashboards.links import USER, USERS, Link
from dutycycle_dashboards.panels import (
    GPU_HOURS,
    PERCENT,
    RATIO,
    UTILIZATION,
    Column,
    Target,
    barchart,
    stat,
    table,
)


def users() -> Board:
    """The histogram of users by mean utilization, over the dashboard's range."""
    return Board(
        uid=USERS,
        title="Dutycycle / Users",
        description="How well each user's GPUs are used.",
        variables=(variables.datasource(), variables.resolution(), *variables.filters(), variables.alerter()),
        span="7d",
        refresh="5m",
        sections=(
            Section(
                "Histogram",
                (
                    barchart(
                        "Users by mean utilization",
                        "Number of users by mean utilization of all their GPUs over the range.",
                        Target(promql.users_per_bin()),
                        x="bin",
                        series="Users",
                    ),
                    barchart(
                        "GPU-hours by mean utilization of their user",
                        "The same users, weighted by their measured GPU-hours.",
                        Target(promql.hours_per_bin()),
                        x="bin",
                        series="GPU-hours",
                        unit=GPU_HOURS,
                    ),
                    stat("Under 15 %", "Share of users.", Target(promql.share_of_low_users()), unit=RATIO),
                    stat("Median", "Median of users' mean utilization.", Target(promql.median_user()), unit=PERCENT),
                ),
            ),
            Section(
                "Users",
                (
                    table(
                        "Users",
                        "Each user's GPU-hours.",
                        (Target(promql.hours("allocated", ["user"])), Target(promql.utilization(["user"]))),
                        (
                            Column("User", label="user", link=Link("Show this user", USER, {"user": "User"})),
                            Column("Allocated", value=0, unit=GPU_HOURS),
                            Column(
                                "Mean", value=1, unit=PERCENT, gauge=True, least=0, most=100, thresholds=UTILIZATION
                            ),
                        ),
                        sort="Allocated",
                    ),
                ),
            ),
        ),
    )
