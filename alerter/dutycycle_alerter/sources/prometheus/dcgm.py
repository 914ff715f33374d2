"""The same questions, put to dcgm-exporter's metrics, for a site that keeps the exporter it has.

Its series carry their owners: `hpc_job`, or `pod` and `namespace` (`exported_pod` where the target's labels win).
Utilization is a gauge: over a window it is the mean of its samples, each standing for one scrape interval. A sample
that is not possible was not measured. What dcgm-exporter does not measure is missing: idle gaps, CPU, pressure,
processes, when an allocation began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dutycycle_alerter.settings import WINDOWS, Settings
from dutycycle_alerter.sources.claims import UNOWNED
from dutycycle_alerter.sources.prometheus.scope import ABSENT, COUNTED, windows
from dutycycle_alerter.sources.prometheus.selectors import (
    ACCOUNT,
    DEVICE,
    HOLDING,
    JOB,
    KEY,
    OWNER,
    Query,
    Selectors,
    by,
    duration,
    on,
)

PRESENCE = "DCGM_FI_DEV_FB_USED"
"""The metric that every device has, MIG instances too."""
MIB = 2**20
STALE = 300.0
"""Seconds for which an engine goes on showing a series that ended, where nothing told it of the end."""
LATELY = 900.0
"""Seconds for which it is looked back for an XID that came again."""
_PROF = "DCGM_FI_PROF_"
_RATIO, _WATTS, _MIBS, _RATE = 1, 5000, 2**21, 10**13
_HIGHEST: Mapping[str, int] = {
    "DCGM_FI_DEV_GPU_UTIL": 100,
    PRESENCE: _MIBS,
    "DCGM_FI_DEV_FB_FREE": _MIBS,
    "DCGM_FI_DEV_POWER_USAGE": _WATTS,
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": _WATTS,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1,
    **{f"{_PROF}{unit}_ACTIVE": _RATIO for unit in ("GR_ENGINE", "SM", "PIPE_TENSOR", "DRAM")},
    **{f"{_PROF}{link}_{way}_BYTES": _RATE for link in ("NVLINK", "PCIE") for way in ("TX", "RX")},
}
"""Highest possible value. DCGM's blanks lie above: 2^31 - 16, 2^47 and 2^63 - 16 and the 15 numbers after each. Single
samples of utilization up to 2^32 - 1 are reported as well.
"""
_DRAWN, _DRAWN_OF_LIMIT = 200, 0.3
"""Watts, or part of the power limit, that no GPU draws while all its MIG instances are idle."""
_WHOLE, _PARTED = ('GPU_I_ID=""',), ('GPU_I_ID!=""',)
_NOBODY = ('hpc_job=""', 'exported_pod=""', 'pod=""')


def identity(settings: Settings, *, back: float, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """As `queries.identity`. When allocations began is not known, nor how many GPUs a node should have."""
    of = Selectors(settings, shard)
    absent, counted, span = duration(ABSENT * of.interval), duration(COUNTED * of.interval), duration(back)
    held = _owned(of, PRESENCE)
    node = by("count", ("node",), by("count", ("node", "UUID"), _device(of(PRESENCE))))
    queries = [
        Query("held", by("max", HOLDING, f"({held}) * 0 + 1"), HOLDING),
        Query("gone", f"{by('max', HOLDING, _last(of, span))} unless {on(KEY)} ({held})", HOLDING),
        Query("missing", f"{by('max', KEY, _last(of, absent))} unless {on(KEY)} ({held})", KEY),
        Query("owner", by("max", OWNER, _last(of, span)), OWNER),
        Query("seen_at", by("max", ("node",), _device(f"timestamp({of(PRESENCE)})")), ("node",)),
        Query("answers", by("max", ("node",), _device(f"count_over_time({of(PRESENCE)}[{absent}])")), ("node",)),
        Query("scrapes", by("max", ("node",), _device(f"count_over_time({of(PRESENCE)}[{counted}])")), ("node",)),
        Query("visible", node, ("node",)),
    ]
    for window in windows(settings).every:
        before = by("count", ("cluster", *KEY), _owned(of, PRESENCE, f" offset {duration(window)}"))
        queries.append(Query("watched", by("count", JOB, before), JOB, window))
    return tuple(queries)


def evidence(settings: Settings, *, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """As `queries.evidence`, of what there is."""
    of, lengths = Selectors(settings, shard), windows(settings)
    found = [*_state(of, settings)]
    for window in lengths.every:
        span = f"[{duration(window)}]"
        observed = _utilization(of, "count_over_time", span)
        busy = _utilization(of, "sum_over_time", span)
        found.append(Query("observed", by("max", KEY, f"({observed}) * {of.interval}"), KEY, window))
        found.append(Query("busy", by("max", KEY, f"({busy}) * {of.interval / 100}"), KEY, window))
    for window in lengths.full:
        span = f"[{duration(window)}]"
        energy = _owned(of, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", span, "increase", conditions=_WHOLE)
        joules = f"({energy}) / 1000 <= {_WATTS * window:g}"
        found.append(Query("energy", by("max", KEY, joules), KEY, window))
        for name, unit in (("sm", "SM_ACTIVE"), ("tensor", "PIPE_TENSOR_ACTIVE"), ("dram", "DRAM_ACTIVE")):
            active = _owned(of, f"{_PROF}{unit}", span, "avg_over_time", values=True)
            counted = _utilization(of, "count_over_time", span)
            found.append(Query(name, _during(of, KEY, active, counted), KEY, window))
    for window in (*lengths.held, *lengths.peaks):
        used = _owned(of, PRESENCE, f"[{duration(window)}]", "max_over_time", values=True)
        found.append(Query("memory_used", by("max", KEY, f"({used}) * {MIB}"), KEY, window))
    for window in lengths.links:
        found.append(Query("link_bytes", _links(of, f"[{duration(window)}]"), DEVICE, window))
    return tuple(found)


def accounts(settings: Settings, *, span: float, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:
    """What was consumed over `span` wall seconds: each sample stands for one scrape interval. Spans do not overlap, so
    each sample counts once; one that came late, or not at all, does not. What several hold together is divided among
    them: whose work it was is not known.
    """
    of = Selectors(settings, shard)
    # A sample at the very beginning was counted in the span before: some engines' ranges hold both their ends.
    wide = f"[{duration(span - 0.001)}]"
    interval = of.interval
    power = _owned(of, "DCGM_FI_DEV_POWER_USAGE", wide, "avg_over_time", conditions=_WHOLE, values=True)
    held = _owned(of, PRESENCE, wide, "count_over_time")
    used = {
        "allocated": f"({held}) * {interval}",
        "observed": f"({_utilization(of, 'count_over_time', wide)}) * {interval}",
        "busy": f"({_utilization(of, 'sum_over_time', wide)}) * {interval / 100}",
        "energy": _during(of, ACCOUNT, power, held),
    }
    divided = f"/ {on(DEVICE)} group_left () {_holders(of, wide, span)}"
    return (
        *(Query(name, f"{by('max', ACCOUNT, text)} {divided}", ACCOUNT) for name, text in used.items()),
        Query("owner", by("max", OWNER, _last(of, duration(span))), OWNER),
    )


def slopes(settings: Settings, *, shard: tuple[str, ...] = ()) -> tuple[Query, ...]:  # noqa: ARG001 - as in `queries`
    """There are no counters: each sample counts by itself."""
    return ()


def _holders(of: Selectors, wide: str, span: float) -> str:
    """By how many each device was held at once. Holders that followed one another have no more samples together than
    the span has scrapes, or than one of them has.
    """
    each = by("max", KEY, _owned(of, PRESENCE, wide, "count_over_time"))
    samples = f"clamp_min({by('max', DEVICE, each)}, {span / of.interval:g})"
    return f"clamp_min({by('sum', DEVICE, each)} / {samples}, 1)"


def _device(expression: str) -> str:
    """With our labels of a device, beside theirs."""
    for ours, theirs in (("node", "Hostname"), ("gpu_uuid", "UUID"), ("mig", "GPU_I_ID"), ("model", "modelName")):
        expression = f'label_replace({expression}, "{ours}", "$1", "{theirs}", "(.+)")'
    return expression


def _possible(of: Selectors, metric: str, *conditions: str, range_: str = "") -> str:
    """Return the metric's possible values, over a range as a subquery.

    Each step of the subquery is one scrape interval and takes the sample that was scraped in it, if there was one.
    """
    selected, highest = of(metric, *conditions), _HIGHEST[metric]
    if not range_:
        return f"({selected} <= {highest})"
    scraped = f"last_over_time({selected}[{duration(of.interval - 0.001)}])"
    return f"({scraped} <= {highest}){range_[:-1]}:{duration(of.interval)}]"


def _owned(
    of: Selectors,
    metric: str,
    range_: str = "",
    function: str = "",
    *,
    conditions: tuple[str, ...] = (),
    values: bool = False,
) -> str:
    """A metric, or a function of its range, with our labels of device and owner; also of devices without an owner. With
    `values` of possible samples alone.
    """

    def series(*owner: str) -> str:
        if values:
            return _device(f"{function}({_possible(of, metric, *owner, *conditions, range_=range_)})")
        selected = f"{of(metric, *owner, *conditions)}{range_}"
        return _device(f"{function}({selected})" if function else selected)

    slurm = _label(series('hpc_job!=""'), "workload", "slurm/$1", "hpc_job")
    slurm = _label(_label(slurm, "job_id", "$1", "hpc_job"), "scheduler", "slurm", "hpc_job")
    slurm = _without(_without(slurm, "pod"), "namespace")
    exported = series('hpc_job=""', 'exported_pod!=""')
    for name in ("pod", "namespace"):
        exported = _label(exported, name, "$1", f"exported_{name}")
    pods = (exported, series('hpc_job=""', 'exported_pod=""', 'pod!=""'))
    nobody = series(*_NOBODY, *(() if conditions == _WHOLE else _WHOLE))
    unowned = _label(nobody, "workload", f"{UNOWNED}$1", "UUID")
    return " or ".join((slurm, *map(_pod, pods), _without(unowned, "namespace")))


def _pod(expression: str) -> str:
    joined = f'label_join({expression}, "workload", "/", "namespace", "pod")'
    return _label(_label(joined, "workload", "k8s/$1", "workload"), "scheduler", "k8s", "pod")


def _label(expression: str, label: str, value: str, source: str) -> str:
    return f'label_replace({expression}, "{label}", "{value}", "{source}", "(.+)")'


def _without(expression: str, label: str) -> str:
    return f'label_replace({expression}, "{label}", "", "{label}", ".*")'


def _last(of: Selectors, span: str) -> str:
    return _owned(of, PRESENCE, f"[{span}]", "last_over_time")


def _utilization(of: Selectors, function: str, span: str) -> str:
    """Percent, as the function takes it. Of MIG instances GPU_UTIL is seen as 0, which is not measured: there it is the
    engine's activity.
    """
    whole = _owned(of, "DCGM_FI_DEV_GPU_UTIL", span, function, conditions=_WHOLE, values=True)
    scale = " * 100" if function == "sum_over_time" else ""
    engine = f"{_PROF}GR_ENGINE_ACTIVE"
    parts = _owned(of, engine, span, function, conditions=_PARTED, values=True)
    return f"({whole}) or ((({parts}) unless {on(('node', 'gpu_uuid'))} ({_stuck(of, engine, span)})){scale})"


def _stuck(of: Selectors, engine: str, span: str) -> str:
    """Return the GPUs that draw power while the engine's activity of all their MIG instances stays at 0."""

    def each(values: str) -> str:
        return by("max", ("node", "gpu_uuid"), _device(values))

    active = each(f"max_over_time({_possible(of, engine, *_PARTED, range_=span)})")
    # A median needs no subquery: single impossible samples do not move it.
    power = each(f"quantile_over_time(0.5, {of('DCGM_FI_DEV_POWER_USAGE')}{span})")
    limit = each(_possible(of, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"))
    return f"({active} == 0) and ({power} > ({_DRAWN_OF_LIMIT} * {limit} or {power} * 0 + {_DRAWN}))"


def _links(of: Selectors, span: str) -> str:
    def both(kind: str) -> str:
        rates = (_possible(of, f"{_PROF}{kind}_{way}_BYTES", range_=span) for way in ("TX", "RX"))
        return " + ".join(by("max", DEVICE, _device(f"avg_over_time({each})")) for each in rates)

    present = _device(f"count_over_time({of(PRESENCE)}{span})")
    return _during(of, DEVICE, f"({both('NVLINK')}) or ({both('PCIE')})", present)


def _during(of: Selectors, labels: tuple[str, ...], mean: str, samples: str) -> str:
    """Return a mean times the time of these samples: a sample that is left out of the mean does not count as 0."""
    return f"{by('max', labels, mean)} * {on(labels)} {by('max', labels, samples)} * {of.interval}"


def _state(of: Selectors, settings: Settings) -> Iterable[Query]:
    used, free = (by("max", DEVICE, _device(_possible(of, f"DCGM_FI_DEV_FB_{kind}"))) for kind in ("USED", "FREE"))
    yield Query("memory", f"{used} * {MIB}", DEVICE)
    yield Query("memory_total", f"({used} + {free}) * {MIB}", DEVICE)
    limit = by("max", DEVICE, _device(_possible(of, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT")))
    yield Query("power_limit", limit, DEVICE)
    failed = _device(_possible(of, "DCGM_FI_DEV_ROW_REMAP_FAILURE"))
    yield Query("remap_failed", f"{by('max', DEVICE, failed)} > 0", DEVICE)
    yield Query("remap_failed_known", by("count", ("node",), by("count", ("node", "UUID"), failed)), ("node",))
    if xids := settings.judging.rules.gpu_fault.xids:
        yield _reported(of, xids, known_for=WINDOWS[-1] / settings.time_scale)
    idle = _possible(of, "DCGM_FI_DEV_POWER_USAGE", *_NOBODY, *_WHOLE)
    unused = of("DCGM_FI_DEV_GPU_UTIL", *_NOBODY, *_WHOLE)
    power = (
        f"{by('max', (*DEVICE, 'model'), _device(idle))} and {on(DEVICE)} ({by('max', DEVICE, _device(unused))} == 0)"
    )
    yield Query("idle_power", f"quantile by (model) (0.1, {power})", ("model",), optional=True)


def _reported(of: Selectors, xids: tuple[int, ...], *, known_for: float) -> Query:
    """When each XID was last reported. The gauge stays at the newest until another comes or the driver's state is lost:
    it was reported when it came to be shown, of a GPU that was seen without it just before.

    A GPU that was not seen just before, since its exporter or the engine was away, shows the old one again where it had
    that within `known_for` wall seconds. One that comes again is looked for over a shorter time.
    Of a GPU that is first seen with an XID nobody can tell, and it counts.
    """
    series = of("DCGM_FI_DEV_XID_ERRORS", f"err_code=~{'|'.join(map(str, xids))!r}")
    each, step = (*DEVICE, "xid"), duration(60)
    just_before = f"[{duration(max(ABSENT * of.interval, STALE))}] offset {step}"

    def coded(expression: str) -> str:
        return by("max", each, _label(_device(expression), "xid", "$1", "err_code"))

    shown = coded(f"timestamp({series})")
    lately = coded(f"last_over_time({series}{just_before})")
    once = coded(f"last_over_time({series}[{duration(known_for)}] offset {step})")
    seen = _device(by("max", ("Hostname", "UUID"), f"count_over_time({of(PRESENCE)}{just_before})"))
    first = f"{shown} unless {on(each)} ({lately} or {once})"
    again = f"({shown} unless {on(each)} {lately}) and {on(('node', 'gpu_uuid'))} {seen}"
    # Each step of `seen` has a line for every GPU there is.
    spans = ((again, min(of.xid_lookback, LATELY)), (first, of.xid_lookback))
    found = (f"max_over_time(({text})[{duration(span)}:{step}])" for text, span in spans)
    return Query("xid", " or ".join(found), each)
