"""PromQL for one job, GPU or node at a time: from copies of the counters, which still know them.

They cost what the GPUs of the range cost, not what its users do: for tables of few rows and for charts of few points.
Copies have a sample a minute; what is `coarse` comes from the marks beside them, of which there is one in 5 minutes.
"""

from __future__ import annotations

from collections.abc import Iterable

from dutycycle_dashboards import recording
from dutycycle_dashboards.building.promql import FILTERS, RANGE, Usage, allocations, of_devices, owned

DEVICE = ("node", "gpu_uuid", "mig")
"""What tells devices apart, and what device series are joined by."""
JOB = ("cluster", "workload", "user")

COARSE = "15m"
"""Has three marks."""

IDLE_AFTER = 600
"""Seconds without a busy sample from which on an allocated GPU counts as idle."""
_MEASURED = 480
"""Of the last `IDLE_AFTER` seconds, so many must have been measured."""

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
    coarse: bool = False,
) -> str:
    """GPU-seconds (energy: joules) over a window by these labels, any of the copies'. `at` is a time to be asked at
    whatever the step, such as `end()`. A window of what is coarse must be of `COARSE` at least.
    """
    name = recording.counted if coarse else recording.copy_of
    window = f"[{over}]{f' @ {at}' if at else ''}"
    grew = owned(name(_COUNTERS[kind]), filters, *more, form=f"increase({{}}{window})", window=window, each="sum")
    return f"sum by ({', '.join(by)}) ({grew})"


def mean(
    by: Iterable[str],
    *,
    over: str = RANGE,
    filters: Iterable[str] = FILTERS,
    more: Iterable[str] = (),
    at: str = "",
    coarse: bool = False,
) -> str:
    """Mean utilization in percent by these labels; absent where nothing was measured."""
    busy, observed = _busy_and_observed(by, over, filters, more, at, coarse)
    return f"100 * {busy} / ({observed} > 0)"


def wasted(
    by: Iterable[str],
    *,
    over: str = RANGE,
    filters: Iterable[str] = FILTERS,
    more: Iterable[str] = (),
    at: str = "",
    coarse: bool = False,
) -> str:
    """GPU-seconds that were measured and not busy, by these labels."""
    busy, observed = _busy_and_observed(by, over, filters, more, at, coarse)
    return f"({observed} - {busy})"


def idle_for(filters: Iterable[str] = FILTERS, *more: str) -> str:
    """Seconds for which an allocated GPU has had no busy sample while its workload held it, if they are many.

    A GPU that has never been busy since its exporter began has been idle for as long as it was measured. One that was
    not measured for most of the last `IDLE_AFTER` seconds may be busy: it is not idle.
    """
    filters = tuple(filters)
    device = "time() - gpu_last_busy_timestamp_seconds or gpu_observed_seconds_total"
    # No `increase`, which makes minutes of measurement into more.
    measured = f"gpu_observed_seconds_total - gpu_observed_seconds_total offset {IDLE_AFTER}s > {_MEASURED}"
    idle = of_devices(f"({device}) and on ({', '.join(DEVICE)}) ({measured})", allocations(filters, *more))
    held = f"(time() - {owned('gpu_allocation_start_timestamp_seconds', filters, *more)})"
    # The lesser of the two: what was idle before the allocation is not the workload's.
    return f"({idle} < {held} or {held} <= {idle} or {idle}) > {IDLE_AFTER}"


def idle_devices(filters: Iterable[str] = FILTERS, *more: str) -> str:
    """How many allocated GPUs are idle, each once however many workloads hold it; absent where none is allocated."""
    filters = tuple(filters)
    idle = f"count by ({', '.join(DEVICE)}) ({idle_for(filters, *more)})"
    return f"count({idle}) or 0 * count({allocations(filters, *more)})"


def mean_of_gauge(metric: str, window: str = "15m") -> str:
    """A device's gauge averaged over the last minutes."""
    return f"max by ({', '.join(DEVICE)}) (avg_over_time({metric}[{window}]))"


def _busy_and_observed(
    by: Iterable[str], over: str, filters: Iterable[str], more: Iterable[str], at: str, coarse: bool
) -> tuple[str, str]:
    by, filters, more = tuple(by), tuple(filters), tuple(more)
    busy = grown("busy", by, over=over, filters=filters, more=more, at=at, coarse=coarse)
    return busy, grown("observed", by, over=over, filters=filters, more=more, at=at, coarse=coarse)
