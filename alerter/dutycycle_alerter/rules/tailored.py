"""Advice with the job's own numbers, and what it costs to go on; the general steps of each cause are in `advice`.

No text from outside enters it: numbers and fixed words only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, isfinite

from dutycycle_alerter.figures import amount, count, gibibytes, hours, percent
from dutycycle_alerter.incidents.model import NOTHING_WORKS, Cause
from dutycycle_alerter.model import WindowEvidence
from dutycycle_alerter.rules.case import Case, mean_utilization, utilizations
from dutycycle_alerter.rules.straggling import apart
from dutycycle_alerter.rules.units import memory_ratio
from dutycycle_alerter.rules.verdict import Verdict
from dutycycle_alerter.scale import format_duration

# What a GPU can be filled to, of its time and of its memory, when work is moved together.
FULL = 0.9
# What is asked for is more than what was used, so that the next run does not fail on it.
HEADROOM = 1.25
# MIG divides a GPU into seven instances at most.
MOST_ON_ONE = 7
# A batch is not said to have room for more than this: next to nothing in use says little of what one more sample needs.
MOST_FOLD = 8


@dataclass(frozen=True, slots=True)
class Facts:
    """A finding: the case, the rule's verdict, the window that it looked at, and that window as people count it."""

    case: Case
    verdict: Verdict
    window: WindowEvidence
    span: str
    time_scale: float

    @property
    def gpus(self) -> int:
        """How many GPUs the job holds."""
        return len(self.window.gpus)

    @property
    def whole_gpus(self) -> float:
        """The same in whole GPUs: a share of one counts as that."""
        return sum(usage.share for usage in self.window.gpus)


def tailored(causes: Iterable[Cause], facts: Facts) -> Iterator[tuple[Cause, str]]:
    """The steps that this job's figures allow to say, each with its cause, in the order of the causes; none where they
    are not known.
    """
    named = tuple(causes)
    for cause in named:
        # Nobody may be waiting for GPUs that perhaps were not meant to work.
        asked_too_much = cause is Cause.COMMUNICATION and Cause.OVER_REQUEST in named
        if cause in _STEPS and not asked_too_much:
            yield from ((cause, step) for step in _STEPS[cause](facts))


def held_for_nothing(causes: Iterable[Cause], facts: Facts) -> str:
    """What holding the GPUs wastes from now on, where nothing works on them; empty where something may."""
    if not NOTHING_WORKS & set(causes):
        return ""
    said = f"every hour like this wastes {amount(facts.whole_gpus)} GPU-hours"
    job, at = facts.case.job, facts.case.evidence.at
    if job.time_limit is not None and (left := job.start + job.time_limit - at) > 0:
        lost = hours(facts.whole_gpus * left * facts.time_scale)
        said += f": {lost} until the time limit, {format_duration(left * facts.time_scale)} from now"
    return said


def left_undone(facts: Facts) -> str:
    """What the GPUs of an uneven job would have worked more, all as busy as the busiest; empty for other rules."""
    if facts.verdict.rule != "uneven":
        return ""
    missed = facts.verdict.figures["busiest_utilization"] - mean_utilization(facts.window)
    more = missed * sum(usage.observed for usage in facts.window.gpus) * facts.time_scale
    return f"all as busy as the busiest would have worked {hours(more)} GPU-hours more over {facts.span}"


def _fewer_gpus(facts: Facts) -> Iterator[str]:
    if facts.verdict.rule == "partially_idle":
        idle = len(facts.verdict.gpus)
        if 0 < idle < facts.gpus:
            concerned = set(facts.verdict.gpus)
            members = zip(facts.case.job.gpus, facts.window.gpus, strict=True)
            spent = sum(usage.observed for gpu, usage in members if gpu in concerned)
            yield (
                f"Ask for {count(facts.gpus - idle, 'GPU')} instead of {facts.gpus:,}: "
                f"{idle:,} did nothing over {facts.span}, {hours(spent * facts.time_scale)} GPU-hours."
            )
    elif facts.verdict.rule == "overallocated":
        yield from _ask_for_less(facts)
    else:
        yield from _together(facts)


