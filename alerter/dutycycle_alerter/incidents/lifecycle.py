"""How an incident lives: the pure transitions from one judgement to the next state (people's are in `actions`).

    open -> acknowledged | snoozed (until) -> resolved (reason) -> reopened

A job has at most one efficiency incident. Rules join it when they fire and leave it when they clear; the incident
resolves when none is left. Nothing here reads a clock or a store: `now` comes in, the changed incident and its events
go out.
"""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.actions import snooze_ended
from dutycycle_alerter.incidents.audience import Audience, critical_for_owner
from dutycycle_alerter.incidents.belated import with_belated
from dutycycle_alerter.incidents.expectations import in_history
from dutycycle_alerter.incidents.following import followed
from dutycycle_alerter.incidents.model import (
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    State,
    Step,
    showing,
)
from dutycycle_alerter.incidents.open_rules import goes_before, highest, left_by, newly_critical, open_rules
from dutycycle_alerter.incidents.opening import opened
from dutycycle_alerter.incidents.settling import may_settle, settles
from dutycycle_alerter.incidents.unknown import Pauses, unknown_for
from dutycycle_alerter.incidents.wasting import with_recent
from dutycycle_alerter.model import latest_workloads
from dutycycle_alerter.rules.diagnosis import diagnose, waste
from dutycycle_alerter.rules.verdict import Judgement, Outcome
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging


def advance(
    incident: Incident | None,
    judgement: Judgement,
    settings: Judging,
    *,
    left_at: float = float("-inf"),
    pauses: Pauses = (),
    time_scale: float = 1.0,
) -> Step:
    """Fold one judgement of a job into the job's latest incident (active or resolved; None if it never had one).
    `left_at` is when a rule last left it; in `pauses` nobody looked.

    A condition that returns within `reopen_within` of its clearing reopens the same incident. An incident that a person
    resolved stays resolved until its condition has cleared once. Judging the same evidence twice changes nothing the
    second time, but for what `JobEvidence.recent` adds to the waste.
    """
    return _Folding(incident, judgement, settings, left_at, pauses, time_scale).step()


def lose(incident: Incident, settings: Judging, *, now: float, pauses: Pauses = (), time_scale: float = 1.0) -> Step:
    """An active incident whose job no source knows: resolved as lost once nothing was known for long enough. In
    `pauses` nobody looked.
    """
    unknown = unknown_for(incident.known_at, now, pauses)
    if not incident.state.active or unknown < settings.lost_after:
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
    text = f"nothing known for {format_duration(unknown * time_scale)}"
    return Step(changed, (Event(now, EventKind.RESOLVED, text, data={"resolution": Resolution.LOST.value}),))


