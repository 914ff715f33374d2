"""Why a job's GPUs work little: it pauses, it works in phases, or little is asked of them at a time."""

from __future__ import annotations

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import LOW_SAMPLE, Gpu, Usage, WindowEvidence
from dutycycle_alerter.rules import sentences, straggling
from dutycycle_alerter.rules.case import Case, gap_share, mean_utilization, of_all_holders, pause_share
from dutycycle_alerter.rules.straggling import apart, why_apart
from dutycycle_alerter.rules.units import memory_ratio
from dutycycle_alerter.rules.verdict import Reasons, Verdict

# Pauses that take at least a tenth of the time are worth naming: 60 s in 10 min.
PAUSE_SHARE = 0.10
# Samples that read as 5 % at most are idle gaps, and NVML counts whole percents: kernels in them are short or rare.
IDLE_SAMPLE = 0.055
# Beside time at a low duty cycle a mean of the rest of at least this is no small work.
FED = 0.40


def why_underused(case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    """Causes and sentences for a job that is underused over a window; `span` is that window for people."""
    mean, bound = verdict.figures["utilization"], case.settings.rules.underused.below
    evidence = [f"mean utilization {percent(mean)} over {span}"]
    memory = memory_ratio(window.gpus)
    if memory is not None:
        evidence.append(f"at most {percent(memory)} of GPU memory in use")
    evidence += sentences.host(window.host)
    if _works_in_gaps(case, window):
        evidence.append("its GPUs work in time that reads as idle: kernels are so short that a sample holds hardly any")
        return (Cause.SMALL_WORK,), evidence
    gaps, pauses = gap_share(window), pause_share(window)
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
    found, more = _between_steps(case, window, mean, gaps)
    return found, [*evidence, *more]


def _between_steps(case: Case, window: WindowEvidence, mean: float, gaps: float) -> Reasons:
    """Of an underused job without pauses: why its GPUs do little all the time."""
    ranks = apart(case, window)
    waits = () if ranks is None else why_apart(case, window, ranks.behind)
    evidence = [] if ranks is None else straggling.said(case, window, ranks)
    if gaps < case.settings.rules.stalled.clear_gap_share:
        if ranks is None and (phases := _two_levels(case, window)) is not None:
            # Neither is left out: how long a phase lasts is not measured, and it may lie within a step.
            return (Cause.CHECKPOINT, Cause.SMALL_WORK), [*evidence, phases]
        return (*waits, Cause.SMALL_WORK), [*evidence, "kernels run all the time, but each is short"]
    evidence.append(f"utilization without the short gaps: about {sentences.fed(mean, gaps)}")
    if ranks is not None and ranks.at_work:
        # The gaps are those of the others; the busiest has none, and works little all the same.
        return (*waits, Cause.SMALL_WORK), evidence
    # None of them is left out for length: each would have to be excluded by something known.
    return (*waits, Cause.SMALL_WORK, Cause.DATA_LOADING), evidence


def _two_levels(case: Case, window: WindowEvidence) -> str | None:
    """That each GPU does little for a part of the time and much for the rest; None where that is not known of all.

    A GPU that does as little all the time beside one that works all the time has no phases.
    """
    found = [_phases(gpu, usage) for gpu, usage in zip(case.job.gpus, window.gpus, strict=True)]
    known = [phases for phases in found if phases is not None]
    if len(known) < len(found):
        return None
    dim, rest = (min(values) for values in zip(*known, strict=True))
    return (
        f"{percent(dim)} of the time or more at 5 to {percent(LOW_SAMPLE)}, and {percent(rest)} or more where it is "
        "above: there are two kinds of work"
    )


def _phases(gpu: Gpu, usage: Usage) -> tuple[float, float] | None:
    """The share of the time at a low duty cycle that is no idle gap, and the least that the mean of the time above can
    be; None where these are no two levels. A gap that has not ended counts as low.

    (mean - 15 % x the time at 15 % at most) / (1 - the time at 15 % at most)
    """
    gaps = (usage.gap_lt2, usage.gap_2to30, usage.gap_30to600, usage.gap_ge600)
    if usage.low is None or None in gaps or usage.utilization is None or of_all_holders(gpu, usage):
        return None
    low = usage.low / usage.observed
    dim = low - sum(filter(None, gaps)) / usage.observed
    if dim < PAUSE_SHARE or low > 1 - PAUSE_SHARE:
        # Of a small rest nothing can be said: each counter is known within a few percent.
        return None
    rest = min(1.0, (usage.utilization - LOW_SAMPLE * low) / (1 - low))
    return (dim, rest) if rest >= FED else None


def _last_part(case: Case, window: WindowEvidence) -> WindowEvidence | None:
    """The end of a longer window; None where it is not shorter, or not measured well enough."""
    length = case.settings.rules.idle.clear_window
    if length >= window.length:
        return None
    last = case.window(length)
    return last if all(case.covered(usage, length) for usage in last.gpus) else None


def _works_in_gaps(case: Case, window: WindowEvidence) -> bool:
    """Whether GPUs were busy for longer than the time outside of idle gaps of over 10 min: small samples are such gaps.

    A gap that reaches 10 min is counted from its beginning, which may lie before a window: not before both at once.
    """
    last = _last_part(case, window)
    return last is not None and all(_busier_than_gaps_leave(case, one) for one in (window, last))


def _busier_than_gaps_leave(case: Case, window: WindowEvidence) -> bool:
    if any(usage.gap_ge600 is None for usage in window.gpus):
        return False
    mean = mean_utilization(window)
    left = max(0.0, 1 - sentences.share_of_long_gaps(window))
    return left + case.settings.rules.idle.below < mean <= IDLE_SAMPLE
