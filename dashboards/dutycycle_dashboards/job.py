"""Job: whether one Slurm job, or one group of pods, is stalled, uneven, idle, or only looks busy, and since when."""

from __future__ import annotations

from dutycycle_dashboards import job_device, job_queries, variables
from dutycycle_dashboards.annotations import built_in, tagged
from dutycycle_dashboards.board import Board, Section
from dutycycle_dashboards.job_queries import GPU, MEASURED, OWNERS, RANGE, RATE
from dutycycle_dashboards.links import JOB, NODE, USER, Link
from dutycycle_dashboards.panels import (
    ANY_IS_BAD,
    BAD,
    FAIR,
    GOOD,
    GPU_HOURS,
    PERCENT,
    RATIO,
    UTILIZATION,
    WHEN,
    Column,
    Panel,
    Target,
    Threshold,
    barchart,
    heatmap,
    stat,
    table,
    timeseries,
)
from dutycycle_dashboards.variables import Model

_TO_NODE = Link("Show this node", NODE, {"node": "{{node}}"})
_TROUBLED = (Threshold(None, GOOD), Threshold(12, FAIR), Threshold(20, BAD))
"""Share of time in short gaps: a stall opens at 20 % and clears at 12 %."""
_UNEVEN = (Threshold(None, GOOD), Threshold(30, FAIR), Threshold(40, BAD))
_LOOKS = (Threshold(None, BAD), Threshold(25, FAIR), Threshold(35, GOOD))
_KNOWN = (Threshold(None, BAD), Threshold(80, GOOD))


def job() -> Board:
    """One job, or several beside each other."""
    return Board(
        uid=JOB,
        title="Dutycycle / Job",
        description="One Slurm job, or one group of pods: is it stalled, uneven, idle, or does it only look busy?",
        variables=_variables(),
        annotations=(
            built_in(),
            tagged("Incidents of the job", ["${marks}"]),
        ),
        span="6h",
        sections=(
            Section("At a glance", (_jobs(), *_numbers(), _over_time(), _gaps(), _distribution(), _unevenness())),
            Section("Its GPUs side by side", (_by_gpu(), _by_node(), _rows())),
            Section("Open incidents", (_incidents(),)),
            Section("What the GPUs do", job_device.units()),
            Section("What holds them back", job_device.brakes()),
        ),
    )


def _variables() -> tuple[Model, ...]:
    owners = 'workload_gpu_allocated_seconds_total{cluster=~"$cluster", user=~"$user"}'
    held = job_queries.held()
    mark = f'label_replace(group by (workload) ({job_queries.ever_held()}), "mark", "workload:$1", "workload", "(.+)")'
    return (
        variables.datasource(),
        variables.resolution(),
        *variables.filters(("cluster", "user")),
        variables.chosen(
            "workload",
            f"label_values({owners}, workload)",
            multi=True,
            description="Slurm jobs (slurm/ID) or pods (k8s/NAMESPACE/POD/UID); several are one job of pods",
        ),
        variables.implied("nodes", f"label_values({held}, node)", description="The nodes of the chosen jobs"),
        variables.implied(
            "marks",
            f"query_result({mark})",
            description="The tags of the chosen jobs' incidents",
            regex='/mark="([^"]+)"/',
        ),
        variables.alerter(),
    )


def _jobs() -> Panel:
    by = f"by ({', '.join(OWNERS)})"
    ever = job_queries.ever_held()
    started = f"last_over_time({job_queries.owned('gpu_allocation_start_timestamp_seconds')}{RANGE})"
    return table(
        "Jobs",
        "Whose it is, what it holds, and since when. Last busy is when any of its GPUs last had a kernel for more "
        "than 5 % of a sample, while it runs. Last over 15 % is when five minutes' mean was last over it, in the "
        "range: with Started it tells since when the job does little. A GPU of which a job has a part counts as that "
        "part.",
        (
            Target(f"sum {by} ({ever})"),
            Target(f"count {by} (count by ({', '.join(OWNERS)}, node) ({ever}))"),
            Target(job_queries.running()),
            Target(f"1000 * min {by} ({started})", may_be_empty="its start is not known"),
            Target(job_queries.last_busy(), may_be_empty="the job has ended, or its GPUs have not been busy"),
            Target(job_queries.last_over(15), may_be_empty="it has not been over 15 % in the range"),
        ),
        (
            Column("Job", label="workload", width=220),
            Column("User", label="user", link=Link("Show this user", USER, {"user": "User"})),
            Column("Account", label="account"),
            Column("Partition", label="partition"),
            Column("Namespace", label="namespace"),
            Column("Cluster", label="cluster"),
            Column("Model", label="model"),
            Column("GPUs", value=0, decimals=1, width=70),
            Column("Nodes", value=1, width=70),
            Column("State", value=2, width=80, texts={"0": "ended", "1": "runs"}),
            Column("Started", value=3, unit=WHEN, width=170),
            Column("Last busy", value=4, unit=WHEN, width=170),
            Column("Last over 15 %", value=5, unit=WHEN, width=170),
        ),
        sort="Job",
        ascending=True,
        no_data="No GPU of this job in the range",
        height=5,
    )


