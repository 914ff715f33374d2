"""The rules over recorded jobs: each is judged whenever the alerter would have judged it, and its incident kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.recordings.tracks import Tracks
from dutycycle_alerter.rules import Judgement, Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.recording import RecordedJob, recorded_jobs
from dutycycle_alerter.views import NotEvaluable

Progress = Callable[[int, int], None]
"""Told how many passes are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rules say. `findings` are incidents, most wasted first, all of them resolved.

    `judged` jobs lived long enough, and were measured well enough, for at least one rule to speak. `not_evaluable` are
    rules for which jobs have no evidence.
    """

    findings: tuple[Incident, ...]
    judged: int
    not_evaluable: tuple[NotEvaluable, ...]


def judge_jobs(recording: Recording, found: Tracks, settings: Settings, progress: Progress) -> Verdicts:
    """Go through the life of every job. `settings` are scaled: wall seconds."""
    lives = [
        _Life(job, job.passes(settings.schedule.pass_interval), settings)
        for job in recorded_jobs(recording, found, settings)
    ]
    total, done = sum(len(life.passes) for life in lives), 0
    for life in lives:
        life.live()
        done += len(life.passes)
        progress(done, total)
    findings = [finding for life in lives for finding in life.incidents.values()]
    silent = Counter(reason for life in lives for reason in life.silent)
    return Verdicts(
        findings=tuple(sorted(findings, key=lambda f: (-f.wasted, f.started_at, f.subject))),
        judged=sum(life.judged for life in lives),
        not_evaluable=tuple(NotEvaluable(rule, reason, jobs) for (rule, reason), jobs in sorted(silent.items())),
    )


class _Life:
    """One job from its first pass to its end."""

    def __init__(self, job: RecordedJob, passes: list[float], settings: Settings) -> None:
        self._job = job
        self._settings = settings
        self._latest: Incident | None = None
        self.passes = passes
        self.incidents: dict[float, Incident] = {}
        self.silent: set[tuple[str, str]] = set()
        self.judged = False

    def live(self) -> None:
        before = self._job.start
        for at in self.passes:
            judgement = self._judge(at, before)
            self.judged = self.judged or judgement.informed
            self.silent |= {(v.rule, v.reason) for v in judgement.verdicts if v.outcome is Outcome.NOT_EVALUABLE}
            before = at
        if self._open:
            self._judge(self._job.end, before, ended=True)

    @property
    def _open(self) -> bool:
        return self._latest is not None and self._latest.state.active

    def _judge(self, at: float, before: float, *, ended: bool = False) -> Judgement:
        # Only an open incident asks what was consumed since the pass before.
        evidence = self._job.evidence(at, since=before if self._open else None, ended=ended)
        policies = PoliciesInForce(self._settings, at)
        (prepared,) = policies.prepared(Evidence([evidence])).jobs
        judgement = policies.applied(judge(prepared, self._settings.judging)).judgement
        step = advance(self._latest, judgement, self._settings.judging, time_scale=self._settings.time_scale)
        self._latest = step.incident
        if step.incident is not None:
            self.incidents[step.incident.opened_at] = step.incident
        return judgement
