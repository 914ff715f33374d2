"""The fixed set of queries of a pass: pure functions of the settings.

Their number depends on the windows of the rules and on the shards, never on jobs or GPUs, and nothing that anybody
calls a job, user or node ever becomes part of one. Labels that the answer is not told apart by are summed away on the
engine's side: an answer of a hundred thousand GPUs is read every minute.
"""

from __future__ import annotations

from collections.abc import Iterable

from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.metric_names import LOW, SAMPLES
from dutycycle_alerter.sources.prometheus import device_queries
from dutycycle_alerter.sources.prometheus.scope import ABSENT, COUNTED, reads_labels, windows
from dutycycle_alerter.sources.prometheus.selectors import (
    ACCOUNT,
    DEVICE,
    GPU,
    HOLDING,
    HOST,
    JOB,
    KEY,
    LABEL,
    OWNER,
    Query,
    Selectors,
    by,
    duration,
    on,
)
from dutycycle_alerter.window_usage import HOST_COVERAGE

PRESENCE = "gpu_visible"
"""The metric that every exporter has that can read its GPUs."""
KEPT = 600.0
"""Wall seconds for which a counter's last value stands in for one that is missing, in the usage ledger."""
ACCOUNTED = {
    "allocated": "workload_gpu_allocated_seconds_total",
    "observed": "workload_gpu_observed_seconds_total",
    "busy": "workload_gpu_busy_seconds_total",
    "energy": "workload_gpu_energy_joules_total",
}
GAPS = {"gap_2to30": "2to30", "gap_30to600": "30to600", "gap_ge600": "ge600"}
UNITS = ("sm", "tensor", "dram")


