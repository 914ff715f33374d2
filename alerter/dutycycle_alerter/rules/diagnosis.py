"""From a firing rule to its likely cause: which signal picked it, or which causes the evidence does not tell apart.

A cause is named only where a signal separates it from the others (FACTS, signals that separate causes); otherwise two
or three are named with the way to settle it. Data loading in particular is named only with I/O pressure, or with CPU
near its limit together with short idle gaps: a gap alone may as well be communication or tiny kernels.
"""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import Job, Usage, WindowEvidence
from dutycycle_alerter.rules.advice import ADVICE, tell_apart
from dutycycle_alerter.rules.case import Case, gap_share, pause_share, utilizations
from dutycycle_alerter.rules.commands import confirm
from dutycycle_alerter.rules.stalled import highest_pressure
from dutycycle_alerter.rules.verdict import Judgement, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging

# A process that keeps at least half a core busy computes; less is a kernel or shell that waits for a person.
WORKING_CORES = 0.5
# Pauses that take at least a tenth of the time are worth naming: 60 s in 10 min.
PAUSE_SHARE = 0.10


def diagnose(judgement: Judgement, rule: str, settings: Judging, *, time_scale: float = 1.0) -> Diagnosis:
    """Cause, evidence and advice for a rule that fires in `judgement`. `time_scale` turns wall seconds into shown
    ones.
    """
    verdict = judgement.verdict(rule)
    case = Case(judgement.evidence, settings)
    window = case.window(verdict.window)
    span = format_duration(verdict.window * time_scale)
    causes, evidence = {
        "idle": _idle,
        "partially_idle": _partially_idle,
        "stalled": _stalled,
        "uneven": _uneven,
        "underused": _underused,
    }[rule](case, verdict, window, span)
    return Diagnosis(
        causes=causes,
        evidence=tuple(evidence),
        advice=tuple(dict.fromkeys(step for cause in causes for step in ADVICE[cause])),
        tell_apart=tell_apart(causes),
        commands=confirm(case.job, causes),
    )


_Reasons = tuple[tuple[Cause, ...], list[str]]


def _idle(case: Case, _verdict: Verdict, window: WindowEvidence, span: str) -> _Reasons:
    evidence = [f"{_gpus(case.job)} at {_percent(max(utilizations(window)))} utilization or less over {span}"]
    processes = _total(window.gpus, "processes")
    if processes == 0:
        return (Cause.NO_PROCESS,), [*evidence, "no process held a GPU of the job in that time"]
    if processes is None:
        evidence.append("it is not known whether a process holds the GPUs")
        return (Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), evidence
    evidence.append(_held(window, processes))
    cores = window.host.cpu_cores
    if cores is None:
        return (Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), [*evidence, "the CPU use of the job is not measured"]
    evidence.append(f"the job kept {cores:.1f} CPU cores busy")
    return ((Cause.CPU_ONLY,) if cores >= WORKING_CORES else (Cause.IDLE_NOTEBOOK,)), evidence


