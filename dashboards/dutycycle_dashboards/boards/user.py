"""User: one person's jobs, how they use their GPUs, what is wasted, and what to do about it."""

from __future__ import annotations

from dutycycle_dashboards.boards import listed, owned
from dutycycle_dashboards.boards.advice import advice
from dutycycle_dashboards.boards.fleet import STATES
from dutycycle_dashboards.boards.listed import TO_JOB
from dutycycle_dashboards.building import promql, variables
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import barchart, heatmap, stat, timeseries
from dutycycle_dashboards.building.links import USER
from dutycycle_dashboards.building.panel import ANY_IS_BAD, UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import GPU_HOURS, GPUS, PERCENT, RATIO
from dutycycle_dashboards.building.variables import OWNERS

OTHERS = tuple(name for name in promql.FILTERS if name != "user")
ONE = ('user="$person"',)
"""Exactly: a name is no regular expression. The variable is not called as the filter of the other boards: the link
between all boards would hand over that one's `All`, which is nobody.
"""
NO_USAGE = "This user held no GPU in the range, or the other filters leave nothing"
_PER_STEP = "* 1000 / $__interval_ms"
_JOB = ("cluster", "workload", "account", "partition", "namespace")
_EDGES = ((0.0, 0.05), (0.05, 0.15), (0.15, 0.25), (0.25, 0.5), (0.5, 0.79), (0.79, 0.95), (0.95, 1.0))
"""Of the exporter's histogram of samples."""
_GAPS = {
    "lt2": "under 2 s",
    "2to30": "2 to 30 s",
    "30to600": "30 s to 10 min",
    "ge600": "10 min and more",
}


def user() -> Board:
    """What a researcher asks: how well, which job, when, why, and what to do."""
    names = f"label_values({promql.selector(OWNERS, OTHERS)}, user)"
    return Board(
        uid=USER,
        title="Dutycycle / User",
        description="One person's jobs, how they use their GPUs, what is wasted, and what to do about it.",
        variables=(
            variables.datasource(),
            variables.resolution(),
            *variables.filters(OTHERS),
            variables.chosen("person", names, description="Whose jobs"),
            variables.alerter(),
        ),
        span="7d",
        refresh="5m",
        sections=(
            Section("Over the range", _numbers()),
            Section("Jobs", (_jobs(), listed.idle_gpus(OTHERS, *ONE, user=False))),
            Section("Waste over time", (_gpus(), _mean())),
            Section("Incidents and advice", (_incidents(), advice())),
            Section("Distribution", (_samples(), _time_by_utilization())),
            # Asks the exporters' own series, each sample of them.
            Section("Kinds of waste", (_gaps(),), collapsed=True),
        ),
    )


def _numbers() -> tuple[Panel, ...]:
    allocated = promql.used("allocated", filters=OTHERS, more=ONE)
    observed = promql.used("observed", filters=OTHERS, more=ONE)
    hours = {kind: promql.hours(kind, filters=OTHERS, more=ONE) for kind in ("allocated", "busy")}
    own = promql.utilization(filters=OTHERS, more=ONE)
    others = promql.utilization(["user"], filters=OTHERS, more=(promql.KNOWN,))
    return (
        stat(
            "Mean utilization",
            "Busy by observed GPU-hours of all this user's GPUs over the range. Under 15 % is red, from 50 % on green. "
            "Missing where utilization cannot be measured, as on MIG without it: that is not 0.",
            Target(own, may_be_empty="a user on MIG without utilization"),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data="Nothing was measured (on MIG?)",
        ),
        stat(
            "Users below",
            "Share of the measured users whose mean utilization is lower than this one's: 50 % is the median. GPU time "
            "whose user is not known is no user's.",
            Target(
                f"(count({others} < on () group_left () {own}) or 0 * {own}) / count({others})",
                may_be_empty="a user on MIG without utilization",
            ),
            unit=RATIO,
            decimals=0,
            no_data="Nothing was measured",
        ),
        stat(
            "Allocated",
            "GPU-hours for which their jobs held GPUs, used or not; shared GPUs and MIG instances by their share.",
            Target(hours["allocated"]),
            unit=GPU_HOURS,
            no_data="No GPU held in the range",
        ),
        stat(
            "Wasted",
            "GPU-hours measured and not busy.",
            Target(promql.wasted_hours(filters=OTHERS, more=ONE), may_be_empty="a user on MIG without utilization"),
            unit=GPU_HOURS,
            thresholds=(Threshold(None, "red"),),
            no_data="Nothing was measured",
        ),
        stat(
            "Coverage",
            "Share of the allocated GPU-hours for which utilization was measured. Where it is small, the mean says "
            "little.",
            Target(f"({observed} or 0 * {allocated}) / ({allocated} > 0)"),
            unit=RATIO,
            decimals=0,
            thresholds=(Threshold(None, "red"), Threshold(0.5, "yellow"), Threshold(0.9, "green")),
            no_data="No GPU held in the range",
        ),
        stat(
            "Open incidents",
            "What the alerter found in this user's jobs and nobody has resolved, whatever the range.",
            Target(listed.incidents_count(_OTHER_INCIDENTS, *ONE), may_be_empty="no alerter answers"),
            thresholds=ANY_IS_BAD,
            no_data="No alerter answers: see Operations",
        ),
    )


