"""Which rules an incident is open for: those that fire join, those that clear leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.expectations import Expectation
from dutycycle_alerter.incidents.following import named
from dutycycle_alerter.incidents.model import EventKind, Incident, OpenRule, Resolution, Severity
from dutycycle_alerter.rules.diagnosis import began, waste
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict
from dutycycle_alerter.settings import Rules

_ORDER = {rule: rank for rank, rule in enumerate(Rules.ORDER)}


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that joined or left."""

    kind: EventKind
    text: str
    rule: str


def open_rules(
    before: tuple[OpenRule, ...], judgement: Judgement, *, after: float = float("-inf")
) -> tuple[tuple[OpenRule, ...], list[Change]]:
    """The rules that are open now, in the order of precedence, and what changed.

    A rule joins only with a window that begins at `after` or later (when another last left), and not in the pass in
    which one leaves: a window that reaches back before something cleared would tell the past a second time. An `after`
    that lies ahead is from before the clock was set back, and counts for nothing. The residual rule never joins beside
    another.
    """
    now, changes = judgement.evidence.at, []
    rules = {rule.rule: rule for rule in before}
    leaving = any(verdict.rule in rules and verdict.outcome.closes for verdict in judgement.verdicts)
    for verdict in judgement.verdicts:
        known = rules.get(verdict.rule)
        if verdict.outcome is Outcome.FIRING:
            if known is None:
                past = leaving or now - verdict.window < after <= now
                if past or (before and verdict.rule == Rules.RESIDUAL):
                    continue
                rules[verdict.rule] = _joined(verdict, judgement)
                text = f"{rule_name(verdict.rule)} fires as well"
                changes.append(Change(EventKind.RULE_OPENED, text, verdict.rule))
            else:
                higher = max(verdict.severity, known.severity, key=lambda severity: severity.rank)
                known = _followed(known, verdict, judgement)
                rules[verdict.rule] = replace(known, severity=higher, told=verdict.told, silent=verdict.silent)
        elif known is not None and verdict.outcome.closes:
            del rules[verdict.rule]
            changes.append(Change(EventKind.RULE_CLEARED, _left(verdict), verdict.rule))
    return tuple(sorted(rules.values(), key=lambda rule: _ORDER.get(rule.rule, len(_ORDER)))), changes


def _joined(verdict: Verdict, judgement: Judgement) -> OpenRule:
    """Return a rule that begins to fire, with what its GPUs wasted in its window."""
    evidence = judgement.evidence
    of_job, energy = waste(judgement, verdict)
    return OpenRule(
        rule=verdict.rule,
        since=evidence.at,
        severity=verdict.severity,
        told=verdict.told,
        silent=verdict.silent,
        started_at=began(judgement, verdict),
        gpus=verdict.gpus,
        wasted={gpu.key: of_job[gpu.key] for gpu in verdict.gpus},
        energy=energy,
    )


def _followed(known: OpenRule, verdict: Verdict, judgement: Judgement) -> OpenRule:
    """Return a rule that goes on with the GPUs that it is about now: one that joins brings its waste of the window, one
    that leaves takes its waste along.
    """
    gpus = named(known.gpus, verdict, judgement)
    if not gpus or gpus == known.gpus:
        return known
    of_job, _ = waste(judgement, verdict)
    wasted = {gpu.key: known.wasted.get(gpu.key, of_job[gpu.key]) for gpu in gpus}
    return replace(known, gpus=gpus, wasted=wasted)


def may_join(incident: Incident, judgement: Judgement) -> bool:
    """Whether any rule fires that the incident is not open for, and that joins others at all."""
    others = {rule.rule for rule in incident.rules} | {Rules.RESIDUAL}
    return any(verdict.outcome is Outcome.FIRING and verdict.rule not in others for verdict in judgement.verdicts)


def left_by(rules: tuple[OpenRule, ...], judgement: Judgement) -> tuple[Resolution, str, tuple[Expectation, ...]]:
    """How an incident ends whose rules all left in this pass: excluded where a policy took out every one,
    intended where people said so of every one; then also what they said.
    """
    gone = {rule.rule for rule in rules}
    verdicts = [verdict for verdict in judgement.verdicts if verdict.rule in gone]
    if verdicts and all(verdict.outcome is Outcome.EXCLUDED for verdict in verdicts):
        reason = verdicts[0].reason or "excluded"
        said = [verdict.intended for verdict in verdicts if verdict.intended is not None]
        if len(said) == len(verdicts):
            return Resolution.INTENDED, reason, tuple(dict.fromkeys(said))
        return Resolution.EXCLUDED, reason, ()
    return Resolution.CLEARED, "the condition cleared", ()


def newly_critical(rules: tuple[OpenRule, ...], before: tuple[OpenRule, ...]) -> list[str]:
    """The rules that are critical and were not before, the first of the order of precedence first."""
    known = {rule.rule for rule in before if rule.severity is Severity.CRITICAL}
    return [rule.rule for rule in rules if rule.severity is Severity.CRITICAL and rule.rule not in known]


def goes_before(rule: str, other: str) -> bool:
    """Whether a rule goes before another in the order of precedence: it is worse news."""
    return _ORDER.get(rule, len(_ORDER)) < _ORDER.get(other, len(_ORDER))


def highest(rules: tuple[OpenRule, ...]) -> Severity:
    """The highest severity of some rules that are open."""
    return max((rule.severity for rule in rules), key=lambda severity: severity.rank)


def _left(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.CLEAR:
        return f"{rule_name(verdict.rule)} no longer holds"
    if verdict.outcome is Outcome.EXCLUDED:
        return f"{rule_name(verdict.rule)} is {verdict.reason or verdict.outcome.value}"
    return f"{rule_name(verdict.rule)} can no longer be judged: {verdict.reason or verdict.outcome.value}"
