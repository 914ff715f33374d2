"""Fleet: where the GPU-hours went, and what is idle, broken or open now."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_dashboards import recording
from dutycycle_dashboards.boards import listed, owned
from dutycycle_dashboards.boards.listed import NO_USAGE, NOTHING, TO_JOB, TO_NODE, TO_USER
from dutycycle_dashboards.building import promql, variables
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import heatmap, stat, timeseries
from dutycycle_dashboards.building.links import FLEET, USERS, Link
from dutycycle_dashboards.building.panel import ANY_IS_BAD, UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import GPU_HOURS, GPUS, KWH, PERCENT

LOOKS_BUSY, IS_BUSY = 0.5, 0.2
"""From which utilization on a GPU looks busy, and under which share of SMs active it is not."""
_FEW_POINTS = 120
_WINDOW = promql.INTERVAL
_PER_STEP = "* 1000 / $__interval_ms"
"""From GPU-seconds in a step to GPUs."""
_QUANTILES = tuple(
    zip(recording.QUANTILES, ("10 % of GPUs are below", "median GPU", "90 % of GPUs are below"), strict=True)
)[::-1]
_SHADES = {"90 % of GPUs are below": "super-light-blue", "median GPU": "blue", "10 % of GPUs are below": "dark-blue"}
_LARGEST = 20


def fleet() -> Board:
    """What the head of the lab asks first, then what the operator does."""
    return Board(
        uid=FLEET,
        title="Dutycycle / Fleet",
        description="Where the GPU-hours of the fleet went, and what is idle, broken or open now.",
        variables=(variables.datasource(), variables.resolution(), *variables.filters(), variables.alerter()),
        sections=(
            Section("Over the range", (*_totals(), _gpus(), _quantiles())),
            Section("Now", (*_counts(), listed.idle_gpus(width=12), _looks_busy(), listed.open_incidents())),
            Section("Faults", (_faults(), _throttled())),
            Section("Jobs", (_jobs_wasting(), _jobs_working()), collapsed=True),
            Section("Nodes and units", (_nodes(), _units()), collapsed=True),
        ),
    )


def _totals() -> tuple[Panel, ...]:
    used = {kind: promql.hours(kind) for kind in ("allocated", "observed", "busy")}
    capacity = "sum(sum_over_time(fleet:gpu_visible_seconds:increase${res}[$__range]))"
    everybody = promql.used("allocated", filters=())
    # One row for each currency that an alerter has.
    cost = "max by (currency) (dutycycle_gpu_hour_cost) * on () group_left ()"
    unpriced = "no price is configured"
    return (
        stat(
            "Mean utilization",
            "Of all allocated GPUs for as long as they were measured: busy by observed GPU-hours. Under 15 % is red, "
            "from 50 % on green. GPUs whose utilization cannot be measured are left out; they do not count as 0.",
            Target(promql.utilization()),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data=NOTHING,
            link=Link("Show by user", USERS, keep=("datasource", *promql.FILTERS, "alerter")),
        ),
        stat(
            "Allocated",
            "GPU-hours for which jobs held GPUs, used or not; a shared GPU and a MIG instance count by their share.",
            Target(used["allocated"]),
            unit=GPU_HOURS,
            no_data=NOTHING,
        ),
        stat(
            "Observed",
            "Allocated GPU-hours for which utilization was measured. Far less than allocated means MIG without "
            "utilization, or exporters that could not read.",
            Target(used["observed"]),
            unit=GPU_HOURS,
            no_data=NOTHING,
        ),
        stat(
            "Busy",
            "GPU-hours in which a kernel was running: the integral of the duty cycle.",
            Target(used["busy"]),
            unit=GPU_HOURS,
            no_data=NOTHING,
        ),
        stat(
            "Wasted",
            "GPU-hours observed and not busy. What was not measured is left out.",
            Target(promql.wasted_hours()),
            unit=GPU_HOURS,
            thresholds=_ALWAYS_BAD,
            no_data=NOTHING,
        ),
        stat(
            "Unallocated",
            "GPU-hours for which GPUs were there and nobody held them, of the whole fleet: filters do not apply, as "
            "what nobody holds has no owner. GPUs that NVML does not show are left out.",
            Target(
                f"clamp_min({capacity} - {everybody}, 0) / 3600",
                may_be_empty="nobody held a GPU, or increments are missing",
            ),
            unit=GPU_HOURS,
            no_data="No recorded use or capacity",
        ),
        stat(
            "Cost",
            "Allocated, and wasted, GPU-hours at the price of an hour that the alerter was configured with "
            "(costs.gpu_hour), as it is now.",
            Target(f"{cost} ({used['allocated']})", "{{currency}} allocated", unpriced),
            Target(f"{cost} ({promql.wasted_hours()})", "{{currency}} wasted", unpriced),
            no_data="No price of a GPU-hour is configured in the alerter (costs.gpu_hour)",
            width=8,
        ),
        stat(
            "Energy",
            "Allocated GPUs only, by their energy counters; without hosts and cooling.",
            Target(promql.hours("energy"), may_be_empty="GPUs without energy counter"),
            unit=KWH,
            no_data="No energy was recorded: these GPUs may have no energy counter",
            width=8,
        ),
        stat(
            "Users",
            "Users who held a GPU in the range, of those who are known.",
            Target(f"count({promql.used('allocated', ['user'], more=(promql.KNOWN,))} > 0)"),
            no_data=NOTHING,
            width=8,
            link=Link("Show users", USERS, keep=("datasource", *promql.FILTERS, "alerter")),
        ),
    )


def _gpus() -> Panel:
    parts = {kind: promql.used(kind, over=_WINDOW) for kind in ("allocated", "observed", "busy")}
    everybody = promql.used("allocated", over=_WINDOW, filters=())
    capacity = f"sum(sum_over_time(fleet:gpu_visible_seconds:increase${{res}}[{_WINDOW}]))"
    none = f"0 * {parts['allocated']}"
    return timeseries(
        "GPUs by what they did",
        "Mean number of GPUs in each step: busy, wasted (measured and not busy), held without a measurement, and "
        "held by nobody (whatever the filters). Red that stays wide at night is jobs that nobody looks after; grey "
        "beside waiting jobs is a question to the scheduler.",
        Target(f"{parts['busy']} {_PER_STEP}", "busy"),
        Target(f"clamp_min({parts['observed']} - {parts['busy']}, 0) {_PER_STEP}", "wasted"),
        Target(f"clamp_min({parts['allocated']} - ({parts['observed']} or {none}), 0) {_PER_STEP}", "not measured"),
        Target(f"clamp_min({capacity} - {everybody}, 0) {_PER_STEP}", "unallocated"),
        unit=GPUS,
        stacked=True,
        colors=STATES,
        interval="${res}",
        no_data=NO_USAGE,
    )


def _quantiles() -> Panel:
    recorded = recording.quantiles()
    return timeseries(
        "Utilization by quantile of GPUs",
        "The mean utilization of every allocated GPU over 5 minutes, and how these are spread; a longer step shows the "
        "average of its quantiles. The mean alone hides it: half of the GPUs at 100 % and half at 0 % look like all at "
        "50 %. A low 10 % line means that some GPUs do nothing. All allocated GPUs of the fleet: filters do not apply.",
        *(Target(f'avg_over_time({recorded}{{quantile="{q}"}}[{_WINDOW}])', name) for q, name in _QUANTILES),
        Target(promql.utilization(over=_WINDOW, filters=()), "mean"),
        unit=PERCENT,
        most=100,
        colors=_SHADES | {"mean": "text"},
        interval="${res}",
        no_data=NO_USAGE,
    )


def _counts() -> tuple[Panel, ...]:
    faulty = f"count(count by (cluster, node, gpu) ({' or '.join(_fault_series())})) or 0 * count(gpu_visible)"
    lost = "sum(clamp_min(max by (cluster, node) (gpu_expected) - max by (cluster, node) (gpu_visible), 0))"
    return (
        stat(
            "Idle GPUs",
            "Allocated GPUs without a busy sample for 10 minutes and more, each once however many jobs share it. They "
            "are listed below.",
            Target(owned.idle_devices(), may_be_empty="nothing is allocated"),
            unit=GPUS,
            thresholds=ANY_IS_BAD,
            no_data="No GPU is allocated now",
            width=6,
        ),
        stat(
            "Lost GPUs",
            "GPUs on the PCI bus that NVML does not show, of nodes where NVML can be read. Each is a GPU to look "
            "after. Filters do not apply.",
            Target(lost),
            unit=GPUS,
            thresholds=ANY_IS_BAD,
            no_data="No exporter reports its GPUs now: are they scraped?",
            width=6,
        ),
        stat(
            "GPUs with faults",
            "GPUs with one of the faults that the table Faults lists. Filters do not apply.",
            Target(faulty),
            unit=GPUS,
            thresholds=ANY_IS_BAD,
            no_data="No exporter reports its GPUs now: are they scraped?",
            width=6,
        ),
        stat(
            "Open incidents",
            "What the alerter found and is not resolved.",
            Target(listed.incidents_count(), may_be_empty="no alerter is scraped"),
            thresholds=ANY_IS_BAD,
            no_data="No alerter is scraped",
            width=6,
        ),
    )


def _looks_busy() -> Panel:
    busy = owned.mean_of_gauge("gpu_utilization_ratio")
    active = owned.mean_of_gauge("gpu_sm_active_ratio")
    on = f"on ({', '.join(owned.DEVICE)})"
    # The device's condition is found before the join, which then has few devices to look for; and of those that the
    # filters leave, else others' GPUs take the places.
    hollow = f"{active} < {IS_BUSY} and {on} {busy} > {LOOKS_BUSY}"
    chosen = f"bottomk(100, {hollow} and {on} {promql.allocations()})"
    return table(
        "Looks busy, is not",
        "Allocated GPUs whose utilization was over 50 % in the last 15 minutes while less than 20 % of their "
        "multiprocessors were active: a kernel runs all the time, and is small. The 100 with the least activity. "
        "Larger batches, fewer and larger kernels, or a smaller GPU. Only GPUs with GPM (Hopper and later) can be "
        "judged.",
        (
            Target(f"100 * {promql.of_devices(f'({chosen})')}", may_be_empty="no GPU looks busy and is not"),
            Target(
                f"100 * {promql.of_devices(f'({busy} and {on} {chosen})')}",
                may_be_empty="no GPU looks busy and is not",
            ),
        ),
        (
            Column("Node", label="node", link=TO_NODE),
            Column("GPU", label="gpu", width=70),
            Column("User", label="user", link=TO_USER),
            Column("Job", label="workload", link=TO_JOB),
            Column("Cluster", label="cluster", width=100),
            Column("Utilization", value=1, unit=PERCENT, decimals=0, width=110),
            Column("SM active", value=0, unit=PERCENT, decimals=0, width=125, thresholds=UTILIZATION),
        ),
        sort="SM active",
        ascending=True,
        no_data="No GPU looks busy and is not, or none has GPM",
        width=12,
        height=9,
    )


def _fault_series() -> tuple[str, ...]:
    """GPUs with each kind of fault. Numbers of one kind say nothing beside those of another."""
    by = "max by (cluster, node, gpu, fault)"
    kinds = (
        (
            'sum by (cluster, node, gpu, xid) (increase(gpu_xid_errors_total{class!="application"}[$__range])) > 0',
            "XID $1",
            "xid",
        ),
        (
            'gpu_ecc_errors_total{type="volatile_uncorrected"} > 0',
            "memory errors, uncorrected, since the driver was loaded",
            "",
        ),
        ("gpu_row_remap_failed > 0", "row remap failed: replace the GPU", ""),
        ("gpu_sram_threshold_exceeded > 0", "too many errors of SRAM: run the field diagnostic", ""),
        ("gpu_row_remap_pending > 0", "row remap waits for a reset", ""),
        ("gpu_recovery_action > 0", "driver asks for a reset, reboot or drain", ""),
    )
    each = (f'label_replace({expr}, "fault", "{text}", "{label}", "(.*)")' for expr, text, label in kinds)
    return tuple(f"{by} ({expr})" for expr in each)


def _faults() -> Panel:
    return table(
        "Faults",
        "GPUs with an XID in the range that is not the application's (how many), with uncorrected memory errors since "
        "their driver was loaded (how many), or that wait for a reset or a replacement now (the driver's code of what "
        "it asks for, else 1). Of each of these at most 50 GPUs. The node's dashboard has the rest. Filters do not "
        "apply: a broken GPU matters whoever holds it.",
        (Target(" or ".join(f"topk(50, {kind})" for kind in _fault_series()), may_be_empty="no GPU has a fault"),),
        (
            Column("Node", label="node", width=150, link=TO_NODE),
            Column("GPU", label="gpu", width=70),
            Column("Fault", label="fault"),
            Column("Cluster", label="cluster", width=100),
            Column("Count", value=0, decimals=0, width=100),
        ),
        sort="Fault",
        ascending=True,
        no_data="No GPU had a fault in the range",
        width=12,
        height=8,
    )


def _throttled() -> Panel:
    rate = 'max by (cluster, node, gpu, reason) (rate(gpu_throttle_seconds_total{reason!="power_cap"}[15m]))'
    return table(
        "Throttled now",
        "GPUs whose clocks were held down for more than 5 % of the last 15 minutes, by reason: heat and power brakes "
        "are the hardware's, and slow every job on it. The power cap, at which a GPU that works hard always is, is "
        "left out; reasons overlap. Filters do not apply.",
        (Target(f"topk(100, clamp_max(100 * {rate}, 100) > 5)", may_be_empty="no GPU is held down"),),
        (
            Column("Node", label="node", link=TO_NODE),
            Column("GPU", label="gpu", width=70),
            Column("Reason", label="reason"),
            Column("Cluster", label="cluster", width=100),
            Column("Of the time", value=0, unit=PERCENT, decimals=0, width=135, thresholds=_HELD),
        ),
        sort="Of the time",
        no_data="No GPU's clocks are held down, but by its power cap",
        width=12,
        height=8,
    )


def _jobs_wasting() -> Panel:
    chosen = f"topk({_LARGEST}, {owned.wasted(owned.JOB)} > 0)"
    return _jobs(
        "Jobs that waste most",
        "The 20 jobs with the most GPU-hours measured and not busy in the range. Begin here: few large jobs are most "
        "of the waste.",
        chosen,
        Column("Wasted", value=0, unit=GPU_HOURS, decimals=1, width=120),
    )


def _jobs_working() -> Panel:
    chosen = f"topk({_LARGEST}, {owned.grown('busy', owned.JOB)} > 0)"
    return _jobs(
        "Jobs that do most",
        "The 20 jobs with the most busy GPU-hours in the range: what the fleet works for.",
        chosen,
        Column("Busy", value=0, unit=GPU_HOURS, decimals=1, width=120),
    )


def _jobs(title: str, description: str, chosen: str, column: Column) -> Panel:
    few = f"and on (cluster, workload) {chosen}"
    return table(
        title,
        f"{description} A pod is a job of its own here. Hours are of one sample a minute: of a job that ended they are "
        "up to half a minute for each GPU too many.",
        (
            Target(f"{chosen} / 3600"),
            Target(f"{owned.mean(owned.JOB)} {few}"),
            Target(f"{owned.grown('observed', owned.JOB)} / 3600 {few}"),
        ),
        (
            Column("Job", label="workload", link=TO_JOB),
            Column("Cluster", label="cluster", width=100),
            Column("User", label="user", width=110, link=TO_USER),
            Column("Measured", value=2, unit=GPU_HOURS, decimals=1, width=120),
            column,
            listed.mean_column(1, 140),
        ),
        sort=column.title,
        no_data=NO_USAGE,
        width=12,
        height=12,
    )


def _nodes() -> Panel:
    by = ("cluster", "node")
    worst = f"topk(60, {owned.wasted(by, at='end()', coarse=True)})"
    mean = owned.mean(by, over=_WINDOW, coarse=True)
    return heatmap(
        "Nodes over time",
        "Mean utilization of the allocated GPUs of each node: red is allocated and idle, a gap is nothing allocated or "
        "nothing measured. Of many nodes the 60 that wasted most in the range; filters narrow them. A long red "
        "line is a job to talk about, a red column something that hit all, such as a file system.",
        Target(f"{mean} and on ({', '.join(by)}) {worst}", "{{node}} {{cluster}}"),
        least=0,
        most=100,
        interval=owned.COARSE,
        max_points=_FEW_POINTS,
        no_data=NO_USAGE,
        height=14,
    )


def _units() -> Panel:
    held = f"and on ({', '.join(owned.DEVICE)}) {promql.allocations()}"
    no_gpm = "no GPU has GPM"
    panel = timeseries(
        "Utilization and what is behind it",
        "Means over the allocated GPUs. Utilization says that a kernel was running; SM active how many multiprocessors "
        "had work; tensor and DRAM what they did. Utilization far above SM active is small kernels; high DRAM with low "
        "tensor is code that waits for memory. All but utilization only of GPUs with GPM (Hopper and later).",
        Target(f"100 * avg(gpu_utilization_ratio {held})", "utilization", "MIG alone has no utilization"),
        Target(f"100 * avg(gpu_sm_active_ratio {held})", "SM active", no_gpm),
        Target(f"100 * avg(gpu_tensor_active_ratio {held})", "tensor active", no_gpm),
        Target(f"100 * avg(gpu_dram_active_ratio {held})", "DRAM active", no_gpm),
        unit=PERCENT,
        most=100,
        width=24,
        no_data="No allocated GPU was measured in the range",
    )
    return replace(panel, max_points=_FEW_POINTS)


STATES = {"busy": "green", "wasted": "red", "not measured": "purple", "unallocated": "gray"}
"""What GPU time went into, in the same colours everywhere."""
_ALWAYS_BAD = (Threshold(None, "red"),)
_HELD = (Threshold(None, "yellow"), Threshold(20, "orange"), Threshold(50, "red"))