def _numbers() -> tuple[Panel, ...]:
    allocated = job_queries.total("workload_gpu_allocated_seconds_total", RANGE, function="increase")
    observed = job_queries.total("workload_gpu_observed_seconds_total", RANGE, function="increase")
    busy = job_queries.total("workload_gpu_busy_seconds_total", RANGE, function="increase")
    return (
        stat(
            "Allocated",
            "GPU-hours in the range for which the job held GPUs, whatever it did with them. Jobs and ranges of under "
            "30 minutes are off by up to a scrape interval.",
            Target(f"{allocated} / 3600"),
            unit=GPU_HOURS,
            decimals=1,
            no_data="No GPU of this job in the range",
            width=3,
        ),
        stat(
            "Mean utilization",
            "Busy over measured time of all its GPUs in the range: the share of time with at least one kernel "
            "resident. Under 25 % is much too little, over 50 % usual. High says only that something ran: see SM "
            "active.",
            Target(job_queries.utilization(RANGE), may_be_empty=MEASURED),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data="Not measured: MIG without GPM?",
            width=3,
        ),
        stat(
            "Wasted",
            "GPU-hours in the range that were measured and not busy. Others wait for them.",
            Target(f"clamp_min(({observed} > 0) - {busy}, 0) / 3600", may_be_empty=MEASURED),
            unit=GPU_HOURS,
            decimals=1,
            no_data="Not measured",
            width=3,
        ),
        stat(
            "Coverage",
            "Measured over allocated time. Under 80 % the other numbers stand for part of the job only: a node or an "
            "exporter was away, or a GPU has no utilization.",
            Target(f"100 * {observed} / ({allocated} > 0)", may_be_empty="the job held no GPU in the range"),
            unit=PERCENT,
            decimals=0,
            thresholds=_KNOWN,
            no_data="Not measured",
            width=3,
        ),
        stat(
            "Idle GPUs",
            "GPUs with 0.5 % or less over the last 30 minutes of the range. All of them: it hangs before its first "
            "kernel, waits, or has ended without leaving. Some: it asked for more than it uses; look at device "
            "placement, world size and CUDA_VISIBLE_DEVICES.",
            Target(job_queries.idle_gpus(), may_be_empty="nothing was measured in the last 30 minutes: it has ended?"),
            thresholds=ANY_IS_BAD,
            no_data="Not measured in the last 30 min",
            width=3,
        ),
        stat(
            "Short gaps",
            "Measured time in idle gaps of up to 30 seconds. From 20 % on the GPU waits for something at every step: "
            "data, the host's work per step, or other ranks. Try more workers and prefetching, larger batches, fewer "
            "synchronizations.",
            Target(job_queries.gaps(RANGE, "lt2|2to30").replace("rate(", "increase("), may_be_empty=MEASURED),
            unit=PERCENT,
            decimals=1,
            thresholds=_TROUBLED,
            no_data="Not measured",
            width=3,
        ),
        stat(
            "Unevenness",
            "1 - least / most of its GPUs' means over the range. From 40 % on some wait for others: uneven shards or "
            "pipeline stages, work that only rank 0 does, a slow node. 0 with a single GPU.",
            Target(job_queries.unevenness(RANGE, GPU), may_be_empty="no GPU was busy"),
            unit=PERCENT,
            decimals=0,
            thresholds=_UNEVEN,
            no_data="No GPU was busy",
            width=3,
        ),
        stat(
            "SM active when busy",
            "Of its busy time, the share in which multiprocessors had work, over all of them. Under 25 % it only looks "
            "busy: tiny kernels, small batches, or waiting inside a kernel (communication). Try larger batches, CUDA "
            "graphs, torch.compile.",
            Target(job_queries.active_while_busy(), may_be_empty=job_queries.NO_GPM),
            unit=PERCENT,
            decimals=0,
            thresholds=_LOOKS,
            no_data="No GPM: Hopper and later",
            width=3,
        ),
    )


def _over_time() -> Panel:
    return timeseries(
        "Utilization per GPU",
        "Busy over measured time of each GPU. Flat at 0: idle. All falling together: a stall, a checkpoint, an "
        "evaluation. One apart: uneven. A line that ends was not measured. On a shared GPU over 100 % is more than its "
        "share. Red marks are incidents.",
        Target(job_queries.utilization(RATE, GPU), "{{node}}:{{gpu}} {{mig}}", may_be_empty=MEASURED),
        unit=PERCENT,
        soft_most=100,
        link=_TO_NODE,
        no_data="Not measured: MIG without GPM, or the job held no GPU in the range",
    )


