"""From a firing rule to what people read: likely causes, evidence, advice with the job's own numbers, commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import Job, WindowEvidence
from dutycycle_alerter.rules import causes, report_causes, sentences
from dutycycle_alerter.rules.advice import ADVICE, steps, tell_apart
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.commands import confirm
from dutycycle_alerter.rules.straggling import throttled_gpus
from dutycycle_alerter.rules.tailored import Facts, held_for_nothing, left_undone, tailored
from dutycycle_alerter.rules.units import thermal_share
from dutycycle_alerter.rules.verdict import Judgement, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging
from dutycycle_alerter.usage import unused_seconds

_BY_RULE = {**causes.BY_RULE, **report_causes.BY_RULE}
# Where nothing runs, clocks that are held down cost nothing.
_REGARDLESS_OF_CLOCKS = ("idle", *report_causes.BY_RULE)


def diagnose(judgement: Judgement, rule: str, settings: Judging, *, time_scale: float = 1.0) -> Diagnosis:
    """Cause, evidence and advice for a rule that fires in `judgement`. `time_scale` turns wall seconds into shown
    ones.
    """
    verdict = judgement.verdict(rule)
    case = Case(judgement.evidence, settings, time_scale)
    window = case.window(verdict.window)
    span = format_duration(verdict.figures.get("watched_seconds", verdict.window) * time_scale)
    found, evidence = _BY_RULE[rule](case, verdict, window, span)
    facts = Facts(case, verdict, window, span, time_scale)
    # Beside GPUs of a job that do nothing others work.
    held = "" if rule == "partially_idle" else held_for_nothing(found, facts)
    evidence += filter(None, (held, left_undone(facts)))
    own_steps = tuple(tailored(found, facts))
    told = [step for _, step in own_steps]
    if rule != "overallocated":  # it is about CPUs, memory and time as well: its own figures say all of it
        told += steps(found, gpus=len(window.gpus))
    slowed = () if rule in _REGARDLESS_OF_CLOCKS else throttled_gpus(case, window)
    if slowed:
        # Beside any cause: it contributes, and the owner cannot change it.
        shares = [share for place in slowed if (share := thermal_share(window.gpus[place])) is not None]
        evidence.append(sentences.throttled(shares, len(window.gpus)))
        told += ADVICE[Cause.THROTTLING]
    return Diagnosis(
        causes=found,
        evidence=(*evidence, *case.job.troubles),
        advice=tuple(dict.fromkeys(told)),
        tell_apart=tell_apart(found),
        commands=confirm(_concerned(case.job, verdict), found, ended=rule in report_causes.BY_RULE),
        known=tuple(_known(window)),
        own_steps=own_steps,
    )


def _known(window: WindowEvidence) -> Iterator[str]:
    """The fields of a window's usages that are known of all GPUs, and of the CPUs of all nodes."""
    for parts in (window.gpus, (window.host,)):
        for field in fields(parts[0]) if parts else ():
            if all(getattr(part, field.name) is not None for part in parts):
                yield field.name


def _concerned(job: Job, verdict: Verdict) -> Job:
    """The job by the pod that is to be looked into, where it has several."""
    pod = verdict.gpus[0].pod if verdict.gpus else ""
    return replace(job, pod=pod) if pod else job


def began(judgement: Judgement, verdict: Verdict) -> float:
    """Return when the condition of a firing rule began: with its window, but not before the job, nor before the first
    of its GPUs was measured in it.
    """
    evidence = judgement.evidence
    start = max(evidence.job.start, evidence.at - verdict.window)
    usages = zip(evidence.job.gpus, evidence.window(verdict.window).gpus, strict=True)
    measured = [usage.measured_from or start for gpu, usage in usages if gpu in verdict.gpus]
    return max(start, min(measured, default=start))


def waste(judgement: Judgement, verdict: Verdict) -> tuple[dict[str, float], float]:
    """Return what each GPU of the job wasted over the verdict's window (GPU-seconds by `Gpu.key`), and the joules that
    all of them drew.
    """
    window, gpus = judgement.evidence.window(verdict.window), judgement.evidence.job.gpus
    wasted = dict.fromkeys((gpu.key for gpu in gpus), 0.0)
    for gpu, usage in zip(gpus, window.gpus, strict=True):  # pods of a job may share a GPU
        wasted[gpu.key] += unused_seconds(usage.observed, usage.busy)
    return wasted, sum(usage.energy or 0.0 for usage in window.gpus)


__all__ = ["began", "diagnose", "waste"]