_OTHER_INCIDENTS = tuple(name for name in listed.OF_INCIDENTS if name != "user")


def _incidents() -> Panel:
    return listed.open_incidents(_OTHER_INCIDENTS, *ONE, user=False, height=7)


def _jobs() -> Panel:
    held = owned.grown("allocated", _JOB, filters=OTHERS, more=ONE)
    devices = owned.grown("allocated", (*_JOB, *owned.DEVICE), filters=OTHERS, more=ONE)
    not_measured = "a user on MIG without utilization"
    return table(
        "Jobs",
        "Jobs that held GPUs in the range, most wasted first. GPUs is how many different ones a job held, MIG "
        "instances one by one, and Now how many it holds now (in parts where they are shared). A pod is a job of its "
        "own here. Hours are of one sample a minute: of a job that ended they are up to half a minute for each GPU too "
        "many.",
        (
            # A job that has just begun holds GPUs before it has a sum.
            Target(f"{held} / 3600 or 0 * {listed.gpus_now(_JOB, OTHERS, *ONE)}"),
            Target(f"{owned.wasted(_JOB, filters=OTHERS, more=ONE)} / 3600", may_be_empty=not_measured),
            Target(owned.mean(_JOB, filters=OTHERS, more=ONE), may_be_empty=not_measured),
            Target(f"count by ({', '.join(_JOB)}) ({devices})"),
            Target(listed.gpus_now(_JOB, OTHERS, *ONE), may_be_empty="no job runs now"),
        ),
        (
            Column("Job", label="workload", link=TO_JOB),
            Column("Cluster", label="cluster", width=110),
            Column("Account", label="account", width=120),
            Column("Partition", label="partition", width=110),
            Column("Namespace", label="namespace", width=120),
            Column("GPUs", value=3, decimals=0, width=80),
            Column("Now", value=4, decimals=1, width=80),
            Column("Allocated", value=0, unit=GPU_HOURS, decimals=1, width=130),
            Column("Wasted", value=1, unit=GPU_HOURS, decimals=1, width=130),
            listed.mean_column(2, 200),
        ),
        sort="Wasted",
        no_data=NO_USAGE,
        height=11,
    )


def _gpus() -> Panel:
    parts = {
        kind: promql.used(kind, over=promql.INTERVAL, filters=OTHERS, more=ONE)
        for kind in ("allocated", "observed", "busy")
    }
    none = f"0 * {parts['allocated']}"
    return timeseries(
        "GPUs by what they did",
        "Mean number of this user's GPUs in each step: busy, wasted (measured and not busy), and held without a "
        "measurement. Red that stays is a job that holds GPUs for nothing; red that comes and goes is one that stalls.",
        Target(f"{parts['busy']} {_PER_STEP}", "busy", "a user on MIG without utilization"),
        Target(
            f"clamp_min({parts['observed']} - {parts['busy']}, 0) {_PER_STEP}",
            "wasted",
            "a user on MIG without utilization",
        ),
        Target(f"clamp_min({parts['allocated']} - ({parts['observed']} or {none}), 0) {_PER_STEP}", "not measured"),
        unit=GPUS,
        stacked=True,
        colors=STATES,
        interval="${res}",
        no_data=NO_USAGE,
    )


