"""One configuration on trial: it is given the evidence of one instant after another, as the alerter would have been."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from dutycycle_alerter.backtest.mails import Mail, Mailbox
from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.policies import Applied, PoliciesInForce
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.views import NotEvaluable


@dataclass(frozen=True, slots=True)
class Found:
    """An incident as it was at the end of the trial, and the mail about it; None where its user had none."""

    incident: Incident
    mail: Mail | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a configuration would have done. `found` are all incidents, most wasted first, `mails` by time.

    `judged` jobs were seen well enough for at least one rule to speak, of `jobs` in all. `firing` counts, by rule, how
    often it fired: once for each job and instant. `excluded` counts the jobs that a policy took out of some rule.
    """

    found: tuple[Found, ...]
    mails: tuple[Mail, ...]
    jobs: int
    judged: int
    firing: dict[str, int]
    excluded: dict[str, int]
    not_evaluable: tuple[NotEvaluable, ...]


class Trial:
    """`settings` are as configured, not scaled."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.scaled()
        self._latest: dict[str, Incident] = {}
        self._incidents: dict[tuple[str, float], Incident] = {}
        self._mailbox = Mailbox(self._settings.notify.owners, settings.time_scale)
        self._jobs: set[str] = set()
        self._judged: set[str] = set()
        self._firing: Counter[str] = Counter()
        self._excluded: defaultdict[str, set[str]] = defaultdict(set)
        self._silent: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def take(self, evidence: Evidence, at: float) -> None:
        """Judge all that was known at an instant, and fold it into the incidents."""
        policies = PoliciesInForce(self._settings, at)
        seen = set()
        for item in policies.prepared(evidence).jobs:
            given = policies.applied(judge(item, self._settings.judging))
            self._count(given)
            self._fold(given, policies)
            seen.add(item.job.id)
        for subject, incident in list(self._latest.items()):
            if incident.state.active and subject not in seen:
                kept = policies.sustained(incident)
                lost = lose(kept, self._settings.judging, now=at, time_scale=self._settings.time_scale).incident
                self._keep(lost or kept)
        self._mailbox.consider(self._latest.values(), at)

    def result(self) -> Result:
        """What came of it."""
        # The first of each: of one that became critical later there is another.
        mails = {(mail.subject, mail.opened_at): mail for mail in reversed(self._mailbox.mails)}
        found = [Found(incident, mails.get(key)) for key, incident in self._incidents.items()]
        return Result(
            found=tuple(sorted(found, key=_most_wasted)),
            mails=tuple(self._mailbox.mails),
            jobs=len(self._jobs),
            judged=len(self._judged),
            firing=dict(sorted(self._firing.items())),
            excluded={name: len(jobs) for name, jobs in sorted(self._excluded.items())},
            not_evaluable=tuple(
                NotEvaluable(rule, reason, len(jobs)) for (rule, reason), jobs in sorted(self._silent.items())
            ),
        )

    def _count(self, given: Applied) -> None:
        job = given.judgement.evidence.job.id
        self._jobs.add(job)
        if given.judgement.evidence.ended is not None:
            return
        if given.judgement.informed:
            self._judged.add(job)
        for policy in given.excluded.values():
            self._excluded[policy.name].add(job)
        for verdict in given.judgement.verdicts:
            if verdict.outcome is Outcome.FIRING:
                self._firing[verdict.rule] += 1
            elif verdict.outcome is Outcome.NOT_EVALUABLE:
                self._silent[verdict.rule, verdict.reason].add(job)

    def _fold(self, given: Applied, policies: PoliciesInForce) -> None:
        evidence = given.judgement.evidence
        subject = evidence.job.id
        before = self._latest.get(subject)
        if before is not None:
            before = policies.sustained(before, evidence.job.nodes)
        step = advance(before, given.judgement, self._settings.judging, time_scale=self._settings.time_scale)
        if step.incident is None:
            return
        self._keep(step.incident)

    def _keep(self, incident: Incident) -> None:
        self._latest[incident.subject] = incident
        self._incidents[incident.subject, incident.opened_at] = incident
        self._mailbox.keep(incident)


def _most_wasted(found: Found) -> tuple[float, float, str]:
    return -found.incident.wasted, found.incident.started_at, found.incident.subject
