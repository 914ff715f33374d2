"""What a job leaves behind: one entry of class `report`, opened and resolved at once, listed and never mailed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.model import (
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
    Step,
)
from dutycycle_alerter.incidents.opening import opened
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules.diagnosis import diagnose
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict
from dutycycle_alerter.settings import Judging

KIND = "report"


def file_report(
    latest: Incident | None,
    evidence: JobEvidence,
    verdicts: Sequence[Verdict],
    settings: Judging,
    *,
    time_scale: float = 1.0,
) -> Step:
    """The report of an ended job from what `rules.report` says of it; nothing where no rule fires.

    `latest` is the newest incident of class `report` of the job: one run of a job is reported once, however often its
    end is judged; a job that was requeued runs again. `rules` keeps all that fired, though the incident is resolved.
    """
    fired = [verdict for verdict in verdicts if verdict.outcome is Outcome.FIRING]
    ended = evidence.ended
    if not fired or ended is None or _is_of_this_run(latest, evidence):
        return Step(latest)
    primary, judgement = fired[0], Judgement(evidence, tuple(verdicts))
    diagnosis = diagnose(judgement, primary.rule, settings, time_scale=time_scale)
    rules = tuple(OpenRule(verdict.rule, ended, verdict.severity, verdict.told, verdict.silent) for verdict in fired)
    since = ended - primary.figures["watched_seconds"]
    incident = replace(
        opened(judgement, primary, diagnosis, rules, at=ended, since=since),
        kind=KIND,
        severity=Severity.INFO,
        state=State.RESOLVED,
        resolution=Resolution.ENDED,
        resolved_at=ended,
        figures={name: value for verdict in reversed(fired) for name, value in verdict.figures.items()},
    )
    text = f"{rule_name(primary.rule)}: {diagnosis.summary}"
    events = (
        Event(evidence.at, EventKind.OPENED, text, data={"rule": primary.rule, "severity": Severity.INFO.value}),
        Event(evidence.at, EventKind.RESOLVED, "the job ended", data={"resolution": Resolution.ENDED.value}),
    )
    return Step(incident, events)


def _is_of_this_run(latest: Incident | None, evidence: JobEvidence) -> bool:
    # By its end: the start that exporters see and the one that the scheduler tells are some seconds apart.
    return latest is not None and latest.resolved_at is not None and latest.resolved_at > evidence.job.start
