"""PromQL for one job, GPU or node at a time: from copies of the counters, one sample a minute, that still know them.

They cost what the GPUs of the range cost, not what its users do: for tables of few rows and for charts of few points.
"""

from __future__ import annotations

from collections.abc import Iterable

from dutycycle_dashboards import recording
from dutycycle_dashboards.promql import FILTERS, RANGE, Usage, allocations, of_devices, selector

DEVICE = ("node", "gpu_uuid", "mig")
"""What tells devices apart, and what device series are joined by."""
JOB = ("cluster", "workload", "user")

IDLE_AFTER = 600
"""Seconds without a busy sample from which on an allocated GPU counts as idle."""

_COUNTERS = {
    "allocated": "workload_gpu_allocated_seconds_total",
    "observed": "workload_gpu_observed_seconds_total",
    "busy": "workload_gpu_busy_seconds_total",
    "energy": "workload_gpu_energy_joules_total",
}


def grown(
    kind: Usage,
    by: Iterable[str],
    *,
    over: str = RANGE,
    filters: Iterable[str] = FILTERS,
    more: Iterable[str] = (),
    at: str = "",
) -> str:
    """GPU-seconds (energy: joules) over a window by these labels, any of the copies'. `at` is a time to be asked at
    whatever the step, such as `end()`.
    """
    copy = selector(recording.copy_of(_COUNTERS[kind]), filters, *more)
    return f"sum by ({', '.join(by)}) (increase({copy}[{over}]{f' @ {at}' if at else ''}))"


def mean(
    by: Iterable[str], *, over: str = RANGE, filters: Iterable[str] = FILTERS, more: Iterable[str] = (), at: str = ""
) -> str:
    """Mean utilization in percent by these labels; absent where nothing was measured."""
    by, filters, more = tuple(by), tuple(filters), tuple(more)
    busy = grown("busy", by, over=over, filters=filters, more=more, at=at)
    return f"100 * {busy} / ({grown('observed', by, over=over, filters=filters, more=more, at=at)} > 0)"


def wasted(
    by: Iterable[str], *, over: str = RANGE, filters: Iterable[str] = FILTERS, more: Iterable[str] = (), at: str = ""
) -> str:
    """GPU-seconds that were measured and not busy, by these labels."""
    by, filters, more = tuple(by), tuple(filters), tuple(more)
    observed = grown("observed", by, over=over, filters=filters, more=more, at=at)
    return f"({observed} - {grown('busy', by, over=over, filters=filters, more=more, at=at)})"


def idle_for(filters: Iterable[str] = FILTERS, *more: str) -> str:
    """Seconds for which an allocated GPU has had no busy sample while its workload held it, if they are many.

    A GPU that has never been busy since its exporter began has been idle for as long as it was measured.
    """
    filters = tuple(filters)
    device = "time() - gpu_last_busy_timestamp_seconds or gpu_observed_seconds_total"
    idle = of_devices(f"max by ({', '.join(DEVICE)}) ({device})", allocations(filters, *more))
    held = f"(time() - {selector('gpu_allocation_start_timestamp_seconds', filters, *more)})"
    # The lesser of the two: what was idle before the allocation is not the workload's.
    return f"({idle} < {held} or {held} <= {idle} or {idle}) > {IDLE_AFTER}"


def mean_of_gauge(metric: str, window: str = "15m") -> str:
    """A device's gauge averaged over the last minutes."""
    return f"max by ({', '.join(DEVICE)}) (avg_over_time({metric}[{window}]))"
