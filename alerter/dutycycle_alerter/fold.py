"""A pass's judgements folded into the incidents of the store, within the pass's transaction."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from dutycycle_alerter.incidents.closing import close, close_former_run, is_of_former_run, lacks_final
from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Event, Incident, Step
from dutycycle_alerter.incidents.open_rules import may_join
from dutycycle_alerter.incidents.reporting import KIND as REPORT
from dutycycle_alerter.incidents.reporting import file_report
from dutycycle_alerter.incidents.unknown import Pauses
from dutycycle_alerter.isolation import Doing, Failures
from dutycycle_alerter.model import Job, JobEvidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules import Judgement
from dutycycle_alerter.rules.report import Final, report, windows_of_a_life
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.slurm.facts import CLOCKS_APART
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.types import storable_name
from dutycycle_alerter.workloads import Word

log = logging.getLogger(__name__)

JOBS = "efficiency"
_PASSES_FOR_FIGURES = 3
"""Passes for which a report waits for accounting: slurmdbd learns of an end some seconds after it."""

_LEAST_APART = 2.0
"""Seconds by which clocks may differ at any time scale: some of the starts that are told are whole seconds."""


Change = tuple[Incident | None, Step]
"""An incident as the store has it (None: there is none), and what is to become of it."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass is about: its instant, what the schedulers said, the policies of that instant, what failed, and
    when no passes were made of late.
    """

    now: float
    word: Word
    policies: PoliciesInForce
    failures: Failures = field(default_factory=Failures)
    pauses: Pauses = ()


def fold_jobs(connection: sa.Connection, one: Pass, judgements: Sequence[Judgement]) -> None:
    """Every job's judgement into its incident, and what became of incidents whose jobs no source shows any more."""
    latest = incidents.latest(connection, [judgement.evidence.job.id for judgement in judgements])
    left_at = _left_at(connection, latest, judgements, until=one.now)
    steps: list[Change] = []
    for judgement in judgements:
        job = judgement.evidence.job
        with one.failures.of(Doing.INCIDENT, job.id):
            steps += _of_job(one, judgement, latest.get(job.id), left_at)
    # Of those that failed before they could be folded, a source has shown the job all the same.
    shown = {judgement.evidence.job.id for judgement in judgements} | one.failures.subjects
    known = {storable_name(job) for job in shown}
    for orphan in incidents.active(connection, JOBS, to_write=True):
        if orphan.subject not in known:
            with one.failures.of(Doing.INCIDENT, orphan.subject):
                steps.append((orphan, _unseen(one, orphan)))
    save_steps(connection, steps)


def _left_at(
    connection: sa.Connection, latest: Mapping[str, Incident], judgements: Iterable[Judgement], *, until: float
) -> dict[int, float]:
    """When a rule last left an incident, by its number: of those that another may join in this pass, which are few."""
    found = ((latest.get(judgement.evidence.job.id), judgement) for judgement in judgements)
    joinable = (before for before, judgement in found if before is not None and may_join(before, judgement))
    return incidents.last_left(connection, [before.id for before in joinable if before.state.active], until=until)


def _of_job(one: Pass, judgement: Judgement, before: Incident | None, left_at: Mapping[int, float]) -> list[Change]:
    settings = one.policies.settings
    scale, job, steps = settings.time_scale, judgement.evidence.job, []
    if before is not None and is_of_former_run(before, job, apart=max(_LEAST_APART, CLOCKS_APART / scale)):
        closed = close_former_run(before, job, one.word.end(before), now=one.now, time_scale=scale)
        steps.append((before, closed))
        before = None
    if before is None:
        return [*steps, (None, advance(None, judgement, settings.judging, time_scale=scale))]
    sustained, left = one.policies.sustained(before, job.nodes), left_at.get(before.id, float("-inf"))
    after = advance(sustained, judgement, settings.judging, left_at=left, pauses=one.pauses, time_scale=scale)
    return [*steps, (before, after)]


def _unseen(one: Pass, orphan: Incident) -> Step:
    settings, end = one.policies.settings, one.word.end(orphan)
    if end is not None:
        return close(orphan, end, now=one.now, time_scale=settings.time_scale)
    kept, scale = one.policies.sustained(orphan), settings.time_scale
    return lose(kept, settings.judging, now=one.now, pauses=one.pauses, time_scale=scale)


