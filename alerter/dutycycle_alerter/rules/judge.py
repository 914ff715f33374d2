"""All rules on one job, in the order of precedence."""

from __future__ import annotations

from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.hung import judge_hung
from dutycycle_alerter.rules.idle import judge_idle, judge_partially_idle
from dutycycle_alerter.rules.low_sm_activity import judge_low_sm_activity
from dutycycle_alerter.rules.stalled import judge_stalled
from dutycycle_alerter.rules.underused import judge_underused
from dutycycle_alerter.rules.uneven import judge_uneven
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict
from dutycycle_alerter.settings import Judging, Rules


def judge(evidence: JobEvidence, settings: Judging) -> Judgement:
    """Judge one job. Pure: the same evidence and settings always give the same judgement.

    `settings` carries wall seconds, that is durations already divided by the time scale (`Settings.scaled`).
    """
    case = Case(evidence, settings)
    rules = settings.rules
    hung = judge_hung(case) if rules.hung.enabled else _disabled("hung")
    idle = judge_idle(case) if rules.idle.enabled else _disabled("idle")
    partially = judge_partially_idle(case) if rules.partially_idle.enabled else _disabled("partially_idle")
    stalled = judge_stalled(case) if rules.stalled.enabled else _disabled("stalled")
    uneven = (
        judge_uneven(case, partially_idle=partially.outcome is Outcome.FIRING)
        if rules.uneven.enabled
        else _disabled("uneven")
    )
    low_sm = judge_low_sm_activity(case) if rules.low_sm_activity.enabled else _disabled("low_sm_activity")
    above = (hung, idle, partially, stalled, uneven, low_sm)
    underused = (
        judge_underused(case, explained=any(v.outcome is Outcome.FIRING for v in above))
        if rules.underused.enabled
        else _disabled("underused")
    )
    verdicts = (*above, underused)
    assert tuple(v.rule for v in verdicts) == Rules.ORDER  # noqa: S101 - the order is a promise of the settings
    return Judgement(evidence, tuple(map(_of_a_part, verdicts)) if evidence.left_out else verdicts)


def _of_a_part(verdict: Verdict) -> Verdict:
    """The verdict on most of a job, as one on the whole: what holds of some GPUs holds, and what must hold of all is not
    known. That one of them works ends what says that none does.
    """
    says_some_work = verdict.rule in ("idle", "hung") and verdict.outcome is Outcome.CLEAR
    needs_all = verdict.rule == "hung" and verdict.outcome is Outcome.FIRING
    closes = verdict.outcome in (Outcome.CLEAR, Outcome.NOT_APPLICABLE) and not says_some_work
    if not needs_all and not closes:
        return verdict
    return Verdict(verdict.rule, Outcome.UNKNOWN, verdict.window, reason="some of its GPUs joined it only just now")


def _disabled(rule: str) -> Verdict:
    return Verdict(rule, Outcome.NOT_APPLICABLE, reason="disabled in the configuration")
