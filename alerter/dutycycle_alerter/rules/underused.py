"""`underused`: GPUs that work little, where no other rule says why."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def judge_underused(case: Case, *, explained: bool) -> Verdict:
    """Mean utilization of the job under the bound. `explained` tells that a rule above fires: then it does not open."""
    rule, settings = "underused", case.settings.rules.underused
    if case.job.kind is not JobKind.BATCH:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    mean = case.mean_utilization(settings.window)
    figures = {"utilization": mean}
    if mean < settings.below and not explained:
        severity = Severity.CRITICAL if mean < settings.critical_below else Severity.WARNING
        return Verdict(rule, Outcome.FIRING, settings.window, severity, case.job.gpus, figures)
    cleared = mean > settings.clear_above
    return Verdict(rule, Outcome.CLEAR if cleared else Outcome.HOLDING, settings.window, figures=figures)