def fold_ends(connection: sa.Connection, one: Pass, resolved: Iterable[Incident]) -> None:
    """Final figures for incidents whose job has ended, as far as accounting has them by now."""
    steps: list[Change] = []
    for known in resolved:
        incident = incidents.get(connection, known.id, to_write=True)
        if incident is not None and lacks_final(incident):
            with one.failures.of(Doing.INCIDENT, incident.subject):
                end = one.word.end(incident)
                if end is not None and end.figures is not None:
                    scale = one.policies.settings.time_scale
                    steps.append((incident, close(incident, end, now=one.now, time_scale=scale)))
    save_steps(connection, steps)


class Reports:
    """What jobs leave behind when they end. A job's report waits for the figures of accounting, for some passes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waits = _PASSES_FOR_FIGURES if settings.slurm is not None and settings.slurm.accounting else 0
        self._state = _Reported()
        self._next = self._state

    def jobs(self) -> Collection[Job]:
        """Those that have ended and whose figures are waited for."""
        return [evidence.job for evidence, _ in self._state.waiting.values()]

    def fold(self, connection: sa.Connection, one: Pass, evidence: Sequence[JobEvidence]) -> None:
        """File what can be filed now; what waits on is decided when the pass is `committed`."""
        ended = {item.job.id: item for item in evidence if item.ended is not None}
        # A source may show a job for some passes after its end.
        done = {job: start for job, start in self._state.done.items() if job in ended and ended[job].job.start == start}
        fresh = {job: (item, self._waiting_of(item.job)) for job, item in ended.items() if job not in done}
        due = {**fresh, **self._state.waiting}
        latest = incidents.latest(connection, list(due), REPORT) if due else {}
        waiting: dict[str, tuple[JobEvidence, int]] = {}
        steps: list[Change] = []
        for job, (item, left) in due.items():
            # Also where it fails: the life of a job that has ended stays what it was.
            done[job] = item.job.start
            with one.failures.of(Doing.REPORT, job):
                final = one.word.final(item.job)
                if final is None and left > 0:
                    waiting[job] = (_kept(item, self._settings) if job in fresh else item), left - 1
                    del done[job]
                else:
                    steps.append((latest.get(job), self._filed(one, item, latest.get(job), final)))
        save_steps(connection, steps)
        self._next = _Reported(waiting, done)

    def committed(self) -> None:
        """The pass is in the store."""
        self._state = self._next

    def _waiting_of(self, job: Job) -> int:
        """Passes for which the job's report waits: Slurm alone has accounts."""
        return self._waits if job.scheduler == "slurm" else 0

    def _filed(self, one: Pass, item: JobEvidence, latest: Incident | None, final: Final | None) -> Step:
        judging, scale = self._settings.judging, self._settings.time_scale
        applied = one.policies.applied(Judgement(item, report(item, judging, final)))
        return file_report(latest, item, applied.judgement.verdicts, judging, time_scale=scale)


def _kept(item: JobEvidence, settings: Settings) -> JobEvidence:
    """The same with the few windows that its report needs: those of a source hold what it knows of every job."""
    windows = {length: item.window(length) for length in windows_of_a_life(item, settings.judging)}
    return replace(item, window=windows.__getitem__)


@dataclass(frozen=True, slots=True)
class _Reported:
    """Jobs whose report waits, with how many passes more, and those whose report is filed, with their start."""

    waiting: Mapping[str, tuple[JobEvidence, int]] = field(default_factory=dict)
    done: Mapping[str, float] = field(default_factory=dict)


def save_steps(connection: sa.Connection, steps: Iterable[Change]) -> None:
    """Write what steps changed, all at once, and log their events."""
    changed = [(before, step) for before, step in steps if step.incident != before or step.events]
    if not changed:
        return
    for incident, (_, step) in zip(incidents.save_all(connection, changed), changed, strict=True):
        if incident is not None:
            _log(incident, step.events)


def _log(incident: Incident, events: Iterable[Event]) -> None:
    for event in events:
        # Ids and fixed words only: names of jobs and people are somebody else's text.
        log.info("incident %d (%s): %s", incident.id, incident.rule, event.kind.value)
