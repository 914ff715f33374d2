"""What the pass asks about GPUs themselves, whoever holds them."""

from __future__ import annotations

from collections.abc import Iterable

from dutycycle_alerter.sources.prometheus.scope import Windows
from dutycycle_alerter.sources.prometheus.selectors import DEVICE, Query, Selectors, by, duration, on

_THROTTLED = "gpu_throttle_seconds_total"
HEAT = 'reason=~"sw_thermal|hw_thermal|power_brake"'
"""Kinds of heat, and the power brake, where the driver tells them one by one; older ones say `thermal`."""


def links(of: Selectors, window: float) -> Query:
    """Bytes over NVLink both ways, or over PCIe where there is none."""
    both = (
        by("sum", DEVICE, by("max", (*DEVICE, "direction"), of.increase(metric, window)))
        for metric in ("gpu_nvlink_bytes_total", "gpu_pcie_bytes_total")
    )
    return Query("link_bytes", " or ".join(both), DEVICE, window)


def heat(of: Selectors, window: float) -> Query:
    """Seconds for which heat or the power brake held clocks down."""
    kinds = by("sum", DEVICE, by("max", (*DEVICE, "reason"), of.increase(_THROTTLED, window, HEAT)))
    at_once = by("max", DEVICE, of.increase(_THROTTLED, window, 'reason="thermal"'))
    return Query("throttle_thermal", f"{kinds} or {at_once}", DEVICE, window)


def power_cap(of: Selectors, window: float) -> Query:
    """Seconds for which the power limit held clocks down: no rule on jobs asks for them."""
    held = of.increase(_THROTTLED, window, 'reason="power_cap"')
    return Query("throttle_power", by("max", DEVICE, held), DEVICE, window)


def state(of: Selectors, lengths: Windows, xids: tuple[int, ...]) -> Iterable[Query]:
    """Of GPUs that nobody holds more is read than of others: only there memory leaks."""
    nobody = f"unless {on(DEVICE)} {of('gpu_allocation')}"
    window, leaked = duration(lengths.devices), duration(lengths.leaked)
    memory, processes = of("gpu_memory_used_bytes"), of("gpu_processes")
    yield Query("memory", by("max", DEVICE, memory), DEVICE)
    least = by("min", DEVICE, f"min_over_time({memory}[{leaked}])")
    yield Query("free_memory_least", f"{least} {nobody}", DEVICE, lengths.leaked)
    most = by("max", DEVICE, f"max_over_time({processes}[{leaked}])")
    yield Query("free_processes_most", f"{most} {nobody}", DEVICE, lengths.leaked)
    mean = by("max", DEVICE, f"avg_over_time({of('gpu_utilization_ratio')}[{leaked}])")
    yield Query("free_utilization", f"{mean} {nobody}", DEVICE, lengths.leaked)
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


def learned(of: Selectors) -> Iterable[Query]:
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
