"""The fixed set of queries of a pass: pure functions of the settings.

Their number depends on the windows of the rules and on the shards, never on jobs or GPUs, and nothing that anybody
calls a job, user or node ever becomes part of one. Labels that the answer is not told apart by are summed away on the
engine's side: an answer of a hundred thousand GPUs is read every minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.promql.text import selector
from dutycycle_alerter.settings import WINDOWS, Settings
from dutycycle_alerter.settings.matching import ANY
from dutycycle_alerter.settings.prometheus import Prometheus
from dutycycle_alerter.sources.prometheus.recorded import COPIED, copy_of

DEVICE = ("node", "gpu_uuid", "mig")
KEY = (*DEVICE, "workload")
"""One workload on one GPU."""
HOLDING = ("cluster", "node", "gpu", "gpu_uuid", "mig", "workload", "model")
JOB = ("cluster", "workload")
OWNER = (*JOB, "scheduler", "namespace", "pod", "job_id", "user", "account", "partition")
LABEL = (*JOB, "label", "value")
HOST = ("node", "workload")
GPU = ("node", "gpu", "gpu_uuid", "mig", "model")
ACCOUNT = ("cluster", "node", "gpu_uuid", "mig", "workload", "model")

PRESENCE = "gpu_visible"
"""The metric that every exporter has that can read its GPUs."""
ABSENT_SCRAPES = 3
"""Scrapes without the allocation after which it has ended; also intervals after which a silent node is unseen."""
ABSENT = 3.5
"""Scrape intervals that hold at least three scrapes, wherever they begin."""
SHORTEST_LOOKBACK, LONGEST_LOOKBACK = 1800.0, 7200.0
"""How far back allocations that have ended are looked for, in seconds before scaling."""
XID_LOOKBACK = 7200.0
MANY_MINUTES = 1200.0
"""A window that is read from the copies of a minute holds many of them, also at another time scale."""
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
HEAT = 'reason=~"sw_thermal|hw_thermal|power_brake"'
"""Kinds of heat, and the power brake, where the driver tells them one by one; older ones say `thermal`."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `labels` tell the answer's series apart; `window` is the length in wall seconds that it is about."""

    name: str
    text: str
    labels: tuple[str, ...]
    window: float = 0.0
    optional: bool = False
    """Whether the pass goes on without an answer."""
    samples: bool = False
    """Whether the answer is a matrix."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Which windows the rules read, in wall seconds: `basic` utilization alone, `full` everything, `held` memory and
    processes as well, `links` also link traffic, `peaks` memory for what is reported of a job at its end.
    """

    basic: tuple[float, ...]
    full: tuple[float, ...]
    held: tuple[float, ...]
    links: tuple[float, ...]
    peaks: tuple[float, ...]
    leaked: float
    throttled: float

    @property
    def devices(self) -> float:
        """The longest window of the rules on GPUs."""
        return max(self.leaked, self.throttled)

    @property
    def every(self) -> tuple[float, ...]:
        """All of them, shortest first."""
        return tuple(sorted({*self.basic, *self.full}))


def windows(settings: Settings) -> Windows:
    """The windows of the rules. A whole day is read only where some jobs may be serving."""
    rules = settings.judging.rules
    held = {rules.idle.window, rules.partially_idle.window, rules.uneven.window, rules.low_sm_activity.window}
    held.add(rules.underused.window)
    full = held | {rules.hung.window, rules.stalled.window, rules.idle.clear_window}
    basic = {rules.idle.critical_window}
    # Jobs that these entries are about may say of themselves that they are serving.
    trusted = settings.policies.opt_out.kinds
    if trusted or any(match.kind is JobKind.SERVING for match in settings.kinds):
        basic.add(rules.idle.serving_window)
    return Windows(
        basic=tuple(sorted(basic - full)),
        full=tuple(sorted(full)),
        held=tuple(sorted(held)),
        links=(rules.hung.window,),
        peaks=tuple({rules.idle.critical_window} - held),
        leaked=rules.leaked_memory.window,
        throttled=rules.throttled.window,
    )


