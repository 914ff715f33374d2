"""`low_sm_activity`: GPUs that are busy while most of their multiprocessors are not."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.units import activity_while_busy, unit_seconds
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def judge_low_sm_activity(case: Case) -> Verdict:
    """The job's active multiprocessor time as a share of its busy time, where it is busy at least half of the time.

    Also what only looks busy is found by it: tiny kernels at a short period read as full utilization.
    """
    rule, settings = "low_sm_activity", case.settings.rules.low_sm_activity
    if case.job.kind is not JobKind.BATCH:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    window = case.window(settings.window)
    if any(unit_seconds(usage, "sm") is None for usage in window.gpus):
        reason = "the activity of multiprocessors (GPM) is not measured"
        return Verdict(rule, Outcome.NOT_EVALUABLE, settings.window, reason=reason)
    mean, active = case.mean_utilization(settings.window), activity_while_busy(window.gpus, "sm")
    figures = {"utilization": mean}
    if active is None:  # not busy at all: there is nothing to take a share of, and nothing that only looks busy
        return Verdict(rule, Outcome.CLEAR, settings.window, figures=figures)
    figures["sm_active_of_busy"] = active
    if mean >= settings.at_least and active < settings.below:
        return _low(case, figures)
    cleared = active >= settings.clear_above
    return Verdict(rule, Outcome.CLEAR if cleared else Outcome.HOLDING, settings.window, figures=figures)


def _low(case: Case, figures: dict[str, float]) -> Verdict:
    """The activity of the whole window is low: so must be that of its last part.

    GPM that began late in the window, or stopped in it, reads as little activity too. Where nothing grew in the last
    part (the clearing window of `idle`), it has stopped. A clearing window that is longer than the whole is no part of
    it, and shows a time that is not judged.
    """
    rule, settings = "low_sm_activity", case.settings.rules.low_sm_activity
    last = case.window(min(case.settings.rules.idle.clear_window, settings.window))
    lately = activity_while_busy(last.gpus, "sm")
    if lately is None and any(usage.busy > 0 for usage in last.gpus):
        reason = "the activity of multiprocessors (GPM) is no longer measured"
        return Verdict(rule, Outcome.UNKNOWN, settings.window, figures=figures, reason=reason)
    if lately is None or lately >= settings.below:
        return Verdict(rule, Outcome.HOLDING, settings.window, figures=figures)
    return Verdict(rule, Outcome.FIRING, settings.window, Severity.WARNING, case.job.gpus, figures)
