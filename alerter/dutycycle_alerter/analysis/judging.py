"""The rules over recorded jobs: each is judged whenever the alerter would have judged it, and its incident kept."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from dutycycle_alerter.analysis.workers import cores, in_workers
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, JobKind
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.recordings.tracks import Tracks
from dutycycle_alerter.rules import Judgement, Outcome, Verdict, judge
from dutycycle_alerter.settings import Rules, Settings
from dutycycle_alerter.sources.recording import JobBuilder, RecordedJob, job_builders
from dutycycle_alerter.views import NotEvaluable

_ROWS_FOR_WORKERS = 500_000
"""A recording with fewer rows is judged in this process: it takes seconds."""

Progress = Callable[[int, int], None]
"""Called with the rows whose time has been judged, and the rows there are."""


@dataclass(frozen=True, slots=True)
class TooShort:
    """Rules with the same window that never looked at some jobs, as there is too little of these. In wall seconds.

    They need from `least` to `most` of a job: its grace, and then the window. `grace` is None where the jobs' differ,
    or something else comes before it. There are at most `longest`.
    """

    rules: tuple[str, ...]
    jobs: int
    window: float
    grace: float | None
    least: float
    most: float
    longest: float


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rules say. `findings` are incidents, most wasted first, all of them resolved.

    `judged` jobs lived long enough, and were measured well enough, for at least one rule to speak; `partly` of them
    were too short for another. `not_evaluable` are rules for which jobs have no evidence.
    """

    findings: tuple[Incident, ...]
    judged: int
    not_evaluable: tuple[NotEvaluable, ...]
    partly: int = 0
    too_short: tuple[TooShort, ...] = ()


def judge_jobs(recording: Recording, found: Tracks, settings: Settings, progress: Progress) -> Verdicts:
    """Go through the life of every job. `settings` are scaled: wall seconds."""
    total = sum(len(track.rows) for track in found.tracks)
    builders = job_builders(recording, found, settings)
    workers = min(cores(), len(builders)) if total >= _ROWS_FOR_WORKERS else 1
    living: Iterator[tuple[_Life, float]] = _lives(builders, settings)
    if workers > 1:
        living = ((life, 1.0) for life in in_workers(partial(_whole_life, settings), builders, workers))
    lives, done = [], 0
    for life, share in living:
        progress(done + round(share * life.rows), total)
        if share == 1:
            done += life.rows
            lives.append(life)
    progress(total, total)
    findings = [finding for life in lives for finding in life.incidents.values()]
    silent = Counter(reason for life in lives for reason in life.silent)
    return Verdicts(
        findings=tuple(sorted(findings, key=lambda f: (-f.wasted, f.started_at, f.subject))),
        judged=sum(life.judged for life in lives),
        not_evaluable=tuple(NotEvaluable(rule, reason, jobs) for (rule, reason), jobs in sorted(silent.items())),
        partly=sum(life.judged and bool(life.waiting) for life in lives),
        too_short=tuple(_too_short(lives)),
    )


def _lives(builders: Iterable[JobBuilder], settings: Settings) -> Iterator[tuple[_Life, float]]:
    """Yield each job's life and the share of it that is judged: after each pass, and 1 at its end."""
    for build in builders:
        job = build()
        life = _Life(job, settings)
        for share in life.live(job):
            if share < 1:
                yield life, share
        yield life, 1.0


def _whole_life(settings: Settings, build: JobBuilder) -> _Life:
    *_, (life, _) = _lives([build], settings)
    return life


def _too_short(lives: list[_Life]) -> Iterator[TooShort]:
    """By window, the shortest first."""
    waiting: defaultdict[float, list[tuple[_Life, Verdict]]] = defaultdict(list)
    for life in lives:
        for verdict in life.waiting:
            waiting[verdict.window].append((life, verdict))
    for window, found in sorted(waiting.items()):
        rules = {verdict.rule for _, verdict in found}
        needed = [life.needed(verdict) for life, verdict in found]
        graces = {life.grace(verdict) for life, verdict in found}
        yield TooShort(
            rules=tuple(rule for rule in Rules.ORDER if rule in rules),
            jobs=len({id(life) for life, _ in found}),
            window=window,
            grace=graces.pop() if len(graces) == 1 else None,
            least=min(needed),
            most=max(needed),
            longest=max(life.length for life, _ in found),
        )


class _Life:
    """One job from its first pass to its end."""

    def __init__(self, job: RecordedJob, settings: Settings) -> None:
        self._start = job.start
        self._kind = job.job.kind
        self._settings = settings
        self._latest: Incident | None = None
        self.incidents: dict[float, Incident] = {}
        self.silent: set[tuple[str, str]] = set()
        self.judged = False
        self.length = job.end - job.start
        self.rows = job.rows
        self.waiting: list[Verdict] = []
        """Of the rules that waited to the end, for the first time that they could look."""

    def needed(self, waiting: Verdict) -> float:
        """How much of the job a rule that waits needs before it can look."""
        return (waiting.until or 0.0) - self._start

    def grace(self, waiting: Verdict) -> float | None:
        """The part of it that is grace; None where that is not all that comes before the window."""
        settings = self._settings.judging.grace
        grace = settings.interactive if self._kind is JobKind.INTERACTIVE else settings.batch
        return grace if math.isclose(self.needed(waiting), grace + waiting.window, abs_tol=1e-3) else None

    def live(self, job: RecordedJob) -> Iterator[float]:
        """Judge the job at each pass. Yield the share of its life that is judged."""
        before = job.start
        looked: set[str] = set()
        for at in job.passes(self._settings.schedule.pass_interval):
            judgement = self._judge(job, at, before)
            self.judged = self.judged or judgement.informed
            idle = (Outcome.WAITING, Outcome.NOT_APPLICABLE)
            looked |= {verdict.rule for verdict in judgement.verdicts if verdict.outcome not in idle}
            self.waiting = [
                verdict
                for verdict in judgement.verdicts
                if verdict.outcome is Outcome.WAITING and verdict.rule not in looked
            ]
            self.silent |= {(v.rule, v.reason) for v in judgement.verdicts if v.outcome is Outcome.NOT_EVALUABLE}
            before = at
            yield (at - job.start) / self.length
        if self._open:
            self._judge(job, job.end, before, ended=True)

    @property
    def _open(self) -> bool:
        return self._latest is not None and self._latest.state.active

    def _judge(self, job: RecordedJob, at: float, before: float, *, ended: bool = False) -> Judgement:
        # Only an open incident asks what was consumed since the pass before.
        evidence = job.evidence(at, since=before if self._open else None, ended=ended)
        policies = PoliciesInForce(self._settings, at)
        (prepared,) = policies.prepared(Evidence([evidence])).jobs
        judgement = policies.applied(judge(prepared, self._settings.judging)).judgement
        step = advance(self._latest, judgement, self._settings.judging, time_scale=self._settings.time_scale)
        self._latest = step.incident
        if step.incident is not None:
            self.incidents[step.incident.opened_at] = step.incident
        return judgement