def _gaps() -> Panel:
    lengths = (
        ("lt2", "under 2 s"),
        ("2to30", "2 to 30 s"),
        ("30to600", "30 s to 10 min"),
        ("ge600", "10 min and more"),
    )
    return timeseries(
        "Idle gaps by length",
        "Share of measured time in gaps (samples of 5 % or less) by how long each gap was. Under 30 s at every step "
        "is stalls: data loading or the host. 30 s to 10 min is pauses: checkpoints, evaluation, an epoch's end. "
        "Longer is phases without GPU work, or a hang. A gap counts when it ends, so one bar can be over 100 %.",
        *(Target(job_queries.gaps(RATE, length), legend, may_be_empty=MEASURED) for length, legend in lengths),
        unit=PERCENT,
        stacked=True,
        bars=True,
        soft_most=100,
        interval="2m",
        colors={"under 2 s": "yellow", "2 to 30 s": "orange", "30 s to 10 min": "blue", "10 min and more": "red"},
        no_data="Not measured: no utilization, or counters of another exporter",
    )


def _distribution() -> Panel:
    return heatmap(
        "Utilization of samples",
        "Share of measured time by the utilization of NVML's own samples, some each second: what a mean hides. One "
        "band at the top is a job that works. A band at the top and one at 0 is stop and go: stalls. A band in the "
        "middle is steady, too small work. On a shared GPU it is the device's.",
        Target(job_queries.distribution(RATE), may_be_empty=job_queries.NO_SAMPLES),
        unit=PERCENT,
        rows=RATIO,
        buckets=True,
        least=0,
        most=100,
        scheme="Oranges",
        interval="1m",
        no_data="No samples: MIG, or counters of another exporter",
        width=12,
        height=8,
    )


def _unevenness() -> Panel:
    return timeseries(
        "Unevenness",
        "1 - least / most of the utilization of its GPUs, and of its nodes. From 40 % on, with a busiest over 30 %, "
        "some wait for others. Where nodes are uneven too, look at the slow node: its CPU, network, throttling; else "
        "at how work is divided within a node. Idle phases of all GPUs leave it out.",
        Target(job_queries.unevenness(RATE, GPU), "GPUs", may_be_empty="no GPU was busy"),
        Target(job_queries.unevenness(RATE, ("node",)), "nodes", may_be_empty="no GPU was busy"),
        unit=PERCENT,
        most=100,
        interval="5m",
        colors={"GPUs": "orange", "nodes": "purple"},
        no_data="No GPU was busy",
    )


def _by_gpu() -> Panel:
    return barchart(
        "Mean per GPU",
        "Busy over measured time in the range, of each GPU. Equal bars: even. One lower: a straggler, or rank 0 with "
        "other work. Some at 0: GPUs that the job does not use.",
        Target(job_queries.named(job_queries.utilization(RANGE, GPU)), may_be_empty=MEASURED),
        x="device",
        series="Mean utilization",
        unit=PERCENT,
        most=100,
        thresholds=UTILIZATION,
        no_data="Not measured: MIG without GPM?",
        height=8,
    )


def _by_node() -> Panel:
    return barchart(
        "Mean per node",
        "Busy over measured time in the range, of each node's GPUs. One lower: compare that node's CPU, pressure, "
        "throttling and links with the others'.",
        Target(job_queries.utilization(RANGE, ("node",)), may_be_empty=MEASURED),
        x="node",
        series="Mean utilization",
        unit=PERCENT,
        most=100,
        thresholds=UTILIZATION,
        no_data="Not measured: MIG without GPM?",
        height=8,
    )


def _rows() -> Panel:
    return heatmap(
        "GPU by GPU",
        "Utilization of each GPU over time, one row each: for jobs with more GPUs than lines can show. Vertical red "
        "stripes are pauses of the whole job, a red row is a GPU that is not used.",
        Target(job_queries.utilization(RATE, GPU), "{{node}}:{{gpu}} {{mig}}", may_be_empty=MEASURED),
        least=0,
        most=100,
        no_data="Not measured: MIG without GPM?",
        height=8,
    )


def _incidents() -> Panel:
    mine = "cluster, user"
    opened = "dutycycle_incident_opened_timestamp_seconds"
    owners = f"group by ({mine}) (last_over_time({job_queries.held()}{RANGE}))"
    keep = "incident, rule, severity, state, cause, subject, node"
    faults = job_queries.on_nodes(opened, 'kind!="job"')
    found = f"{opened} and on ({mine}) {owners} or {faults}"
    return table(
        "Open incidents of its user and nodes",
        "What Dutycycle says about this user's jobs and about the GPUs and nodes that the job is on, and what it takes "
        "for the cause. The number leads to the evidence and the advice. Empty is good.",
        (Target(f"1000 * max by ({keep}) ({found})", may_be_empty="nothing is wrong, or no alerter is scraped"),),
        (
            Column(
                "Incident", label="incident", width=90, link=Link("Evidence and advice", path="/incidents/{Incident}")
            ),
            Column("Subject", label="subject"),
            Column("Node", label="node"),
            Column("Rule", label="rule"),
            Column("Severity", label="severity", width=100),
            Column("State", label="state", width=120),
            Column("Likely cause", label="cause"),
            Column("Opened", value=0, unit=WHEN, width=180),
        ),
        sort="Opened",
        no_data="No open incident, or the alerter's metrics are not scraped",
        height=6,
    )