class _Folding:
    """One call of `advance`: collects the events while the incident is changed step by step."""

    def __init__(
        self,
        incident: Incident | None,
        judgement: Judgement,
        settings: Judging,
        left_at: float,
        pauses: Pauses,
        time_scale: float,
    ) -> None:
        self.incident = incident
        self.judgement = judgement
        self.settings = settings
        self.left_at = left_at
        self.pauses = pauses
        self.time_scale = time_scale
        self.now = judgement.evidence.at
        self.events: list[Event] = []

    def step(self) -> Step:
        incident = self.incident
        if incident is not None and incident.state.active:
            self._continue(incident)
            return Step(self.incident, tuple(self.events))
        if incident is not None:
            self.incident = with_belated(incident, self.judgement.evidence.recent)
        if self.judgement.evidence.ended is None:
            self._begin(self.incident)
        return Step(self.incident, tuple(self.events))

    # A job without an active incident

    def _begin(self, resolved: Incident | None) -> None:
        """Open, reopen, or leave alone."""
        if resolved is not None and resolved.resolution is Resolution.OPERATOR and resolved.rules:
            rules, _ = open_rules(resolved.rules, self.judgement)
            # A newcomer does not speak either while what the person closed goes on.
            kept = tuple(r for r in rules if any(r.rule == old.rule for old in resolved.rules))
            if kept != resolved.rules:
                self.incident = replace(resolved, rules=kept, known_at=self.now, updated_at=self.now)
            return
        rules, _ = open_rules((), self.judgement, after=_cleared_at(resolved))
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
        primary = rules[0]
        verdict = self.judgement.verdict(primary.rule)
        diagnosis = self._diagnose(primary.rule)
        incident = opened(self.judgement, verdict, diagnosis, rules, at=self.now, since=primary.started_at)
        self.incident = incident
        text = f"{rule_name(primary.rule)}: {diagnosis.summary}"
        self._note(EventKind.OPENED, text, rule=primary.rule, severity=incident.severity.value)

    def _reopen(self, resolved: Incident, rules: tuple[OpenRule, ...]) -> None:
        """The same incident again, silently unless it is worse than it was. Its rule goes on from where it was, another
        begins anew; the time between was not wasted and is not added.
        """
        primary = rules[0]
        verdict = self.judgement.verdict(primary.rule)
        if primary.rule == resolved.rule:
            primary = _continued(primary, resolved)
            rules = (primary, *rules[1:])
        job_wasted, _ = waste(self.judgement, verdict)
        reopened = replace(
            resolved,
            state=State.OPEN,
            rule=primary.rule,
            rules=rules,
            diagnosis=self._diagnose(primary.rule),
            gpus=verdict.gpus,
            workloads=latest_workloads(resolved.workloads, self.judgement.evidence.job),
            figures=dict(verdict.figures),
            resolved_at=None,
            resolution=None,
            reopened=resolved.reopened + 1,
            updated_at=self.now,
            known_at=self.now,
            job_wasted=resolved.job_wasted + sum(job_wasted.values()),
        )
        self.incident = showing(reopened, rules)
        self._note(EventKind.REOPENED, f"{rule_name(primary.rule)} fires again", rule=primary.rule)
        self._own()
        self._raise_severity(rules, resolved)

    # A job with an active incident

    def _continue(self, incident: Incident) -> None:
        evidence = self.judgement.evidence
        self.incident = with_recent(incident, evidence.recent)
        if evidence.ended is not None:
            self._resolve(Resolution.ENDED, "the job ended")
            return
        self._wake()
        if self.judgement.informed:
            self._change(known_at=self.now, workloads=latest_workloads(incident.workloads, evidence.job))
            self._own()
        elif (unknown := unknown_for(incident.known_at, self.now, self.pauses)) >= self.settings.lost_after:
            self._resolve(Resolution.LOST, f"nothing known for {self._span(unknown)}")
            return
        rules, changes = open_rules(self._present.rules, self.judgement, after=self.left_at)
        for change in changes:
            self._note(change.kind, change.text, rule=change.rule)
        self._change(rules=rules)
        if not rules:
            resolution, text, said = left_by(incident.rules, self.judgement)
            # Not said of this incident, but it is what closes it: its history and reports have it as if it were.
            self.events += (in_history(one, now=self.now) for one in said)
            self._resolve(resolution, text)
            return
        self._choose_primary(rules)
        self._follow()
        self.incident = showing(self._present, rules)
        self._raise_severity(rules, incident)
        self._settle_cause()

    def _wake(self) -> None:
        incident = self._present
        if (
            incident.state is State.SNOOZED
            and incident.snoozed_until is not None
            and self.now >= incident.snoozed_until
        ):
            self._change(state=State.OPEN, snoozed_until=None)
            open_for = {rule.rule for rule in incident.rules}
            holds = any(one.rule in open_for and one.outcome is Outcome.FIRING for one in self.judgement.verdicts)
            self._note(EventKind.SNOOZE_EXPIRED, snooze_ended(holds=holds))

    def _own(self) -> None:
        """The job's owner as it is known by now. What stands in for a user's name takes no name's place: a namespace
        where the API server does not answer, a number where the node's directory does not.
        """
        incident, job = self._present, self.judgement.evidence.job
        stands_in = job.user == job.namespace or job.user.isdecimal()
        if job.user in ("", incident.user) or (incident.user and stands_in):
            return
        account, partition = job.account or incident.account, job.partition or incident.partition
        self._change(user=job.user, account=account, partition=partition)
        instead = f", not {incident.user}" if incident.user else ""
        self._note(EventKind.OWNER_CHANGED, f"the job's user is {job.user}{instead}", before=incident.user)

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
        gpus = first.gpus or verdict.gpus or incident.gpus
        self._change(rule=first.rule, diagnosis=diagnosis, gpus=gpus, figures=dict(verdict.figures))
        text = f"{rule_name(incident.rule)} became {rule_name(first.rule)}: {diagnosis.summary}"
        self._note(EventKind.PRIMARY_CHANGED, text, rule=first.rule, before=incident.rule)

    def _follow(self) -> None:
        """The GPUs that the primary rule is about now, with their figures and sentences: that is no news, and no other
        cause.
        """
        now = followed(self._present, self.judgement)
        if now is None:
            return
        self.judgement = now
        incident, verdict, evidence = self._present, now.verdict(self._present.rule), now.evidence
        whole = len(evidence.job.gpus) + evidence.left_out
        # Whatever differs: GPUs are equal whose pods are not.
        self.incident = replace(
            incident, gpus=verdict.gpus, figures=dict(verdict.figures), job_gpus=whole, updated_at=self.now
        )
        diagnosis = self._diagnose(incident.rule)
        if diagnosis.causes == incident.diagnosis.causes:
            self._change(diagnosis=replace(diagnosis, known=incident.diagnosis.known))

    def _raise_severity(self, rules: tuple[OpenRule, ...], was: Incident) -> None:
        """Severity rises within an incident and does not fall: what was critical once is worth the attention.

        Where it does not rise, it is told which rule makes it worse than it `was` at the last pass; and where a policy
        gives operators a severity of their own, what became critical for the job's user is told to the user.
        """
        incident, now = self._present, highest(rules)
        before = critical_for_owner(was.rules)
        joined = critical_for_owner(rules) - before
        if now.rank > incident.severity.rank:
            self._change(severity=now)
            # For the user nothing became worse where it was critical, and nothing more is.
            whose = {"audience": Audience.OPERATORS.value} if before and not joined else {}
            text = f"{incident.severity} became {now}"
            self._note(EventKind.SEVERITY_CHANGED, text, severity=now.value, **whose)
            return
        fresh = self._worse(newly_critical(rules, was.rules), was)
        if fresh:
            text = f"{rule_name(fresh[0])} is critical as well"
            self._note(EventKind.SEVERITY_CHANGED, text, severity=now.value, rule=fresh[0])
        theirs = self._worse([one.rule for one in rules if one.rule in joined], was)
        if theirs and fresh[:1] != theirs[:1]:
            text = f"{rule_name(theirs[0])} became critical for the user of the job"
            # Where nothing was, it became so: that is told whatever the rule.
            named = {"rule": theirs[0]} if before or incident.reopened else {}
            audience = Audience.OWNER.value
            self._note(EventKind.SEVERITY_CHANGED, text, severity=now.value, audience=audience, **named)

    def _worse(self, newly: list[str], was: Incident) -> list[str]:
        """Which of the rules that are newly critical are news. What was critical, went and came back is none; what goes
        before the primary rule is, and all that is critical for the first time.
        """
        return [one for one in newly if not self._present.reopened or goes_before(one, was.rule)]

    def _settle_cause(self) -> None:
        incident = self._present
        if not may_settle(incident.diagnosis) or self.judgement.verdict(incident.rule).outcome is not Outcome.FIRING:
            return
        diagnosis = self._diagnose(incident.rule)
        if not settles(diagnosis, incident.diagnosis, self.judgement, incident.rule, self.settings):
            return
        text = f"cause: {diagnosis.summary}"
        if not set(incident.diagnosis.causes).issuperset(diagnosis.causes):
            text += f", no longer {incident.diagnosis.summary}"
        self._change(diagnosis=diagnosis)
        self._note(EventKind.CAUSE_FOUND, text)

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


def _continued(rule: OpenRule, resolved: Incident) -> OpenRule:
    """Return a rule that fires again with the start and the waste that it had."""
    before = resolved.waste_by_gpu
    return replace(
        rule,
        started_at=resolved.started_at,
        wasted={gpu: wasted + before.get(gpu, 0.0) for gpu, wasted in rule.wasted.items()},
        energy=rule.energy + resolved.energy,
    )


def _cleared_at(resolved: Incident | None) -> float:
    """When what the job's last incident was about was over; long ago where it has none, or where nobody saw that."""
    if resolved is None or resolved.resolved_at is None:
        return float("-inf")
    if resolved.resolution is Resolution.CLEARED:
        return resolved.resolved_at
    # A person closed it before that, and it was last known when its last rule left.
    return resolved.known_at if resolved.resolution is Resolution.OPERATOR else float("-inf")
