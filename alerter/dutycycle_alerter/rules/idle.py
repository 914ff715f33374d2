"""`idle` and `partially_idle`: GPUs of a job that do nothing."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.rules.before import never_used
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def judge_idle(case: Case) -> Verdict:
    """Every GPU at or under the bound over the window; critical when it also holds over the long one.

    Clears as soon as one GPU that is known worked over the clearing window, whatever is unknown of the others. The
    test is on the unrounded mean: a GPU at 0.6 % is not idle.
    """
    rule, settings = "idle", case.settings.rules.idle
    serving = case.job.kind is JobKind.SERVING
    length = settings.serving_window if serving else settings.window
    if _someone_works(case):
        return Verdict(rule, Outcome.CLEAR, length)
    if unready := case.unready(rule, length):
        return unready
    busiest = max(case.utilizations(length))
    figures = {"busiest_utilization": busiest}
    if busiest > settings.below:
        return Verdict(rule, Outcome.HOLDING, length, figures=figures)
    severity = Severity.CRITICAL if serving or _holds_long(case) else Severity.WARNING
    return Verdict(rule, Outcome.FIRING, length, severity, case.job.gpus, figures)


def _someone_works(case: Case) -> bool:
    settings = case.settings.rules.idle
    length = settings.clear_window
    if case.evidence.at < case.ready_at(length) or not case.evidence.visible:
        return False
    return any(
        usage.busy / usage.observed > settings.clear_above
        for usage in case.window(length).gpus
        if case.covered(usage, length)
    )


def _holds_long(case: Case) -> bool:
    settings = case.settings.rules.idle
    if case.unready("idle", settings.critical_window):
        return False
    return max(case.utilizations(settings.critical_window)) <= settings.below


def judge_partially_idle(case: Case) -> Verdict:
    """Some GPUs at or under the bound. Where the busiest hardly works, those that the job never used at all: the others
    may pause. Clears when every GPU works.
    """
    rule, settings = "partially_idle", case.settings.rules.partially_idle
    if case.job.kind is JobKind.SERVING or len(case.job.gpus) < 2:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    values = case.utilizations(settings.window)
    busiest, idle = max(values), [place for place, value in enumerate(values) if value <= settings.below]
    figures = {"busiest_utilization": busiest, "idle_gpus": float(len(idle)), "gpus": float(len(values))}
    hardly = tuple(gpu for gpu, value in zip(case.job.gpus, values, strict=True) if value <= settings.clear_above)
    # Where no GPU works, `idle` is about all of them.
    unused = [] if len(idle) == len(values) else idle
    if busiest < settings.busiest_at_least:
        unused = sorted(never_used(case, unused))
    if unused:
        gpus = tuple(case.job.gpus[place] for place in unused)
        return Verdict(rule, Outcome.FIRING, settings.window, Severity.WARNING, gpus, figures, nearly=hardly)
    if min(values) > settings.clear_above:
        return Verdict(rule, Outcome.CLEAR, settings.window, figures=figures)
    return Verdict(rule, Outcome.HOLDING, settings.window, gpus=hardly, figures=figures)