def _ask_for_less(facts: Facts) -> Iterator[str]:
    """What would have done, with room to spare, of each thing that was asked for and hardly used."""
    figures = facts.verdict.figures
    if "cpu_cores" in figures:
        enough = max(facts.gpus, ceil(figures["cpu_cores_used"] * HEADROOM))
        yield f"Ask for {count(enough, 'CPU core')} instead of {amount(figures['cpu_cores'])}."
    if "host_memory_bytes" in figures:
        enough = ceil(figures["host_memory_peak_bytes"] * HEADROOM / 2**30)
        yield f"Ask for {enough:,} GiB of host memory instead of {figures['host_memory_bytes'] / 2**30:,.0f}."
    if "time_limit_seconds" in figures:
        enough_time, limit = figures["run_seconds"] * HEADROOM, figures["time_limit_seconds"]
        yield (
            f"Ask for {format_duration(enough_time * facts.time_scale)} instead of "
            f"{format_duration(limit * facts.time_scale)}: shorter jobs start earlier."
        )
    if "gpu_memory_peak_bytes" in figures:
        needed = gibibytes(figures["gpu_memory_peak_bytes"])
        used = percent(figures["utilization"])
        yield f"A MIG slice or a smaller GPU does: {needed} of memory and {used} of the GPU's time were used."


def _together(facts: Facts) -> Iterator[str]:
    """How many GPUs the same work would fill."""
    work = mean_utilization(facts.window) * facts.gpus
    needed = max(1, ceil(work / FULL))
    if needed < facts.gpus:
        said = f"The {facts.gpus:,} GPUs together do the work of {work:,.1f}"
        yield f"{said}: ask for {needed:,} if the program allows it."


def _feed(facts: Facts) -> Iterator[str]:
    cores, requested = facts.window.host.cpu_cores, _cores(facts)
    if cores is not None and requested:
        said = (
            f"The job has {amount(requested)} CPU cores for {count(facts.gpus, 'GPU')} "
            f"and uses {min(cores, requested):,.1f} of them"
        )
        if cores >= FULL * requested:
            yield said + ": ask for more of them per GPU."
        elif (free := floor(requested - cores)) >= 1:
            yield said + f": {free:,} more can load data."


def _cores(facts: Facts) -> float | None:
    """The job's CPU cores: as requested, or, on one node, as its use and the use's share of the limit tell."""
    host = facts.window.host
    if facts.case.job.cpus is not None:
        return facts.case.job.cpus
    if host.cpu_cores and host.cpu_of_limit and len(facts.case.job.nodes) == 1:
        cores = host.cpu_cores / host.cpu_of_limit
        return cores if isfinite(cores) else None
    return None


def _more_work(facts: Facts) -> Iterator[str]:
    memory = memory_ratio(facts.window.gpus)
    if memory is not None and 0 < memory <= FULL / 2:
        fold = FULL / memory
        room = f"a batch about {floor(fold)} times as large" if fold < MOST_FOLD + 1 else "a much larger batch"
        yield (
            f"At most {percent(memory)} of GPU memory is in use: there is room for {room}. Raise it step by step while "
            "throughput rises, and adapt the learning rate: a larger batch trains differently."
        )
    mean = mean_utilization(facts.window)
    if facts.gpus > 1:
        if facts.verdict.rule == "underused":
            yield from _together(facts)
    elif 0 < mean <= FULL / 2:
        fitting = floor(min(MOST_ON_ONE, FULL / mean))
        yield f"At {percent(mean)} utilization about {fitting} such jobs fit on one GPU, where their memory does."


def _ranks(facts: Facts) -> Iterator[str]:
    """With which rank to begin: the one that the others wait for, where that is known."""
    if facts.verdict.rule not in ("uneven", "stalled"):
        return
    found = apart(facts.case, facts.window)
    if found is None:
        return
    busiest, slowest = percent(found.busiest), percent(min(utilizations(facts.window)))
    if found.at_work:
        yield f"Begin with the busiest GPU, at {busiest}: the others wait for it."
    elif found.spins:
        yield f"Begin with the slowest GPU, at {slowest}: the busiest, at {busiest}, spins and waits for it."


_STEPS: dict[Cause, Callable[[Facts], Iterator[str]]] = {
    Cause.OVER_REQUEST: _fewer_gpus,
    Cause.DATA_LOADING: _feed,
    Cause.SMALL_WORK: _more_work,
    Cause.COMMUNICATION: _ranks,
}
