"""How an incident lives: the pure transitions from one judgement to the next state (people's are in `actions`).

    open -> acknowledged | snoozed (until) -> resolved (reason) -> reopened

A job has at most one efficiency incident. Rules join it when they fire and leave it when they clear; the incident
resolves when none is left. Nothing here reads a clock or a store: `now` comes in, the changed incident and its events
go out.
"""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.model import (
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
    Step,
)
from dutycycle_alerter.model import Consumption, latest_workloads
from dutycycle_alerter.rules.diagnosis import diagnose, waste
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging, Rules

_ORDER = {rule: rank for rank, rule in enumerate(Rules.ORDER)}


def advance(incident: Incident | None, judgement: Judgement, settings: Judging, *, time_scale: float = 1.0) -> Step:
    """Fold one judgement of a job into the job's latest incident (active or resolved; None if it never had one).

    A condition that returns within `reopen_within` of its clearing reopens the same incident. An incident that a person
    resolved stays resolved until its condition has cleared once. Judging the same evidence twice changes nothing the
    second time, but for what `JobEvidence.recent` adds to the waste.
    """
    return _Folding(incident, judgement, settings, time_scale).step()


def lose(incident: Incident, settings: Judging, *, now: float, time_scale: float = 1.0) -> Step:
    """An active incident whose job no source knows: resolved as lost once nothing was known for long enough."""
    unknown_for = now - incident.known_at
    if not incident.state.active or unknown_for < settings.lost_after:
        return Step(incident)
    changed = replace(
        incident,
        state=State.RESOLVED,
        resolution=Resolution.LOST,
        resolved_at=now,
        updated_at=now,
        snoozed_until=None,
        rules=(),
    )
    text = f"nothing known for {format_duration(unknown_for * time_scale)}"
    return Step(changed, (Event(now, EventKind.RESOLVED, text, data={"resolution": Resolution.LOST.value}),))


