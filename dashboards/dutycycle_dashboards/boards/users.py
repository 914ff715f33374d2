"""Users: how many use their GPUs how well, and who."""

from __future__ import annotations

from dutycycle_dashboards.boards import listed
from dutycycle_dashboards.boards.listed import NO_USAGE, NOTHING
from dutycycle_dashboards.building import promql, variables
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import barchart, heatmap, stat
from dutycycle_dashboards.building.links import INCIDENTS, USERS, Link
from dutycycle_dashboards.building.panel import UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import GPU_HOURS, PERCENT, RATIO

HAS_ACCOUNT = 'account!=""'
_MANY = 60
"""Rows of a heatmap that can still be told apart."""
_BINS = {f"{edge:02d}": f"{edge}" for edge in promql.BINS}
_SHARE_LOW = (Threshold(None, "green"), Threshold(0.1, "yellow"), Threshold(0.25, "orange"), Threshold(0.5, "red"))
_COVERED = (Threshold(None, "red"), Threshold(50, "yellow"), Threshold(90, "green"))
_COUNTED = (
    "A user's mean is busy by observed GPU-hours, of all their GPUs over the range: an hour of eight GPUs weighs eight "
    "times an hour of one. Users of whom nothing was measured, such as those on MIG without utilization alone, are in "
    "no bin; of those who also held other GPUs only these count. GPU time whose user is not known is no user's."
)
_BIAS = (
    "Jobs under half an hour count as they are, to half a percent: increments are what the counters grew by, and no "
    "estimates. What is not recorded yet is missing: up to 5 minutes, on ranges over two days up to an hour."
)


def users() -> Board:
    """The histogram of users by mean utilization over the dashboard's range, and the users."""
    return Board(
        uid=USERS,
        title="Dutycycle / Users",
        description="How many users use their GPUs how well, and who.",
        variables=(variables.datasource(), variables.resolution(), *variables.filters(), variables.alerter()),
        span="7d",
        refresh="5m",
        sections=(
            Section("How well", (*_numbers(), *_histograms())),
            Section("Who", (_table(), _accounts())),
            Section("When", (_over_time(),)),
            Section("One user: choose them in the filter User", (_time_by_utilization(),), collapsed=True),
        ),
    )


def _numbers() -> tuple[Panel, ...]:
    mean = promql.mean_of_users()
    held = promql.used("allocated", ["user"], more=(promql.KNOWN,))
    return (
        stat(
            "Users under 15 %",
            f"Share of the users whose GPUs were measured that have a mean utilization under {promql.LOW} %. Small is "
            f"good. {_COUNTED}",
            Target(promql.share_of_low_users()),
            unit=RATIO,
            decimals=1,
            thresholds=_SHARE_LOW,
            no_data=NOTHING,
        ),
        stat(
            "Median user",
            f"Half of the users have a lower mean utilization, half a higher one. {_COUNTED}",
            Target(promql.median_user()),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data=NOTHING,
        ),
        stat(
            "Mean of GPU time",
            "Busy by observed GPU-hours of all these users together, and of GPU time whose user is not known. Far over "
            "the median: those who use much use it well.",
            Target(promql.utilization()),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data=NOTHING,
        ),
        stat(
            "Wasted",
            "GPU-hours of these users, and of users not known, that were measured and not busy.",
            Target(promql.wasted_hours()),
            unit=GPU_HOURS,
            thresholds=(Threshold(None, "red"),),
            no_data=NOTHING,
        ),
        stat("Users measured", "Users in the histogram.", Target(f"count({mean})"), no_data=NOTHING),
        stat(
            "Users not measured",
            "Users who held GPUs on which utilization could not be measured at all: MIG without utilization, or "
            "exporters that could not read. They are in no bin, and are in the table without a mean.",
            Target(f"count({held} > 0 unless on (user) {mean}) or 0 * count({held})"),
            no_data=NOTHING,
        ),
    )


