"""Job: whether one Slurm job, or one group of pods, is stalled, uneven, idle, or only looks busy, and since when."""

from __future__ import annotations

from dutycycle_dashboards import recording
from dutycycle_dashboards.boards import job_device, job_glance, job_queries
from dutycycle_dashboards.boards.incidents import CAUSES, SEVERITY_COLORS, STATES
from dutycycle_dashboards.boards.job_queries import GPU, MEASURED, RANGE, RATE
from dutycycle_dashboards.building import promql, variables
from dutycycle_dashboards.building.annotations import built_in, tagged
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import barchart, heatmap, timeseries
from dutycycle_dashboards.building.links import JOB, NODE, Link
from dutycycle_dashboards.building.panel import UTILIZATION, Panel, Target
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import PERCENT, RATIO, WHEN
from dutycycle_dashboards.building.variables import Model

_TO_NODE = Link("Show this node", NODE, {"node": "{{node}}"})


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
            Section(
                "At a glance",
                (job_glance.jobs(), *job_glance.numbers(), _over_time(), _gaps(), _distribution(), _unevenness()),
            ),
            Section("Its GPUs side by side", (_by_gpu(), _by_node(), _rows())),
            Section("Open incidents", (_incidents(),)),
            Section("What the GPUs do", job_device.units()),
            Section("What holds them back", job_device.brakes()),
        ),
    )


def _variables() -> tuple[Model, ...]:
    # Of the owner's user or the exporter's: names of labels are looked up in the index, where nothing can be joined.
    either = "|".join(("workload_gpu_allocated_seconds_total", recording.OWNER))
    workloads = promql.selector("", ("cluster", "user"), f'__name__=~"{either}"')
    held = job_queries.held()
    none = 'label_replace(vector(1), "mark", "workload:none", "", "")'
    mark = f'label_replace(group by (workload) ({job_queries.ever_held()}), "mark", "workload:$1", "workload", "(.+)")'
    return (
        variables.datasource(),
        variables.resolution(),
        *variables.filters(("cluster", "user")),
        variables.chosen(
            "workload",
            f"label_values({workloads}, workload)",
            multi=True,
            description="Slurm jobs (slurm/ID) or pods (k8s/NAMESPACE/POD/UID); several are one job of pods",
        ),
        variables.implied("nodes", f"label_values({held}, node)", description="The nodes of the chosen jobs"),
        variables.implied(
            "marks",
            # Without any tag Grafana would show everybody's incidents.
            f"query_result({mark} or {none})",
            description="The tags of the chosen jobs' incidents",
            regex='/mark="([^"]+)"/',
        ),
        variables.alerter(),
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
        Target(job_queries.distribution(RATE), "{{le}}", may_be_empty=job_queries.NO_SAMPLES),
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
    return _side_by_side(
        "Mean per GPU",
        "Busy over measured time in the range, of each GPU. Equal bars: even. One lower: a straggler, or rank 0 with "
        "other work. Some at 0: GPUs that the job does not use.",
        f"max by (device) ({job_queries.named(job_queries.utilization(RANGE, GPU))})",
        "device",
    )


def _by_node() -> Panel:
    return _side_by_side(
        "Mean per node",
        "Busy over measured time in the range, of each node's GPUs. One lower: compare that node's CPU, pressure, "
        "throttling and links with the others'.",
        job_queries.utilization(RANGE, ("node",)),
        "node",
    )


def _side_by_side(title: str, description: str, expr: str, label: str) -> Panel:
    return barchart(
        title,
        description,
        Target(expr, may_be_empty=MEASURED),
        x=label,
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
    # Incidents of GPUs have no user, either: one who is not known would have those of the whole fleet.
    form = f"last_over_time({{}}{RANGE})"
    known = promql.owned("gpu_allocation", job_queries.CHOSEN, promql.KNOWN, form=form, window=RANGE)
    owners = f"group by ({mine}) ({known})"
    keep = "incident, rule, severity, state, cause, subject, node"
    faults = job_queries.on_nodes(opened, 'kind!="job"')
    found = f"{opened} and on ({mine}) {owners} or {faults}"
    return table(
        "Open incidents of its user and nodes",
        "What Dutycycle says about this user's jobs and about the GPUs and nodes that the job is on, and what it takes "
        "for the cause. Of a job whose user is not known only those of the GPUs and nodes. The number leads to the "
        "evidence and the advice. Empty is good.",
        (Target(f"1000 * max by ({keep}) ({found})", may_be_empty="nothing is wrong, or no alerter is scraped"),),
        (
            Column(
                "Incident", label="incident", width=90, link=Link("Evidence and advice", path="/incidents/{Incident}")
            ),
            Column("Subject", label="subject"),
            Column("Node", label="node"),
            Column("Rule", label="rule", width=160),
            Column("Severity", label="severity", width=100, colors=SEVERITY_COLORS),
            Column("State", label="state", width=130, texts=STATES),
            Column("Likely cause", label="cause", width=250, texts=CAUSES),
            Column("Opened", value=0, unit=WHEN, width=170),
        ),
        sort="Opened",
        no_data="No open incident, or the alerter's metrics are not scraped",
        height=6,
    )