def _partially_idle(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> _Reasons:
    idle = [u for gpu, u in zip(case.job.gpus, window.gpus, strict=True) if gpu in verdict.gpus]
    most = max((usage.utilization or 0.0 for usage in idle), default=0.0)
    evidence = [
        (
            f"{len(idle)} of {len(window.gpus)} GPUs at {_percent(most)} utilization or less over {span}: "
            f"{_labels(verdict)}"
        ),
        f"the busiest GPU of the job was at {_percent(verdict.figures['busiest_utilization'])}",
    ]
    processes = _total(idle, "processes")
    if processes == 0:
        return (Cause.OVER_REQUEST,), [*evidence, "no process used the idle ones"]
    if processes is None:
        evidence.append("it is not known whether a process holds the idle ones")
    else:
        evidence.append(f"{processes:.0f} processes hold the idle ones: a rank may have stopped, or only wait")
    return (Cause.OVER_REQUEST, Cause.COMMUNICATION), evidence


def _stalled(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> _Reasons:
    bounds = case.settings.rules.stalled
    mean, gaps = verdict.figures["utilization"], gap_share(window)
    evidence = [f"mean utilization {_percent(mean)} over {span}"]
    if gaps is not None:
        evidence.append(
            f"{_percent(gaps)} of the time in idle gaps of up to 30 s: without them about {_fed(mean, gaps)}"
        )
    evidence += _host_sentences(window)
    pressure, cpu = window.host.io_pressure, window.host.cpu_of_limit
    starved_by_io = pressure is not None and pressure >= bounds.pressure
    starved_by_cpu = cpu is not None and cpu >= bounds.cpu_of_limit and gaps is not None and gaps >= bounds.gap_share
    if starved_by_io or starved_by_cpu:
        return (Cause.DATA_LOADING,), evidence
    return (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK), evidence


def _uneven(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> _Reasons:
    per_gpu = ", ".join(
        f"{gpu.label} {_percent(value)}" for gpu, value in zip(case.job.gpus, utilizations(window), strict=True)
    )
    evidence = [
        f"the slowest GPU worked {_percent(verdict.figures['spread'])} less than the busiest over {span}",
        f"behind: {_labels(verdict)}",
        per_gpu if len(window.gpus) <= 16 else f"{len(window.gpus)} GPUs on {len(case.job.nodes)} nodes",
    ]
    return (Cause.COMMUNICATION,), [*evidence, *_host_sentences(window)]


def _underused(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> _Reasons:
    evidence = [f"mean utilization {_percent(verdict.figures['utilization'])} over {span}"]
    gaps, pauses = gap_share(window), pause_share(window)
    memory = _memory_ratio(window)
    if memory is not None:
        evidence.append(f"at most {_percent(memory)} of GPU memory in use")
    evidence += _host_sentences(window)
    if gaps is None or pauses is None:
        return (Cause.SMALL_WORK, Cause.DATA_LOADING), [*evidence, "the lengths of its idle gaps are not measured"]
    mean, bound = verdict.figures["utilization"], case.settings.rules.underused.below
    evidence.append(
        f"{_percent(gaps)} of the time in idle gaps of up to 30 s, {_percent(pauses)} in pauses of up to 10 min"
    )
    if pauses >= PAUSE_SHARE:
        # The pauses are the cause where the job would not be underused without them, and part of it where it would.
        explained = mean >= bound * (1 - pauses)
        return ((Cause.CHECKPOINT,) if explained else (Cause.SMALL_WORK, Cause.CHECKPOINT)), evidence
    long_idle = _share_of_long_gaps(window)
    if long_idle >= PAUSE_SHARE:
        evidence.append(f"{_percent(long_idle)} of the time in one piece of idling of over 10 min")
        explained = mean >= bound * (1 - long_idle)
        phases = (Cause.OVER_REQUEST, Cause.CHECKPOINT)
        return (phases if explained else (Cause.SMALL_WORK, *phases)), evidence
    if gaps < case.settings.rules.stalled.clear_gap_share:
        return (Cause.SMALL_WORK,), [*evidence, "kernels run all the time, but each is short"]
    return (Cause.SMALL_WORK, Cause.DATA_LOADING), evidence


def _host_sentences(window: WindowEvidence) -> list[str]:
    host, sentences = window.host, []
    if host.cpu_of_limit is not None:
        sentences.append(f"CPU at {_percent(host.cpu_of_limit)} of the job's limit")
    elif host.cpu_cores is not None:
        sentences.append(f"{host.cpu_cores:.1f} CPU cores busy")
    if (pressure := highest_pressure(host)) is not None and pressure >= 0.01:
        kind = "I/O" if pressure == host.io_pressure else "a CPU"
        sentences.append(f"some task waited for {kind} {_percent(pressure)} of the time")
    return sentences


def _held(window: WindowEvidence, processes: float) -> str:
    memory = _total(window.gpus, "memory_used")
    holding = "" if memory is None else f" and {memory / 2**30:.1f} GiB of GPU memory"
    plural = "process holds" if processes == 1 else "processes hold"
    return f"{processes:.0f} {plural} the GPUs{holding}"


def _total(usages: list[Usage] | tuple[Usage, ...], name: str) -> float | None:
    """Sum of a gauge over GPUs; None where any GPU does not know it."""
    values = [getattr(usage, name) for usage in usages]
    return None if any(value is None for value in values) else sum(values)


def _memory_ratio(window: WindowEvidence) -> float | None:
    ratios = [u.memory_used / u.memory_total for u in window.gpus if u.memory_used is not None and u.memory_total]
    return max(ratios, default=None)


def _share_of_long_gaps(window: WindowEvidence) -> float:
    observed = sum(usage.observed for usage in window.gpus)
    return sum(usage.gap_ge600 or 0.0 for usage in window.gpus) / observed if observed else 0.0


def _fed(mean: float, gaps: float) -> str:
    """The estimate utilization ~ 1 - stall share, carried over: what the GPUs do while they are fed."""
    return _percent(min(1.0, mean / (1 - gaps))) if gaps < 1 else "nothing"


def _gpus(job: Job) -> str:
    return "its GPU" if len(job.gpus) == 1 else f"all {len(job.gpus)} GPUs"


def _labels(verdict: Verdict) -> str:
    labels = [gpu.label for gpu in verdict.gpus]
    return ", ".join(labels[:8]) + (f" and {len(labels) - 8} more" if len(labels) > 8 else "")


def _percent(ratio: float) -> str:
    """A ratio for people; what is not zero never reads as zero."""
    percent = 100 * ratio
    if 0 < percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.1f} %" if percent < 10 and percent != 0 else f"{percent:.0f} %"


def waste(judgement: Judgement, verdict: Verdict) -> tuple[float, float]:
    """(GPU-seconds measured and not busy, joules drawn) of the whole job over the verdict's window."""
    window = judgement.evidence.window(verdict.window)
    wasted = sum(max(0.0, usage.observed - usage.busy) for usage in window.gpus)
    return wasted, sum(usage.energy or 0.0 for usage in window.gpus)


__all__ = ["diagnose", "waste"]