class _Folding:
    """One call of `advance`: collects the events while the incident is changed step by step."""

    def __init__(self, incident: Incident | None, judgement: Judgement, settings: Judging, time_scale: float) -> None:
        self.incident = incident
        self.judgement = judgement
        self.settings = settings
        self.time_scale = time_scale
        self.now = judgement.evidence.at
        self.events: list[Event] = []

    def step(self) -> Step:
        incident = self.incident
        if incident is not None and incident.state.active:
            self._continue(incident)
        elif self.judgement.evidence.ended is None:
            self._begin(incident)
        return Step(self.incident, tuple(self.events))

    # A job without an active incident

    def _begin(self, resolved: Incident | None) -> None:
        """Open, reopen, or leave alone."""
        if resolved is not None and resolved.resolution is Resolution.OPERATOR and resolved.rules:
            rules = self._open_rules(resolved.rules, note=False)
            # A newcomer does not speak either while what the person closed goes on.
            kept = tuple(r for r in rules if any(r.rule == old.rule for old in resolved.rules))
            if kept != resolved.rules:
                self.incident = replace(resolved, rules=kept, updated_at=self.now)
            return
        rules = self._open_rules((), note=False, after=_cleared_at(resolved))
        if not rules:
            return
        if self._returns(resolved):
            assert resolved is not None  # noqa: S101 - told by _returns
            self._reopen(resolved, rules)
        else:
            self._open(rules)

    def _returns(self, resolved: Incident | None) -> bool:
        return (
            resolved is not None
            and resolved.resolution is Resolution.CLEARED
            and resolved.resolved_at is not None
            and self.now - resolved.resolved_at <= self.settings.reopen_within
        )

    def _open(self, rules: tuple[OpenRule, ...]) -> None:
        job, primary = self.judgement.evidence.job, rules[0]
        verdict = self.judgement.verdict(primary.rule)
        diagnosis = self._diagnose(primary.rule)
        wasted, energy = waste(self.judgement, verdict)
        incident = Incident(
            subject=job.id,
            rule=primary.rule,
            severity=_highest(rules),
            state=State.OPEN,
            started_at=max(job.start, self.now - verdict.window),
            opened_at=self.now,
            updated_at=self.now,
            known_at=self.now,
            diagnosis=diagnosis,
            gpus=verdict.gpus,
            rules=rules,
            wasted=wasted,
            energy=energy,
            cluster=job.cluster,
            scheduler=job.scheduler,
            user=job.user,
            account=job.account,
            partition=job.partition,
            namespace=job.namespace,
            job_gpus=len(job.gpus),
            workloads=latest_workloads((), job),
            figures=dict(verdict.figures),
        )
        self.incident = incident
        text = f"{rule_name(primary.rule)}: {diagnosis.summary}"
        self._note(EventKind.OPENED, text, rule=primary.rule, severity=incident.severity.value)

    def _reopen(self, resolved: Incident, rules: tuple[OpenRule, ...]) -> None:
        """The same incident again, silently; the time between was not wasted on it and is not added."""
        primary = rules[0]
        verdict = self.judgement.verdict(primary.rule)
        self.incident = replace(
            resolved,
            state=State.OPEN,
            rule=primary.rule,
            rules=rules,
            severity=_highest(rules),
            diagnosis=self._diagnose(primary.rule),
            gpus=verdict.gpus,
            workloads=latest_workloads(resolved.workloads, self.judgement.evidence.job),
            figures=dict(verdict.figures),
            resolved_at=None,
            resolution=None,
            reopened=resolved.reopened + 1,
            updated_at=self.now,
            known_at=self.now,
        )
        self._note(EventKind.REOPENED, f"{rule_name(primary.rule)} fires again", rule=primary.rule)

    # A job with an active incident

    def _continue(self, incident: Incident) -> None:
        evidence = self.judgement.evidence
        self.incident = _consume(incident, evidence.recent)
        if evidence.ended is not None:
            self._resolve(Resolution.ENDED, "the job ended")
            return
        self._wake()
        if self.judgement.informed:
            self._change(known_at=self.now, workloads=latest_workloads(incident.workloads, evidence.job))
        elif self.now - incident.known_at >= self.settings.lost_after:
            self._resolve(Resolution.LOST, f"nothing known for {self._span(self.now - incident.known_at)}")
            return
        rules = self._open_rules(incident.rules, note=True)
        self._change(rules=rules)
        if not rules:
            self._resolve(*self._left_by(incident.rules))
            return
        self._choose_primary(rules)
        self._raise_severity(rules)
        self._narrow_cause()

    def _wake(self) -> None:
        incident = self._present
        if (
            incident.state is State.SNOOZED
            and incident.snoozed_until is not None
            and self.now >= incident.snoozed_until
        ):
            self._change(state=State.OPEN, snoozed_until=None)
            self._note(EventKind.SNOOZE_EXPIRED, "the snooze has ended and the condition still holds")

    def _open_rules(
        self, before: tuple[OpenRule, ...], *, note: bool, after: float = float("-inf")
    ) -> tuple[OpenRule, ...]:
        """The rules that are open now, in the order of precedence: those that fire join, those that clear leave.

        A rule joins only with a window that begins at `after` or later, and not in the pass in which another leaves:
        when something has just cleared, a window still shows the time before, and would tell the past a second time.
        The residual rule never joins beside another.
        """
        rules = {rule.rule: rule for rule in before}
        leaving = any(verdict.rule in rules and verdict.outcome.closes for verdict in self.judgement.verdicts)
        for verdict in self.judgement.verdicts:
            known = rules.get(verdict.rule)
            if verdict.outcome is Outcome.FIRING:
                if known is None:
                    past = leaving or self.now - verdict.window < after
                    if past or (before and verdict.rule == Rules.RESIDUAL):
                        continue
                    rules[verdict.rule] = OpenRule(verdict.rule, self.now, verdict.severity, verdict.told)
                    if note:
                        self._note(EventKind.RULE_OPENED, f"{rule_name(verdict.rule)} fires as well", rule=verdict.rule)
                elif verdict.severity.rank > known.severity.rank or verdict.told is not known.told:
                    higher = max(verdict.severity, known.severity, key=lambda severity: severity.rank)
                    rules[verdict.rule] = replace(known, severity=higher, told=verdict.told)
            elif known is not None and verdict.outcome.closes:
                del rules[verdict.rule]
                if note:
                    self._note(EventKind.RULE_CLEARED, _left(verdict), rule=verdict.rule)
        return tuple(sorted(rules.values(), key=lambda rule: _ORDER.get(rule.rule, len(_ORDER))))

    def _left_by(self, rules: tuple[OpenRule, ...]) -> tuple[Resolution, str]:
        """How an incident ends whose rules all left in this pass: excluded where a policy took out every one."""
        open_rules = {rule.rule for rule in rules}
        verdicts = [verdict for verdict in self.judgement.verdicts if verdict.rule in open_rules]
        if verdicts and all(verdict.outcome is Outcome.EXCLUDED for verdict in verdicts):
            return Resolution.EXCLUDED, verdicts[0].reason or "excluded"
        return Resolution.CLEARED, "the condition cleared"

    def _choose_primary(self, rules: tuple[OpenRule, ...]) -> None:
        """The first open rule becomes primary once it has held for half of its own window, and fires right now.

        Where the primary rule itself has cleared, the first of those that are left takes its place at once.
        """
        incident, first = self._present, rules[0]
        if first.rule == incident.rule:
            return
        verdict = self.judgement.verdict(first.rule)
        if any(rule.rule == incident.rule for rule in rules):
            if verdict.outcome is not Outcome.FIRING or self.now - first.since < verdict.window / 2:
                return
        elif not verdict.outcome.informed:
            return
        diagnosis = self._diagnose(first.rule)
        gpus = verdict.gpus or incident.gpus
        self._change(rule=first.rule, diagnosis=diagnosis, gpus=gpus, figures=dict(verdict.figures))
        text = f"{rule_name(incident.rule)} became {rule_name(first.rule)}: {diagnosis.summary}"
        self._note(EventKind.PRIMARY_CHANGED, text, rule=first.rule, before=incident.rule)

    def _raise_severity(self, rules: tuple[OpenRule, ...]) -> None:
        """Severity rises within an incident and does not fall: what was critical once is worth the attention."""
        incident, highest = self._present, _highest(rules)
        if highest.rank > incident.severity.rank:
            self._change(severity=highest)
            self._note(EventKind.SEVERITY_CHANGED, f"{incident.severity} became {highest}", severity=highest.value)

    def _narrow_cause(self) -> None:
        """A hesitation may end in a verdict when evidence arrives; a verdict does not fall back, or causes would
        flap.
        """
        incident = self._present
        if len(incident.diagnosis.causes) < 2:
            return
        if self.judgement.verdict(incident.rule).outcome is not Outcome.FIRING:
            return
        diagnosis = self._diagnose(incident.rule)
        if len(diagnosis.causes) < len(incident.diagnosis.causes):
            self._change(diagnosis=diagnosis)
            self._note(EventKind.CAUSE_FOUND, f"cause: {diagnosis.summary}")

    def _resolve(self, resolution: Resolution, text: str) -> None:
        evidence = self.judgement.evidence
        ended = evidence.ended if resolution is Resolution.ENDED and evidence.ended is not None else self.now
        self._change(
            state=State.RESOLVED,
            resolution=resolution,
            resolved_at=max(ended, self._present.opened_at),
            snoozed_until=None,
            rules=(),
        )
        self._note(EventKind.RESOLVED, text, resolution=resolution.value)

    # Small things

    @property
    def _present(self) -> Incident:
        assert self.incident is not None  # noqa: S101 - only called where there is one
        return self.incident

    def _change(self, **changes: object) -> None:
        incident = self._present
        if any(getattr(incident, name) != value for name, value in changes.items()):
            self.incident = replace(incident, **changes, updated_at=self.now)  # type: ignore[arg-type]

    def _note(self, kind: EventKind, text: str, **data: object) -> None:
        self.events.append(Event(at=self.now, kind=kind, text=text, data=dict(data)))

    def _diagnose(self, rule: str) -> Diagnosis:
        diagnosis = diagnose(self.judgement, rule, self.settings, time_scale=self.time_scale)
        verdict = self.judgement.verdict(rule)
        if verdict.outcome is Outcome.FIRING and verdict.reason:
            return replace(diagnosis, evidence=(*diagnosis.evidence, verdict.reason))
        return diagnosis

    def _span(self, seconds: float) -> str:
        return format_duration(seconds * self.time_scale)


def _cleared_at(resolved: Incident | None) -> float:
    """When the job's last incident cleared by itself; long ago where it has none, or where it ended otherwise."""
    if resolved is None or resolved.resolution is not Resolution.CLEARED or resolved.resolved_at is None:
        return float("-inf")
    return resolved.resolved_at


def _consume(incident: Incident, recent: tuple[Consumption, ...]) -> Incident:
    """Add what the job did since the previous pass."""
    if not recent:
        return incident
    return replace(
        incident,
        wasted=incident.wasted + sum(part.wasted for part in recent),
        energy=incident.energy + sum(part.energy or 0.0 for part in recent),
    )


def _highest(rules: tuple[OpenRule, ...]) -> Severity:
    return max((rule.severity for rule in rules), key=lambda severity: severity.rank)


def _left(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.CLEAR:
        return f"{rule_name(verdict.rule)} no longer holds"
    if verdict.outcome is Outcome.EXCLUDED:
        return f"{rule_name(verdict.rule)} is {verdict.reason or verdict.outcome.value}"
    return f"{rule_name(verdict.rule)} can no longer be judged: {verdict.reason or verdict.outcome.value}"
