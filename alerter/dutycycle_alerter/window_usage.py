"""What a job's GPUs and nodes did over a window, by their series of counters, and whether it was still loading."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf

from dutycycle_alerter.history import GPU_COUNTERS, Series
from dutycycle_alerter.memory_growth import Highs, last_grew
from dutycycle_alerter.model import HostUsage, Usage, WindowEvidence

_OBSERVED = GPU_COUNTERS.index("observed")

HOST_COVERAGE = 0.8
"""Share of a window for which a node must have been seen, as it is with GPUs."""


def gpu_usage(
    series: Series,
    start: float,
    end: float,
    *,
    idle_power: float | None = None,
    memory_baseline: float | None = None,
    longest_gap: float = inf,
) -> Usage:
    """What one GPU did for one workload over (start, end]; a counter that is not known there counts no time.

    `idle_power` (watts) is what a free GPU of its model draws, `memory_baseline` (bytes) what is in use on a GPU of its
    model without a process. `longest_gap` is as in `Series.increase`.
    """
    grown = dict(zip(GPU_COUNTERS, series.increase(start, end, longest_gap=longest_gap), strict=True))
    known = 0.0 if grown["busy"] is None else grown["observed"] or 0.0
    share = series.gauge_last(0, end) or 1.0
    return Usage(
        allocated=grown["allocated"] or 0.0,
        observed=known,
        busy=grown["busy"] or 0.0,
        gap_lt2=grown["gap_lt2"],
        gap_2to30=grown["gap_2to30"],
        gap_30to600=grown["gap_30to600"],
        gap_ge600=grown["gap_ge600"],
        energy=grown["energy"],
        share=share,
        memory_used=series.gauge_max(1, start, end),
        memory_total=series.gauge_last(2, end),
        processes=series.gauge_max(3, start, end),
        sm=grown["sm"],
        tensor=grown["tensor"],
        dram=grown["dram"],
        throttle_thermal=grown["throttle_thermal"],
        link_bytes=grown["link_bytes"],
        power_limit=series.gauge_last(4, end),
        idle_power=idle_power,
        low=grown["low"],
        memory_baseline=memory_baseline,
        measured_from=series.grew_from(_OBSERVED, start, end) if known < share * (end - start) else None,
    )


def host_usage(hosts: Iterable[Series | None], start: float, end: float, *, longest_gap: float = inf) -> HostUsage:
    """CPU and pressure over (start, end]: cores summed over the nodes, ratios those of the node that is worst off.

    Every node counts, None where nothing is known of it: a sum that lacks one would be too little. Nor is it where a
    node was seen for a part of the time alone: the pressure of a minute is not that of a quarter of an hour.
    `longest_gap` is as in `Series.increase`.
    """
    cores: list[float | None] = []
    of_limit: list[float] = []
    io: list[float] = []
    cpu: list[float] = []
    for series in hosts:
        span = 0.0
        if series is not None and series.times:
            span = min(end, series.times[-1]) - max(series.known_from(start, longest_gap), series.times[0])
        if series is None or span <= 0 or span < HOST_COVERAGE * (end - start):
            cores.append(None)
            continue
        cpu_seconds, io_pressure, cpu_pressure = series.increase(start, end, longest_gap=longest_gap)
        limit = series.gauge_last(0, end)
        cores.append(None if cpu_seconds is None else cpu_seconds / span)
        if cpu_seconds is not None and limit:
            of_limit.append(cpu_seconds / span / limit)
        if io_pressure is not None:
            io.append(io_pressure / span)
        if cpu_pressure is not None:
            cpu.append(cpu_pressure / span)
    known = [one for one in cores if one is not None]
    return HostUsage(
        cpu_cores=sum(known) if known and len(known) == len(cores) else None,
        cpu_of_limit=max(of_limit, default=None),
        io_pressure=max(io, default=None),
        cpu_pressure=max(cpu, default=None),
    )


def window_evidence(
    gpus: Sequence[Series],
    hosts: Sequence[Series | None],
    at: float,
    length: float,
    *,
    idle_power: Sequence[float | None] = (),
    memory_baseline: Sequence[float | None] = (),
    longest_gap: float = inf,
) -> WindowEvidence:
    """One job's last `length` seconds before `at`; `gpus` in the order of `Job.gpus`, and so are `idle_power` (watts)
    and `memory_baseline` (bytes; empty: not known of any). `longest_gap` is as in `Series.increase`.
    """
    start = at - length
    power, memory = (known or (None,) * len(gpus) for known in (idle_power, memory_baseline))
    return WindowEvidence(
        length=length,
        gpus=tuple(
            gpu_usage(one, start, at, idle_power=watts, memory_baseline=empty, longest_gap=longest_gap)
            for one, watts, empty in zip(gpus, power, memory, strict=True)
        ),
        host=host_usage(hosts, start, at, longest_gap=longest_gap),
    )


def memory_grew_at(gpus: Iterable[Series], start: float, until: float) -> float | None:
    """When the memory of the last GPU that grew first was about as high as it is within (start, until].

    None where memory is not known. The first reading is a start, not growth.
    """
    return last_grew((_highs(series, start, until) for series in gpus), start)


def _highs(series: Series, start: float, until: float) -> Highs:
    highs = Highs()
    for i in range(bisect_right(series.times, start), bisect_right(series.times, until)):
        used, total = series.gauge_at(1, i), series.gauge_at(2, i)
        if used is not None:
            highs.add(series.times[i], used, total)
    return highs
