"""PromQL about the chosen jobs: their counters, their GPUs, and how evenly and steadily these work.

Utilization is what busy time grew by over what observed time grew by, never a mean of the gauge: it loses nothing
between scrapes, and time that was not measured is not idle.
"""

from __future__ import annotations

from dutycycle_dashboards import recording
from dutycycle_dashboards.building import promql

CHOSEN = ("cluster", "workload")
"""The variables that choose ownership series. The user only limits the choice of workloads."""
OWNERS = ("cluster", "workload", "user", "account", "partition", "namespace", "model")
"""A row of the table of jobs."""
GPU = ("node", "gpu", "mig")
_DEVICE = ("node", "gpu_uuid", "mig")
RATE = "[$__rate_interval]"
RANGE = "[$__range]"

MEASURED = "no GPU of this job has utilization: MIG without GPM, or no exporter answered"
NO_GPM = "no GPM on these GPUs: Hopper and later"
NO_CGROUP = "the node's cgroups do not give it"
NO_SAMPLES = "no samples of utilization: MIG, or counters of another exporter"

_LAST = 600
"""Seconds, two looks apart: what a job still held so long before its end it held together."""


def owned(metric: str, *more: str) -> str:
    """An ownership series of the chosen jobs."""
    return promql.selector(metric, CHOSEN, *more)


def named_by_owner(expr: str) -> str:
    """Rows of jobs with the user and account that the alerter resolved, else with the exporter's."""
    owners = recording.newest_owner(RANGE, ever_held(), promql.selector("", CHOSEN))
    return recording.by_owner(f"max without ({', '.join(recording.OWNED)}) ({expr})", owners)


def on_nodes(metric: str, *more: str) -> str:
    """A device series of the jobs' nodes, which are known beforehand: else every GPU of the fleet would be read."""
    return promql.selector(metric, (), 'node=~"$nodes"', *more)


def of_cgroups(metric: str) -> str:
    """A series of the chosen jobs' cgroups, by node; it does not tell whose they are."""
    return promql.selector(metric, ("cluster", "workload"))


def held() -> str:
    """The jobs' GPUs at the time of the query."""
    return owned("gpu_allocation")


def of_gpus(metric: str) -> str:
    """A device series, while the jobs hold the device."""
    return f"({metric} and on (node, gpu_uuid, mig) {held()})"


def ever_held() -> str:
    """The jobs' GPUs in the range, with the share that was theirs last: there is one also when the job has ended."""
    return f"last_over_time({held()}{RANGE})"


def holding() -> str:
    """The jobs' GPUs as they hold them now; those of a job that holds none any more as it held them at last: what it
    held before it was requeued is not added to what it held after that.
    """
    by, now, ever = ", ".join(OWNERS), held(), ever_held()
    seen = f"max_over_time(timestamp({now})[$__range:5m])"
    last = f"{ever} and {seen} > on ({by}) group_left () (max by ({by}) ({seen}) - {_LAST})"
    # What was there for some minutes only may have been there at no look.
    return f"({now} or ({last} or {ever} unless on ({by}) {seen}) unless on ({by}) {now})"


def total(metric: str, window: str, by: tuple[str, ...] = (), *more: str, function: str = "rate") -> str:
    """How fast (`increase`: by how much) a counter of the jobs grew."""
    group = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{group} ({function}({owned(metric, *more)}{window}))"


def utilization(window: str, by: tuple[str, ...] = ()) -> str:
    """Mean utilization in percent over a window, of each group of GPUs. On a shared GPU it can be over 100 %."""
    busy = total("workload_gpu_busy_seconds_total", window, by)
    return f"100 * {busy} / ({total('workload_gpu_observed_seconds_total', window, by)} > 0)"


def unevenness(window: str, by: tuple[str, ...]) -> str:
    """100 x (1 - min / max) of the utilization of GPUs (or nodes), in percent."""
    each = utilization(window, by)
    return f"100 * (1 - min({each}) / (max({each}) > 0))"


def active(window: str, unit: str) -> str:
    """Percent of measured time in which a unit of the GPUs worked, of those GPUs that have GPM."""
    unit = f'unit="{unit}"'
    worked = f"rate({owned('workload_gpu_active_seconds_total', unit)}{window})"
    observed = f"rate({owned('workload_gpu_observed_seconds_total')}{window})"
    return f"100 * sum({worked}) / (sum({observed} and on (node, gpu_uuid, mig, workload) {worked}) > 0)"


def active_while_busy() -> str:
    """Percent of busy time, over the range, in which multiprocessors worked: low is what only looks busy."""
    worked = f"increase({owned('workload_gpu_active_seconds_total', _SM)}{RANGE})"
    busy = f"increase({owned('workload_gpu_busy_seconds_total')}{RANGE})"
    return f"100 * sum({worked}) / (sum({busy} and on (node, gpu_uuid, mig, workload) {worked}) > 0)"


def gaps(window: str, lengths: str) -> str:
    """Percent of measured time in idle gaps of these lengths (a regular expression)."""
    length = f'length=~"{lengths}"'
    idle = total("workload_gpu_idle_gap_seconds_total", window, (), length)
    return f"100 * {idle} / ({total('workload_gpu_observed_seconds_total', window)} > 0)"


def distribution(window: str) -> str:
    """Percent of measured time by utilization, as a classic histogram."""
    each = total("workload_gpu_utilization_samples_bucket", window, ("le",))
    everything = total("workload_gpu_utilization_samples_bucket", window, (), 'le="+Inf"')
    return f"100 * {each} / on () group_left () ({everything} > 0)"


def idle_gpus() -> str:
    """GPUs that did nothing (0.5 % or less) in the last half hour of the range, of those that were measured for ten
    minutes of it; absent where there is none.
    """
    observed = total("workload_gpu_observed_seconds_total", "[30m]", GPU, function="increase")
    measured = f"({utilization('[30m]', GPU)} and on ({', '.join(GPU)}) {observed} > 600)"
    return f"count({measured} <= 0.5) or 0 * count({measured})"


def last_over(percent: int) -> str:
    """When (in ms since 1970) five minutes' mean was last over so many percent, by job."""
    mean = utilization("[5m]", OWNERS)
    return f"1000 * max_over_time((0 * ({mean} > {percent}) + time())[$__range:5m])"


def last_busy() -> str:
    """When (in ms since 1970) any GPU of a job that still runs last had a sample over 5 %, since the job holds it: what
    was before that was another's.
    """
    busy = promql.of_devices(on_nodes("gpu_last_busy_timestamp_seconds"), held())
    started = owned("gpu_allocation_start_timestamp_seconds")
    return f"1000 * max by ({', '.join(OWNERS)}) ({busy} >= {started} or {busy} unless {started})"


def running() -> str:
    """1 for jobs that hold a GPU at the range's end, 0 for those that held one in the range."""
    by = f"by ({', '.join(OWNERS)})"
    return f"0 * count {by} ({held()}) + 1 or 0 * count {by} ({ever_held()})"


def named(expr: str) -> str:
    """GPUs (series with node, gpu and mig) with a label `device` that people can read: node:index, and for a MIG
    instance the beginning of its UUID.
    """
    slices = f'label_replace({expr}, "slice", "/$1", "mig", "MIG-(.{{1,8}}).*")'
    return f'label_join(label_join({slices}, "device", ":", "node", "gpu"), "device", "", "device", "slice")'


_SM = 'unit="sm"'
