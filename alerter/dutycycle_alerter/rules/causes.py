"""Which causes a firing rule's evidence leaves, and the sentences with the figures that picked them.

A cause is named only where a signal separates it from the others (FACTS, signals that separate causes); otherwise two
or three are named. Data loading in particular is named only with I/O pressure, or with CPU near its limit together with
short idle gaps: a gap alone may as well be communication or tiny kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import JobKind, WindowEvidence
from dutycycle_alerter.rules import sentences, straggling
from dutycycle_alerter.rules.before import before
from dutycycle_alerter.rules.case import Case, gap_share, occupied, utilizations
from dutycycle_alerter.rules.hung import confirms
from dutycycle_alerter.rules.idle_causes import lately, why_idle
from dutycycle_alerter.rules.straggling import apart, throttled_gpus, why_apart
from dutycycle_alerter.rules.underused_causes import why_underused
from dutycycle_alerter.rules.units import activity_while_busy, link_rate
from dutycycle_alerter.rules.verdict import Reasons, Verdict
from dutycycle_alerter.scale import format_duration

# The memory bus is the limit from 60 % of the busy time on, where tensor cores work for a tenth of it at most.
MEMORY_BOUND_DRAM, MEMORY_BOUND_TENSOR = 0.60, 0.10


def _hung(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    settings = case.settings.rules.hung
    evidence = sentences.all_spin(window, verdict, settings, span) + sentences.without_process(case.job, window)
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
    return why_idle(case, window, span)


def _partially_idle(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    concerned = set(verdict.gpus)
    places = [place for place, gpu in enumerate(case.job.gpus) if gpu in concerned]
    idle = [window.gpus[place] for place in places]
    most = sentences.at_most([usage.utilization or 0.0 for usage in idle])
    evidence = [
        (f"{len(idle)} of {len(window.gpus)} GPUs at {most} over {span}: {sentences.labels(verdict)}"),
        f"the busiest GPU of the job was at {percent(verdict.figures['busiest_utilization'])}",
    ]
    latest = lately(case, window)
    holds = [occupied(case.job.gpus[place], latest.gpus[place]) for place in places]
    processes = sentences.total([latest.gpus[place] for place in places], "processes")
    if True not in holds and None not in holds:
        since = format_duration(latest.length * case.time_scale)
        evidence.append(f"no process has held the idle ones for {since} or longer")
        found, more = _without_process(case, window, places)
        return found, [*evidence, *more]
    if True not in holds:
        evidence.append("it is not known whether a process holds the idle ones")
    elif not processes:
        evidence.append(
            f"processes or memory hold {holds.count(True)} of the idle ones: a rank may have stopped, or only wait"
        )
    elif processes == 1:
        evidence.append("a process holds one of the idle ones: a rank may have stopped, or only wait")
    else:
        evidence.append(f"{processes:.0f} processes hold the idle ones: a rank may have stopped, or only wait")
    return (Cause.OVER_REQUEST, Cause.COMMUNICATION), evidence


def _without_process(case: Case, window: WindowEvidence, places: list[int]) -> Reasons:
    """Of GPUs that nothing uses while others of the job work: never used, or used by what has ended."""
    if case.job.kind is not JobKind.BATCH:
        # Who tries things uses now one GPU and now two.
        return (Cause.OVER_REQUEST,), []
    earlier = before(case, window.length, places)
    bounds = case.settings.rules.partially_idle
    worked = None if earlier is None else earlier.worked(bounds.below, bounds.window)
    if worked and earlier is not None:
        said = f"the idle ones were at {percent(earlier.utilization)} over {sentences.span_before(case, earlier)}"
        return (Cause.OVER_REQUEST, Cause.HANG), [f"{said}: what ran there has ended, and others may wait for it"]
    if worked is False:
        return (Cause.OVER_REQUEST,), []
    return (Cause.OVER_REQUEST, Cause.HANG), ["it is not known whether they had worked before"]


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
    found, more = _of_a_stall(case, window, starved=starved_by_io or starved_by_cpu)
    return found, [*evidence, *more]


def _of_a_stall(case: Case, window: WindowEvidence, *, starved: bool) -> Reasons:
    """By what shows that loaders cannot keep up, and by whether ranks are apart."""
    ranks = apart(case, window)
    if ranks is None or ranks.busiest < case.settings.rules.uneven.busiest_at_least:
        if starved:
            return (Cause.DATA_LOADING,), []
        peers = (Cause.COMMUNICATION,) if len(window.gpus) > 1 else ()
        return (Cause.DATA_LOADING, *peers, Cause.SMALL_WORK), []
    waits, evidence = why_apart(case, window, ranks.behind), straggling.said(case, window, ranks)
    if ranks.at_work:
        # What reads ahead uses CPUs and waits for storage also while its GPU has enough to do.
        return ((Cause.DATA_LOADING, *waits) if starved else waits), evidence
    # The busiest waits as well, and not for the others.
    return ((Cause.DATA_LOADING,) if starved else (*waits, Cause.DATA_LOADING)), evidence


def _uneven(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    evidence = [
        f"the slowest GPU worked {percent(verdict.figures['spread'])} less than the busiest over {span}",
        f"behind: {sentences.labels(verdict)}",
        sentences.each_gpu(case.job, utilizations(window)),
        *sentences.waiting(window, case.settings.rules.hung),
        *sentences.host(window.host),
    ]
    lagging = set(verdict.gpus)
    behind = frozenset(place for place, gpu in enumerate(case.job.gpus) if gpu in lagging)
    found = why_apart(case, window, behind)
    if found == (Cause.COMMUNICATION,) and _alike_but_for_long_idling(case, window):
        evidence.append(
            "the GPUs behind did nothing for over 10 min in one piece, and worked as much as others beside it"
        )
        return (Cause.OVER_REQUEST, Cause.COMMUNICATION), evidence
    return found, evidence


def _alike_but_for_long_idling(case: Case, window: WindowEvidence) -> bool:
    """Whether the GPUs are apart only because some did nothing for a part of the window."""
    values = []
    for usage in window.gpus:
        if usage.gap_ge600 is None or usage.gap_ge600 >= usage.observed:
            return False
        values.append(min(1.0, usage.busy / (usage.observed - usage.gap_ge600)))
    return 1 - min(values) / max(values) < case.settings.rules.uneven.clear_spread


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
    return why_underused(case, verdict, window, span)


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