def identity(settings: Settings, *, back: float, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """Who holds which GPU, or held it in the last `back` wall seconds; and which nodes can be seen."""
    of = Selectors(settings, shard)
    twice = duration(2.5 * of.interval)
    absent, counted, span = duration(ABSENT * of.interval), duration(COUNTED * of.interval), duration(back)
    held = of("gpu_allocation")
    seen = of("gpu_visible")
    queries = [
        Query("held", by("max", HOLDING, held), HOLDING),
        Query("gone", f"{by('max', HOLDING, f'last_over_time({held}[{span}])')} unless {on(KEY)} {held}", HOLDING),
        Query("missing", f"{by('max', KEY, f'last_over_time({held}[{absent}])')} unless {on(KEY)} {held}", KEY),
        Query("owner", by("max", OWNER, f"last_over_time({held}[{span}])"), OWNER),
        Query("start", _first(of("gpu_allocation_start_timestamp_seconds"), held, span), JOB),
        Query("first_process", _first(of("workload_first_process_timestamp_seconds"), held, span), JOB),
        Query("seen_at", by("max", ("node",), f"timestamp({seen})"), ("node",)),
        Query("answers", by("max", ("node",), f"count_over_time({seen}[{absent}])"), ("node",)),
        Query("scrapes", by("max", ("node",), f"count_over_time({seen}[{counted}])"), ("node",)),
        # While a driver is loaded GPUs come one by one: one is missing where it is in two scrapes.
        Query("visible", by("max", ("node",), f"max_over_time({seen}[{twice}])"), ("node",)),
        Query("expected", by("min", ("node",), f"min_over_time({of('gpu_expected')}[{twice}])"), ("node",)),
        Query("free", f"{by('max', GPU, of('gpu_info'))} unless {on(DEVICE)} {held}", GPU),
        Query("scales", f'count_values("scale", {of("dutycycle_exporter_time_scale")})', ("scale",)),
        Query("replays", f"max({of('dutycycle_exporter_replay')})", ()),
        Query("twice", f"count({by('count', KEY, held)} > 1)", ()),
    ]
    if reads_labels(settings):
        queries.append(Query("labels", by("max", LABEL, f"last_over_time({of('workload_label')}[{span}])"), LABEL))
    for window in windows(settings).every:
        before = f"{held} offset {duration(window)}"
        queries.append(Query("watched", by("count", JOB, by("count", ("cluster", *KEY), before)), JOB, window))
    return tuple(queries)


def evidence(settings: Settings, *, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """What the GPUs and their jobs did over each window, and what the GPUs are like."""
    of, lengths = Selectors(settings, shard), windows(settings)
    found = [
        *device_queries.state(of, lengths, settings.judging.rules.gpu_fault.xids),
        *device_queries.learned(of),
        Query("memory_total", by("max", DEVICE, of("gpu_memory_total_bytes")), DEVICE),
        Query("power_limit", by("max", DEVICE, of("gpu_power_limit_watts")), DEVICE),
        Query("cpu_limit", by("max", HOST, of("workload_cpu_limit_cores")), HOST),
    ]
    for window in lengths.every:
        found += _utilization(of, window)
    for window in lengths.full:
        found += _full(of, window)
        found += _host(of, window)
    for window in lengths.held:
        found += _held(of, window)
    for window in lengths.links:
        found.append(device_queries.links(of, window))
    for window in lengths.levels:
        low = of.increase(SAMPLES, window, f"le={LOW!r}")
        found.append(Query("low", by("max", KEY, low), KEY, window))
    for window in sorted({*lengths.full, lengths.throttled}):
        found.append(device_queries.heat(of, window))
    found.append(device_queries.power_cap(of, lengths.throttled))
    # Last, as the slowest: the engine is asked a few queries at a time, and these must not hold up all others.
    for window in lengths.peaks:
        found += _held(of, window)
    return tuple(found)


def accounts(settings: Settings, *, span: float, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """The counters of usage, one sample each scrape interval over `span` wall seconds, and their owners.

    A value that is missing is the last one before it: the end of a series takes nothing away, and a scrape that failed
    is bridged. The answer is a matrix, but for the owners'.
    """
    of = Selectors(settings, shard)
    # Half a step more: the range is open at its beginning, or closed, depending on the engine.
    steps = f"[{duration(span + of.interval / 2)}:{duration(of.interval)}]"
    kept = duration(KEPT)
    owners = f"last_over_time({of(ACCOUNTED['allocated'])}[{duration(span + KEPT)}])"
    return (
        *(
            Query(name, f"{by('max', ACCOUNT, f'last_over_time({of(metric)}[{kept}])')}{steps}", ACCOUNT, samples=True)
            for name, metric in ACCOUNTED.items()
        ),
        Query("owner", by("max", OWNER, owners), OWNER),
    )


def slopes(settings: Settings, *, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """How many seconds of allocation each series of `accounts` grows by in a second: a MIG slice less than one."""
    held = Selectors(settings, shard)(ACCOUNTED["allocated"])
    return (Query("slope", by("max", ACCOUNT, f"deriv({held}[{duration(KEPT)}])"), ACCOUNT),)


def _first(metric: str, held: str, span: str) -> str:
    """The lowest value for each job: of what it holds now, and only where it holds nothing, of what it held."""
    return (
        f"{by('min', JOB, metric)} or ({by('min', JOB, f'last_over_time({metric}[{span}])')} unless {on(JOB)} {held})"
    )


def _utilization(of: Selectors, window: float) -> Iterable[Query]:
    for name in ("observed", "busy"):
        yield Query(name, by("max", KEY, of.increase(ACCOUNTED[name], window)), KEY, window)


def _full(of: Selectors, window: float) -> Iterable[Query]:
    yield Query("energy", by("max", KEY, of.increase(ACCOUNTED["energy"], window)), KEY, window)
    gaps, active = "workload_gpu_idle_gap_seconds_total", "workload_gpu_active_seconds_total"
    # Every length is there where one is; that most of them are 0 need not be told a hundred thousand times.
    yield Query("gap_lt2", by("max", KEY, of.increase(gaps, window, 'length="lt2"')), KEY, window)
    for name, length in GAPS.items():
        yield Query(name, f"{by('max', KEY, of.increase(gaps, window, f'length={length!r}'))} > 0", KEY, window)
    for unit in UNITS:
        yield Query(unit, by("max", KEY, of.increase(active, window, f"unit={unit!r}")), KEY, window)


def _host(of: Selectors, window: float) -> Iterable[Query]:
    cpu, pressure = "workload_cpu_seconds_total", "workload_pressure_seconds_total"
    yield Query("cpu_seconds", _throughout(of, cpu, window), HOST, window)
    for resource in ("io", "cpu"):
        yield Query(f"{resource}_pressure", _throughout(of, pressure, window, f"resource={resource!r}"), HOST, window)


def _throughout(of: Selectors, metric: str, window: float, *conditions: str) -> str:
    """Growth of what was there near both ends of the window: what grew in a part of it would pass for the whole."""
    left = max((1 - HOST_COVERAGE) * window, ABSENT * of.interval)
    near = f"last_over_time({of(metric, *conditions)}[{duration(left)}]"
    grown = by("max", HOST, of.increase(metric, window, *conditions))
    return f"{grown} and {on(HOST)} {near}) and {on(HOST)} {near} offset {duration(HOST_COVERAGE * window)})"


def _held(of: Selectors, window: float) -> Iterable[Query]:
    memory = f"max_over_time({of('workload_gpu_memory_used_bytes')}[{duration(window)}])"
    yield Query("memory_used", by("max", KEY, memory), KEY, window)
    most = f"max_over_time({of('workload_gpu_processes')}[{duration(window)}])"
    yield Query("processes", by("max", KEY, most), KEY, window)