def _mean() -> Panel:
    return timeseries(
        "Mean utilization",
        "Busy by observed time of this user's GPUs in each step, and of everybody's. A gap is nothing held, or nothing "
        "measured.",
        Target(
            promql.utilization(over=promql.INTERVAL, filters=OTHERS, more=ONE),
            "this user",
            "a user on MIG without utilization",
        ),
        Target(promql.utilization(over=promql.INTERVAL, filters=OTHERS), "all users"),
        unit=PERCENT,
        most=100,
        interval="${res}",
        colors={"this user": "blue", "all users": "text"},
        no_data=NO_USAGE,
    )


def _time_by_utilization() -> Panel:
    return heatmap(
        "Time by utilization, over time",
        "GPU time by the utilization of its samples, in each step. Colour in the lowest and the highest row at once is "
        "work that stalls; all in the middle is work that is too small. On a shared GPU the device's utilization, of "
        "everybody on it.",
        Target(promql.samples(over=promql.INTERVAL, filters=OTHERS, more=ONE), "", "a user on MIG without utilization"),
        unit="s",
        rows=RATIO,
        buckets=True,
        scheme="Oranges",
        interval="${res}",
        no_data=NO_USAGE,
        width=14,
        height=9,
    )


def _samples() -> Panel:
    return barchart(
        "Time by utilization",
        "GPU-hours of the range by the utilization of its samples, each of a sixth of a second or so: not of means. "
        "Much in the first is idle, or stalls; in the last it is work. On a shared GPU the device's utilization.",
        Target(_per_bucket(), may_be_empty="a user on MIG without utilization"),
        x="utilization",
        series="GPU-hours",
        unit=GPU_HOURS,
        texts={f"{100 * low:02.0f}": f"{100 * low:.0f}-{100 * high:.0f} %" for low, high in _EDGES},
        no_data="Nothing of this user's was measured in the range",
        width=10,
    )


def _per_bucket() -> str:
    """GPU-hours between the edges of the histogram, by `utilization`; what is exactly 0 % is in the first."""
    found = []
    for low, high in _EDGES:
        inside = _up_to(high) if low == 0 else f"clamp_min({_up_to(high)} - {_up_to(low)}, 0)"
        found.append(f'label_replace({inside} / 3600, "utilization", "{100 * low:02.0f}", "", "")')
    return " or ".join(found)


def _up_to(edge: float) -> str:
    # Written as an exporter writes it, or as an engine that makes numbers alike does.
    short = f"{edge:g}"
    edges = f"{short}|{edge}" if short != str(edge) else short
    inside = promql.samples(filters=OTHERS, more=(*ONE, f'le=~"{edges}"'))
    return f"sum({inside})"


def _gaps() -> Panel:
    over = "[$__range]"
    metric, form = "workload_gpu_idle_gap_seconds_total", f"increase({{}}{over})"
    kinds = f"sum by (length) ({promql.owned(metric, OTHERS, *ONE, form=form, window=over, each='sum')}) / 3600"
    for place, length in enumerate(_GAPS):
        kinds = f'label_replace({kinds}, "gap", "{place}", "length", "{length}")'
    return barchart(
        "Idle time by the length of its gaps",
        "GPU-hours in gaps, in which no sample was over 5 %, by how long each lasted. Under 2 s: between steps, often "
        "data loading or small work. To 30 s: slow loading, evaluation. To 10 minutes: checkpoints, evaluation, "
        "start. Longer: nothing ran. A gap counts when it ends (from 10 minutes on as it grows).",
        Target(f"sum by (gap) ({kinds})", may_be_empty="a user on MIG without utilization"),
        x="gap",
        series="GPU-hours",
        unit=GPU_HOURS,
        texts={str(place): name for place, name in enumerate(_GAPS.values())},
        no_data="Nothing of this user's was measured in the range",
        width=24,
    )
