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
    if not evidence.left_out:
        return Judgement(evidence, verdicts)
    return Judgement(evidence, tuple(_of_a_part(verdict, case) for verdict in verdicts))


def _of_a_part(verdict: Verdict, case: Case) -> Verdict:
    """The verdict on a part of a job that is at least half of it, as one on the whole: what holds of some GPUs holds,
    and what must hold of all is not known.

    A condition that cleared on the part may go on in the rest; it then opens again, silently.
    """
    alone = len(case.job.gpus) == 1 and verdict.rule in ("uneven", "partially_idle")
    if verdict.rule == "idle" and verdict.outcome is Outcome.FIRING and case.evidence.others_work:
        return Verdict(verdict.rule, Outcome.CLEAR, verdict.window)
    if verdict.rule == "hung" and verdict.outcome is Outcome.CLEAR:
        idle_below = case.settings.rules.hung.idle_below
        works = any(value > idle_below for value in case.utilizations(verdict.window))
        unknown = not works
    else:
        unknown = (
            (verdict.rule == "hung" and verdict.outcome is Outcome.FIRING)
            or verdict.outcome is Outcome.NOT_EVALUABLE
            or (alone and verdict.outcome is Outcome.NOT_APPLICABLE)
        )
    if not unknown:
        return verdict
    return Verdict(verdict.rule, Outcome.UNKNOWN, verdict.window, reason="some of its GPUs have only just joined it")


def _disabled(rule: str) -> Verdict:
    return Verdict(rule, Outcome.NOT_APPLICABLE, reason="disabled in the configuration")
