"""Jobs that are made of several workloads: what is known of each, put together as that of one job.

Pure. Which workloads are one job is the scheduler's word (`kubernetes.word`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dutycycle_alerter.model import (
    Consumption,
    HostUsage,
    Job,
    JobEvidence,
    JobKind,
    WindowEvidence,
    highest,
    workload_of,
)
from dutycycle_alerter.settings import Idle, Judging
from dutycycle_alerter.usage import known_sum


def together(job: Job, parts: Sequence[JobEvidence], judging: Judging, *, to_come: int = 0) -> JobEvidence:
    """The evidence of a job from that of its parts (one at least). `job` says who it is; what it holds, and since when,
    is theirs. `to_come` is how many GPUs more it has, of parts that are too young to be seen. `judging` is scaled.

    It ends when its last part does. The time since which it holds GPUs is that of its oldest part, and grace counts
    from when the youngest began: until then a step of the others may have waited for it. Where most of its GPUs are
    past that, and one of them works or they have idled for very long, those that joined later are left out until they
    can be judged: a job of many short pods, or one of whose pods begins again and again, would otherwise never be. What
    they consumed counts in any case.
    """
    live = sorted((part for part in parts if part.ended is None), key=_by_pod)
    ended = None if live else max(part.ended for part in parts if part.ended is not None)
    judged, others = _settled(live, job.kind, judging, to_come) if live else (sorted(parts, key=_by_pod), [])
    left_out = _gpus(others) + to_come if live else 0
    too_few = left_out > _gpus(judged)
    start = min(part.job.start for part in live or judged)
    youngest = max(part.job.began for part in judged)
    grew = [part.memory_grew_at for part in judged if part.memory_grew_at is not None]
    peaks = [part.memory_peak for part in judged if part.memory_peak is not None]
    longest = [part.longest for part in judged if part.longest is not None]
    return JobEvidence(
        job=replace(
            job,
            gpus=tuple(
                replace(gpu, workload=workload_of(part.job.id, part.job.cluster))
                for part in judged
                for gpu in part.job.gpus
            ),
            start=start,
            start_told=all(part.job.start_told for part in judged),
            first_process=youngest if youngest > start else judged[0].job.first_process,
        ),
        at=judged[0].at,
        window=partial(_window, tuple(judged)),
        watched_from=max(part.watched_from for part in judged),
        memory_grew_at=max(grew, default=None),
        memory_peak=highest(peaks) if len(peaks) == len(judged) else None,
        ended=ended,
        visible=all(part.visible for part in judged) and not too_few,
        unseen="most of its GPUs joined it only just now" if too_few else "",
        recent=added_up(used for part in parts for used in part.recent),
        longest=min(longest, default=None),
        left_out=left_out,
        others_work=_some_work(others, judging.rules.idle),
        workloads=tuple(workload_of(part.job.id, part.job.cluster) for part in parts),
    )


def added_up(recent: Iterable[Consumption]) -> tuple[Consumption, ...]:
    """What was consumed, by model and instant."""
    sums: defaultdict[tuple[str, float | None], list[Consumption]] = defaultdict(list)
    for used in recent:
        sums[used.model, used.at].append(used)
    return tuple(
        Consumption(
            model=model,
            allocated=sum(one.allocated for one in each),
            observed=sum(one.observed for one in each),
            busy=sum(one.busy for one in each),
            energy=known_sum(one.energy for one in each),
            at=at,
            idle=known_sum(one.idle for one in each),
            since=_outermost(min, [one.since for one in each]),
            until=_outermost(max, [one.until for one in each]),
            by_gpu=_by_gpu(each),
        )
        for (model, at), each in sums.items()
    )


def _by_gpu(parts: Iterable[Consumption]) -> Mapping[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        for gpu, wasted in part.by_gpu.items():
            sums[gpu] += wasted
    return dict(sums)


def _outermost(choose: Callable[[list[float]], float], instants: Sequence[float | None]) -> float | None:
    known = [instant for instant in instants if instant is not None]
    return choose(known) if known and len(known) == len(instants) else None


def _gpus(parts: Iterable[JobEvidence]) -> int:
    return sum(len(part.job.gpus) for part in parts)


_Split = tuple[list[JobEvidence], list[JobEvidence]]


def _settled(live: list[JobEvidence], kind: JobKind, judging: Judging, to_come: int) -> _Split:
    """The parts that are judged by themselves, and those that are left out; all and none where these are too few."""
    idle, half = judging.rules.idle, (_gpus(live) + to_come) / 2
    old, young = _by_age(live, kind, judging, idle.window)
    if young and _gpus(old) >= half:
        if _busiest(old, idle.window) > idle.clear_above or _some_work(young, idle):
            return old, young
        # They do nothing; for all that is known the youngest is what they wait for, but not for ever.
        long_there, others = _by_age(live, kind, judging, idle.critical_window)
        if _gpus(long_there) >= half:
            return long_there, others
    return live, []


def _some_work(parts: Iterable[JobEvidence], idle: Idle) -> bool:
    """Whether a GPU of these was seen to work, however short they have been there."""
    windows = [part.window(idle.clear_window) for part in parts]
    return any((usage.utilization or 0.0) > idle.clear_above for window in windows for usage in window.gpus)


def _by_age(live: list[JobEvidence], kind: JobKind, judging: Judging, window: float) -> _Split:
    """The parts that can be judged over a window, and those that cannot yet."""
    grace = judging.grace.interactive if kind is JobKind.INTERACTIVE else judging.grace.batch
    old: list[JobEvidence] = []
    young: list[JobEvidence] = []
    for part in live:
        ready = max(part.job.began + grace, part.watched_from) + window
        (old if part.at >= ready else young).append(part)
    return old, young


def _busiest(parts: Iterable[JobEvidence], window: float) -> float:
    """The highest utilization of a GPU; of one that was not measured nothing is known, and it may have worked."""
    windows = [part.window(window) for part in parts]
    return max(
        (1.0 if usage.utilization is None else usage.utilization for one in windows for usage in one.gpus), default=1.0
    )


def _window(parts: Sequence[JobEvidence], length: float) -> WindowEvidence:
    windows = [part.window(length) for part in parts]
    return WindowEvidence(
        length,
        tuple(usage for window in windows for usage in window.gpus),
        _hosts([window.host for window in windows]),
    )


def _hosts(hosts: Sequence[HostUsage]) -> HostUsage:
    cores = [host.cpu_cores for host in hosts]
    known = [value for value in cores if value is not None]
    return HostUsage(
        # A sum that lacks a part would be too little.
        cpu_cores=sum(known) if len(known) == len(cores) else None,
        cpu_of_limit=_highest(host.cpu_of_limit for host in hosts),
        io_pressure=_highest(host.io_pressure for host in hosts),
        cpu_pressure=_highest(host.cpu_pressure for host in hosts),
    )


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _by_pod(part: JobEvidence) -> list[tuple[int, int, str]]:
    """Order of names with numbers in them as people count: worker-2 before worker-10."""
    pieces = re.split(r"([0-9]{1,18})", workload_of(part.job.id, part.job.cluster))
    return [(1, int(piece), "") if piece.isdecimal() and piece.isascii() else (0, 0, piece) for piece in pieces]
