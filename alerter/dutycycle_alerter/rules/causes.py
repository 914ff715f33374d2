"""Which causes a firing rule's evidence leaves, and the sentences with the figures that picked them.

A cause is named only where a signal separates it from the others (FACTS, signals that separate causes); otherwise two
or three are named. Data loading in particular is named only with I/O pressure, or with CPU near its limit together with
short idle gaps: a gap alone may as well be communication or tiny kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import WindowEvidence
from dutycycle_alerter.rules import sentences
from dutycycle_alerter.rules.case import Case, gap_share, pause_share, utilizations
from dutycycle_alerter.rules.hung import confirms
from dutycycle_alerter.rules.units import activity_while_busy, link_rate, memory_ratio, thermal_share
from dutycycle_alerter.rules.verdict import Verdict

# A process that keeps at least half a core busy computes; less is a kernel or shell that waits for a person.
WORKING_CORES = 0.5
# Pauses that take at least a tenth of the time are worth naming: 60 s in 10 min.
PAUSE_SHARE = 0.10
# The memory bus is the limit from 60 % of the busy time on, where tensor cores work for a tenth of it at most.
MEMORY_BOUND_DRAM, MEMORY_BOUND_TENSOR = 0.60, 0.10

Reasons = tuple[tuple[Cause, ...], list[str]]


def _hung(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    settings = case.settings.rules.hung
    evidence = sentences.all_spin(window, verdict, settings, span)
    confirmed, several = confirms(dict(verdict.figures), settings), len(window.gpus) > 1
    moving = Cause.COMMUNICATION if several else Cause.SMALL_WORK
    if confirmed:
        # A collective that spins keeps some multiprocessors, and has peers; kernels that only look busy keep none, and
        # a tiny model on one GPU lives in its cache.
        floor = verdict.figures.get("sm_active", 1.0) <= settings.active_below
        return ((Cause.HANG,) if several and not floor else (Cause.HANG, Cause.SMALL_WORK)), evidence
    if throttled_gpus(case, window):
        # Clocks that are held down explain the low power.
        return (Cause.THROTTLING, Cause.HANG), evidence
    if confirmed is None:
        return (Cause.HANG, *dict.fromkeys((moving, Cause.SMALL_WORK))), evidence
    return (moving, Cause.HANG), evidence


def _idle(case: Case, _verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    evidence = [f"{sentences.all_gpus(case.job)} at {sentences.at_most(utilizations(window))} over {span}"]
    processes = sentences.total(window.gpus, "processes")
    if processes == 0:
        return (Cause.NO_PROCESS,), [*evidence, "no process held a GPU of the job in that time"]
    if processes is None:
        evidence.append("it is not known whether a process holds the GPUs")
        return (Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), evidence
    evidence.append(sentences.held(window, processes))
    cores = window.host.cpu_cores
    if cores is None:
        return (Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), [*evidence, "the CPU use of the job is not measured"]
    evidence.append(f"the job kept {cores:.1f} CPU cores busy")
    return ((Cause.CPU_ONLY,) if cores >= WORKING_CORES else (Cause.IDLE_NOTEBOOK,)), evidence


def _partially_idle(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    concerned = set(verdict.gpus)
    idle = [usage for gpu, usage in zip(case.job.gpus, window.gpus, strict=True) if gpu in concerned]
    most = sentences.at_most([usage.utilization or 0.0 for usage in idle])
    evidence = [
        (f"{len(idle)} of {len(window.gpus)} GPUs at {most} over {span}: {sentences.labels(verdict)}"),
        f"the busiest GPU of the job was at {percent(verdict.figures['busiest_utilization'])}",
    ]
    processes = sentences.total(idle, "processes")
    if processes == 0:
        return (Cause.OVER_REQUEST,), [*evidence, "no process used the idle ones"]
    if processes is None:
        evidence.append("it is not known whether a process holds the idle ones")
    elif processes == 1:
        evidence.append("a process holds one of the idle ones: a rank may have stopped, or only wait")
    else:
        evidence.append(f"{processes:.0f} processes hold the idle ones: a rank may have stopped, or only wait")
    return (Cause.OVER_REQUEST, Cause.COMMUNICATION), evidence


def _stalled(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    bounds = case.settings.rules.stalled
    mean, gaps = verdict.figures["utilization"], gap_share(window)
    evidence = [f"mean utilization {percent(mean)} over {span}"]
    if gaps is not None:
        evidence.append(
            f"{percent(gaps)} of the time in idle gaps of up to 30 s: without them about {sentences.fed(mean, gaps)}"
        )
    evidence += sentences.host(window.host)
    pressure, cpu = window.host.io_pressure, window.host.cpu_of_limit
    starved_by_io = pressure is not None and pressure >= bounds.pressure
    starved_by_cpu = cpu is not None and cpu >= bounds.cpu_of_limit and gaps is not None and gaps >= bounds.gap_share
    if starved_by_io or starved_by_cpu:
        return (Cause.DATA_LOADING,), evidence
    return (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK), evidence


def _uneven(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    evidence = [
        f"the slowest GPU worked {percent(verdict.figures['spread'])} less than the busiest over {span}",
        f"behind: {sentences.labels(verdict)}",
        sentences.each_gpu(case.job, utilizations(window)),
        *sentences.waiting(window, case.settings.rules.hung),
        *sentences.host(window.host),
    ]
    slowed = throttled_gpus(case, window)
    if not slowed:
        return (Cause.COMMUNICATION,), evidence
    lagging = set(verdict.gpus)
    behind = {place for place, gpu in enumerate(case.job.gpus) if gpu in lagging}
    # A throttled GPU either lags itself, or is busy for longer while the others wait: both draw the same line.
    apart = slowed in (behind, set(range(len(window.gpus))) - behind)
    return ((Cause.THROTTLING,) if apart else (Cause.THROTTLING, Cause.COMMUNICATION)), evidence


def _low_sm_activity(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    mean, active = verdict.figures["utilization"], verdict.figures["sm_active_of_busy"]
    evidence = [
        f"{percent(mean)} utilization over {span}, but its multiprocessors worked for {percent(active)} of that time"
    ]
    dram, tensor = activity_while_busy(window.gpus, "dram"), activity_while_busy(window.gpus, "tensor")
    if dram is not None and tensor is not None:
        evidence.append(f"memory bandwidth at {percent(dram)} and tensor cores at {percent(tensor)} of the busy time")
        if dram >= MEMORY_BOUND_DRAM and tensor <= MEMORY_BOUND_TENSOR:
            return (Cause.MEMORY_BOUND,), evidence
    rates = [rate for usage in window.gpus if (rate := link_rate(usage)) is not None]
    if rates:
        evidence.append(f"the links of a GPU carried {sentences.rate(max(rates))}")
    hung = case.settings.rules.hung
    if active <= hung.active_below:
        evidence.append("the kernels are so small that they only make the GPUs look busy")
        return (Cause.SMALL_WORK,), evidence
    quiet = len(rates) == len(window.gpus) and max(rates) <= hung.link_bytes_below
    if len(window.gpus) == 1 or quiet:
        return (Cause.SMALL_WORK,), evidence
    return (Cause.SMALL_WORK, Cause.COMMUNICATION), evidence


def _underused(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    mean, bound = verdict.figures["utilization"], case.settings.rules.underused.below
    evidence = [f"mean utilization {percent(mean)} over {span}"]
    gaps, pauses = gap_share(window), pause_share(window)
    memory = memory_ratio(window.gpus)
    if memory is not None:
        evidence.append(f"at most {percent(memory)} of GPU memory in use")
    evidence += sentences.host(window.host)
    if gaps is None or pauses is None:
        return (Cause.SMALL_WORK, Cause.DATA_LOADING), [*evidence, "the lengths of its idle gaps are not measured"]
    evidence.append(
        f"{percent(gaps)} of the time in idle gaps of up to 30 s, {percent(pauses)} in pauses of up to 10 min"
    )
    if pauses >= PAUSE_SHARE:
        evidence.append(f"utilization without the pauses: about {sentences.fed(mean, pauses)}")
        # The pauses are the cause where the job would not be underused without them, and part of it where it would.
        explained = mean >= bound * (1 - pauses)
        return ((Cause.CHECKPOINT,) if explained else (Cause.SMALL_WORK, Cause.CHECKPOINT)), evidence
    long_idle = sentences.share_of_long_gaps(window)
    if long_idle >= PAUSE_SHARE:
        evidence.append(f"{percent(long_idle)} of the time in one piece of idling of over 10 min")
        explained = mean >= bound * (1 - long_idle)
        phases = (Cause.OVER_REQUEST, Cause.CHECKPOINT)
        return (phases if explained else (Cause.SMALL_WORK, *phases)), evidence
    if gaps < case.settings.rules.stalled.clear_gap_share:
        return (Cause.SMALL_WORK,), [*evidence, "kernels run all the time, but each is short"]
    evidence.append(f"utilization without the short gaps: about {sentences.fed(mean, gaps)}")
    return (Cause.SMALL_WORK, Cause.DATA_LOADING), evidence


def throttled_gpus(case: Case, window: WindowEvidence) -> set[int]:
    """Which of the GPUs heat or the power brake held down for as much of the time as the rule `throttled` asks for."""
    bound = case.settings.rules.throttled.thermal
    shares = [thermal_share(usage) for usage in window.gpus]
    return {place for place, share in enumerate(shares) if share is not None and share >= bound}


BY_RULE: dict[str, Callable[[Case, Verdict, WindowEvidence, str], Reasons]] = {
    "hung": _hung,
    "idle": _idle,
    "partially_idle": _partially_idle,
    "stalled": _stalled,
    "uneven": _uneven,
    "low_sm_activity": _low_sm_activity,
    "underused": _underused,
}
"""(case, the rule's verdict, the window it looked at, that window for people) -> causes and sentences."""