def _histograms() -> tuple[Panel, ...]:
    return (
        barchart(
            "Users by mean utilization",
            f"Number of users in each 5 points of mean utilization; 10 is from 10 % to under 15 %, and 100 % is in the "
            f"last. {_COUNTED} {_BIAS}",
            Target(promql.users_per_bin()),
            x="bin",
            texts=_BINS,
            series="Users",
            no_data=NO_USAGE,
        ),
        barchart(
            "GPU-hours by mean utilization of their user",
            "The same bins, weighted: measured GPU-hours of the users in each. High bars on the left are worth more "
            f"than many users there. {_BIAS}",
            Target(promql.hours_per_bin()),
            x="bin",
            texts=_BINS,
            series="GPU-hours",
            unit=GPU_HOURS,
            no_data=NO_USAGE,
        ),
    )


def _table() -> Panel:
    return _usage(
        "Users",
        "Each user's GPU-hours in the range, most wasted first. Wasted is measured and not busy; coverage is how much "
        "of what they held was measured, and a mean of little coverage says little; incidents are those open now. "
        f"Users without measurements have no mean. GPU time of unknown users is one row, without a name. {_BIAS}",
        "user",
        Column("User", label="user", link=listed.TO_USER),
        listed.incidents_opened(listed.OF_INCIDENTS, promql.KNOWN),
        height=14,
    )


def _accounts() -> Panel:
    return _usage(
        "Accounts",
        "The same by account (of Slurm; empty on Kubernetes unless pods say theirs).",
        "account",
        Column("Account", label="account"),
        listed.incidents_opened(listed.OF_INCIDENTS, HAS_ACCOUNT),
        height=9,
    )


def _usage(title: str, description: str, by: str, first: Column, opened: str, *, height: int) -> Panel:
    to_incidents = Link("Show these incidents", INCIDENTS, {by: first.title}, keep=("datasource", "alerter"))
    allocated, observed = promql.used("allocated", [by]), promql.used("observed", [by])
    return table(
        title,
        description,
        (
            Target(promql.hours("allocated", [by])),
            Target(promql.hours("busy", [by])),
            Target(promql.wasted_hours([by])),
            Target(promql.utilization([by])),
            Target(f"100 * ({observed} or 0 * {allocated}) / ({allocated} > 0)"),
            Target(f"count by ({by}) ({opened}) and on ({by}) {allocated}", may_be_empty="no incident is open"),
        ),
        (
            first,
            Column("Allocated", value=0, unit=GPU_HOURS, decimals=1),
            Column("Busy", value=1, unit=GPU_HOURS, decimals=1),
            Column("Wasted", value=2, unit=GPU_HOURS, decimals=1),
            listed.mean_column(3, 240),
            Column("Coverage", value=4, unit=PERCENT, decimals=0, thresholds=_COVERED),
            Column("Incidents", value=5, decimals=0, width=110, link=to_incidents),
        ),
        sort="Wasted",
        no_data=NO_USAGE,
        height=height,
    )


def _over_time() -> Panel:
    largest = f"topk({_MANY}, {promql.used('allocated', ['user'], at='end()')})"
    return heatmap(
        "Users over time",
        f"Mean utilization of each user's GPUs in each step; a gap is nothing held, or nothing measured. Of many users "
        f"the {_MANY} with the most allocated GPU-hours in the range: filters narrow them. A row that is red at night "
        "is jobs that hold GPUs after their work is done; a column in red hit everybody.",
        Target(f"{promql.utilization(['user'], over=promql.INTERVAL)} and on (user) {largest}", "{{user}}"),
        least=0,
        most=100,
        interval="${res}",
        no_data=NO_USAGE,
        height=14,
    )


def _time_by_utilization() -> Panel:
    return heatmap(
        "Time by utilization",
        "GPU time of the chosen users (of all, unless User is set) by the utilization of its samples, in each step. "
        "Colour in the lowest and the highest row at once is work that stalls, all in the middle is work that is too "
        "small. On a shared GPU the device's utilization, of everybody on it.",
        Target(promql.samples(over=promql.INTERVAL)),
        unit="s",
        rows=RATIO,
        buckets=True,
        scheme="Oranges",
        interval="${res}",
        no_data=NO_USAGE,
    )