def reads_labels(settings: Settings) -> bool:
    """Whether any entry is about jobs with some label of their pods."""
    policies = settings.policies
    entries = (
        *settings.kinds,
        *settings.uneven_by_design,
        *policies.exceptions,
        *policies.opt_out.allowed,
        *policies.opt_out.kinds,
    )
    return any(match.label != ANY for match in entries)


def shards(settings: Prometheus) -> tuple[tuple[str, ...], ...]:
    """The matchers of each shard's selectors; one without any where there are no shards."""
    return tuple((shard,) for shard in settings.shards) or ((),)


def duration(seconds: float) -> str:
    """As PromQL writes it, to the millisecond."""
    return f"{max(1, round(seconds * 1000))}ms"


def lookback(settings: Settings, since: float) -> float:
    """Wall seconds for which ended allocations are looked back for; `since` is how long ago the last pass was."""
    shortest, longest = SHORTEST_LOOKBACK / settings.time_scale, LONGEST_LOOKBACK / settings.time_scale
    absent = ABSENT * _section(settings).scrape_interval
    return min(max(since + absent, shortest), max(longest, shortest))


def identity(settings: Settings, *, back: float, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """Who holds which GPU, or held it in the last `back` wall seconds; and which nodes can be seen."""
    of = Selectors(settings, shard)
    twice = duration(2.5 * of.interval)
    absent, span = duration(ABSENT * of.interval), duration(back)
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
        *_devices(of, lengths, settings.judging.rules.gpu_fault.xids),
        *_learned(of),
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
    for window in lengths.peaks:
        found.append(_memory(of, window))
    for window in lengths.links:
        found.append(_links(of, window))
    for window in sorted({*lengths.full, lengths.throttled}):
        found += _throttled(of, window)
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


class Selectors:
    """Makes selectors of metrics; `interval` is the engine's scrape interval, and `xid_lookback` how far back XIDs are
    looked for, in wall seconds.
    """

    def __init__(self, settings: Settings, shard: tuple[str, ...]) -> None:
        section = _section(settings)
        self.interval = section.scrape_interval
        self.xid_lookback = XID_LOOKBACK / settings.time_scale
        self._matchers = (*section.matchers, *shard)
        long = max(WINDOWS[2] / settings.time_scale, MANY_MINUTES)
        self._recorded_from = long if section.recorded else float("inf")

    def __call__(self, metric: str, *conditions: str) -> str:
        """The metric's series of this site and shard that fulfil the conditions."""
        return selector(metric, (*conditions, *self._matchers))

    def increase(self, metric: str, window: float, *conditions: str) -> str:
        """Growth of a counter over the window, from its copy where there is one."""
        if metric in COPIED and window >= self._recorded_from:
            metric = copy_of(metric)
        return f"increase({self(metric, *conditions)}[{duration(window)}])"


def _section(settings: Settings) -> Prometheus:
    return settings.prometheus or Prometheus()


def by(aggregation: str, labels: Iterable[str], expression: str) -> str:
    """An aggregation that keeps these labels."""
    return f"{aggregation} by ({', '.join(labels)}) ({expression})"


def on(labels: Iterable[str]) -> str:
    """What two vectors are matched by."""
    return f"on ({', '.join(labels)})"


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
    yield Query("cpu_seconds", by("max", HOST, of.increase(cpu, window)), HOST, window)
    for resource in ("io", "cpu"):
        grown = of.increase(pressure, window, f"resource={resource!r}")
        yield Query(f"{resource}_pressure", by("max", HOST, grown), HOST, window)


def _held(of: Selectors, window: float) -> Iterable[Query]:
    yield _memory(of, window)
    most = f"max_over_time({of('workload_gpu_processes')}[{duration(window)}])"
    yield Query("processes", by("max", KEY, most), KEY, window)


def _memory(of: Selectors, window: float) -> Query:
    most = f"max_over_time({of('workload_gpu_memory_used_bytes')}[{duration(window)}])"
    return Query("memory_used", by("max", KEY, most), KEY, window)


def _links(of: Selectors, window: float) -> Query:
    """Bytes over NVLink both ways, or over PCIe where there is none."""
    both = (
        by("sum", DEVICE, by("max", (*DEVICE, "direction"), of.increase(metric, window)))
        for metric in ("gpu_nvlink_bytes_total", "gpu_pcie_bytes_total")
    )
    return Query("link_bytes", " or ".join(both), DEVICE, window)


def _throttled(of: Selectors, window: float) -> Iterable[Query]:
    metric = "gpu_throttle_seconds_total"
    kinds = by("sum", DEVICE, by("max", (*DEVICE, "reason"), of.increase(metric, window, HEAT)))
    at_once = by("max", DEVICE, of.increase(metric, window, 'reason="thermal"'))
    yield Query("throttle_thermal", f"{kinds} or {at_once}", DEVICE, window)
    power_cap = of.increase(metric, window, 'reason="power_cap"')
    yield Query("throttle_power", by("max", DEVICE, power_cap), DEVICE, window)


def _devices(of: Selectors, lengths: Windows, xids: tuple[int, ...]) -> Iterable[Query]:
    """Of GPUs that nobody holds more is read than of others: only there memory leaks."""
    nobody = f"unless {on(DEVICE)} {of('gpu_allocation')}"
    window, leaked = duration(lengths.devices), duration(lengths.leaked)
    memory, processes = of("gpu_memory_used_bytes"), of("gpu_processes")
    yield Query("memory", by("max", DEVICE, memory), DEVICE)
    least = by("min", DEVICE, f"min_over_time({memory}[{leaked}])")
    yield Query("free_memory_least", f"{least} {nobody}", DEVICE, lengths.leaked)
    most = by("max", DEVICE, f"max_over_time({processes}[{leaked}])")
    yield Query("free_processes_most", f"{most} {nobody}", DEVICE, lengths.leaked)
    held = by("max", DEVICE, f"last_over_time({of('gpu_allocation')}[{leaked}])")
    yield Query("held_lately", f"{held} {nobody}", DEVICE, lengths.leaked)
    seen = f"{of('gpu_visible')} offset {window}"
    yield Query("seen_before", by("max", ("node",), seen), ("node",), lengths.devices)
    for name, metric in (("recovery_action", "gpu_recovery_action"), ("remap_failed", "gpu_row_remap_failed")):
        yield Query(name, f"{by('max', DEVICE, of(metric))} > 0", DEVICE)
        # Those that are not listed are 0 where as many say something as can be seen.
        yield Query(f"{name}_known", by("count", ("node",), by("count", ("node", "gpu_uuid"), of(metric))), ("node",))
    if xids:
        codes = "|".join(str(code) for code in xids)
        last = of("gpu_xid_last_timestamp_seconds", f'xid=~"{codes}"')
        by_code = (*DEVICE, "xid")
        yield Query("xid", by("max", by_code, f"last_over_time({last}[{duration(of.xid_lookback)}])"), by_code)


def _learned(of: Selectors) -> Iterable[Query]:
    """What a GPU without a workload and without a process draws and holds, by model: a low quantile of those there are,
    and the least, since memory may have leaked on any.

    Of whole GPUs alone: an instance's power is not known, and its memory is a part of its model's.
    """
    whole = 'mig=""'
    nobody = f"unless {on(('node', 'gpu_uuid'))} {of('gpu_allocation')}"
    idle = f"({by('max', DEVICE, of('gpu_processes', whole))} == 0) {nobody}"
    model = by("max", (*DEVICE, "model"), of("gpu_info", whole))
    lowest = (("idle_power", "gpu_power_watts", "0.1, "), ("memory_baseline", "gpu_memory_used_bytes", "0, "))
    for name, metric, quantile in lowest:
        free = f"({by('max', DEVICE, of(metric, whole))} and {on(DEVICE)} ({idle}))"
        of_model = f"{free} * {on(DEVICE)} group_left (model) {model}"
        yield Query(name, f"quantile by (model) ({quantile}{of_model})", ("model",), optional=True)
