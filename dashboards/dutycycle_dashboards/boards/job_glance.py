"""The Job board's first lines: whose the jobs are, and in numbers whether they are stalled, uneven, idle or hollow."""

from __future__ import annotations

from dutycycle_dashboards.boards import job_queries
from dutycycle_dashboards.boards.job_queries import GPU, MEASURED, OWNERS, RANGE
from dutycycle_dashboards.building.graphs import stat
from dutycycle_dashboards.building.links import USER, Link
from dutycycle_dashboards.building.panel import ANY_IS_BAD, UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, FAIR, GOOD, GPU_HOURS, PERCENT, WHEN

_TROUBLED = (Threshold(None, GOOD), Threshold(12, FAIR), Threshold(20, BAD))
"""Share of time in short gaps: a stall opens at 20 % and clears at 12 %."""
_UNEVEN = (Threshold(None, GOOD), Threshold(30, FAIR), Threshold(40, BAD))
_LOOKS = (Threshold(None, BAD), Threshold(25, FAIR), Threshold(35, GOOD))
_KNOWN = (Threshold(None, BAD), Threshold(80, GOOD))


def jobs() -> Panel:
    """Who, what, and since when: one row per job."""
    by = f"by ({', '.join(OWNERS)})"
    holding, theirs = job_queries.holding(), job_queries.named_by_owner
    started = f"last_over_time({job_queries.owned('gpu_allocation_start_timestamp_seconds')}{RANGE})"
    return table(
        "Jobs",
        "Whose it is, what it holds (of a job that has ended: what it held in its last minutes, and not what it held "
        "before it was requeued), and since when. Last busy is when any of its GPUs last had a kernel for more than "
        "5 % of a sample, while it runs and holds them. Last over 15 % is when five minutes' mean was last over it, in "
        "the range: with Started it tells since when the job does little. A GPU of which a job has a part counts as "
        "that part.",
        (
            Target(theirs(f"sum {by} ({holding})")),
            Target(theirs(f"count {by} (count by ({', '.join(OWNERS)}, node) ({holding}))")),
            Target(theirs(job_queries.running())),
            Target(theirs(f"1000 * min {by} ({started})"), may_be_empty="its start is not known"),
            Target(theirs(job_queries.last_busy()), may_be_empty="the job has ended, or its GPUs have not been busy"),
            Target(theirs(job_queries.last_over(15)), may_be_empty="it has not been over 15 % in the range"),
        ),
        (
            Column("Job", label="workload", width=200),
            Column("User", label="user", link=Link("Show this user", USER, {"person": "User"})),
            Column("Account", label="account"),
            Column("Partition", label="partition"),
            Column("Namespace", label="namespace"),
            Column("Cluster", label="cluster"),
            Column("Model", label="model", width=185),
            Column("GPUs", value=0, decimals=1, width=80),
            Column("Nodes", value=1, width=85),
            Column("State", value=2, width=75, texts={"0": "ended", "1": "runs"}),
            Column("Started", value=3, unit=WHEN, width=165),
            Column("Last busy", value=4, unit=WHEN, width=165),
            Column("Last over 15 %", value=5, unit=WHEN, width=165),
        ),
        sort="Job",
        ascending=True,
        no_data="No GPU of this job in the range",
        height=5,
    )


def numbers() -> tuple[Panel, ...]:
    """How much, and the four ways in which it can be amiss."""
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
            no_data="No GPU in the range",
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
            no_data="Not measured (on MIG?)",
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
            no_data="Not measured lately",
            width=3,
        ),
        stat(
            "Short gaps",
            "Measured time in idle gaps of up to 30 seconds. From 20 % on the GPU waits for something at every step: "
            "data, the host's work per step, or other ranks. Try more workers and prefetching, larger batches, fewer "
            "synchronizations.",
            Target(job_queries.gaps(RANGE, "lt2|2to30"), may_be_empty=MEASURED),
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
            "SM when busy",
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
