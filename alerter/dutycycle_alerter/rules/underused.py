"""`underused`: GPUs that work little, where no other rule says why."""

from __future__ import annotations

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def judge_underused(case: Case, *, explained: bool) -> Verdict:
    """Judge the job's mean utilization, over the window and over its end. `explained`: a rule above fires, so that this
    one does not open. A job that stands still is left to `idle`.
    """
    rule, settings = "underused", case.settings.rules.underused
    if case.job.kind is not JobKind.BATCH:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    idle = case.settings.rules.idle
    end = min(idle.clear_window, settings.window)
    if unready := case.unready(rule, end):
        return unready
    mean, last = case.mean_utilization(settings.window), case.mean_utilization(end)
    figures = {"utilization": mean}
    if last > settings.clear_above or max(case.utilizations(end)) <= idle.below:
        return Verdict(rule, Outcome.CLEAR, settings.window, figures=figures)
    if max(mean, last) < settings.below and not explained:
        return Verdict(rule, Outcome.FIRING, settings.window, gpus=case.job.gpus, figures=figures)
    return Verdict(rule, Outcome.HOLDING, settings.window, figures=figures)
