"""One pass: read the evidence, judge every job, fold the verdicts into incidents, write all of it in one
transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from dutycycle_alerter.device_pass import fold_devices, judge_devices
from dutycycle_alerter.elapsed import elapsed
from dutycycle_alerter.errors import LeaseLostError
from dutycycle_alerter.fleet_now import fleet_now
from dutycycle_alerter.fold import JOBS, Pass, Reports, fold_ends, fold_jobs
from dutycycle_alerter.fragmentation import accounted
from dutycycle_alerter.incidents.closing import lacks_final
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.isolation import Doing, Failures
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.policies import Applied, NoticeLog, PoliciesInForce, notices
from dutycycle_alerter.rules import Judgement, Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.source_log import SourceLog
from dutycycle_alerter.sources.claims import unclaimed
from dutycycle_alerter.store import expectations, fleet_ledger, incidents, ledger, owners, pauses
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.status import TOTAL, WATERMARK, save_status
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import NotEvaluable, Status, TargetStatus, WatchCounts
from dutycycle_alerter.workloads import Nobody, Workloads

FIGURES_WITHIN = 3600.0
"""Seconds after a job's end in which accounting is asked for its final figures."""

LONGEST_PAUSE = 3
"""Intervals of passes: of a longer pause between two, it is not known how many GPUs were allocated, and nobody looked
whether anything is lost.
"""


class Source(Protocol):
    """Where a pass gets its evidence from."""

    def evidence(self, at: float) -> AbstractContextManager[Evidence]:
        """All that is known; leaving the block without an error tells that the pass was committed."""
        ...

    def targets(self) -> tuple[TargetStatus, ...]:
        """The state of what is scraped."""
        ...

    def replaying(self) -> bool:
        """Whether the evidence is a recording's."""
        ...


STEPS = ("begun", "read", "judged", "opened", "folded", "accounted", "written", "committed", "done")
"""What a pass has reached, in order: evidence read, all of it judged, a transaction opened, incidents in it, the
ledger, the status, the transaction committed, the source told.
"""


class Engine:
    """Runs passes. `settings` are scaled (wall seconds); `clock` gives wall time.

    `workloads` are the schedulers. `announce` puts into the outbox what is to be told. `reached` is told each of
    `STEPS`: a test that kills the process there sees whether anything is lost.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source,
        database: Transactions,
        clock: Callable[[], float],
        *,
        workloads: Workloads | None = None,
        announce: Callable[[sa.Connection, float], None] = lambda *_: None,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._source = source
        self._database = database
        self._clock = clock
        self._workloads = workloads or Nobody()
        scraping = settings.source.interval if settings.prometheus is None else settings.prometheus.scrape_interval
        self._scrape_interval = scraping
        self._reports = Reports(settings)
        self._notices = NoticeLog()
        self._source_log = SourceLog()
        self._failures = Failures()
        self._announce = announce
        self._reached = reached

    def run_pass(self) -> None:
        """Judge everything once. Nothing is changed unless all of it is. Raises StoreError; LeaseLostError where the
        store is not as the pass before left it.
        """
        now = self._clock()
        self._failures.begin()
        self._reached("begun")
        active, ended = self._open_questions(now)
        word = self._workloads.ask(now, [*active, *ended], self._reports.jobs())
        with self._source.evidence(now) as read:
            self._reached("read")
            seen = word.completed(word.claimed(read))
            policies = PoliciesInForce(
                self._settings, now, word.declared(seen), cluster_of=word.cluster_of, partitions=word.partitions()
            )
            evidence = policies.prepared(seen)
            judged = self._judged(evidence)
            devices = judge_devices(evidence, self._settings.judging, self._failures)
            self._reached("judged")
            with self._database.write() as connection:
                self._reached("opened")
                _refuse_other_passes(connection, evidence.accounted_from)
                # Read here: what somebody says while a pass is judged must not open again in that pass.
                policies = policies.expecting(expectations.in_force(connection, now))
                applied = self._applied(policies, judged)
                judgements = [under.judgement for under in applied]
                told = notices(policies, applied)
                longest = LONGEST_PAUSE * self._settings.schedule.pass_interval
                one = Pass(now, word, policies, self._failures, pauses.noted(connection, now, longest=longest))
                fold_jobs(connection, one, judgements)
                fold_devices(connection, one, evidence, devices)
                fold_ends(connection, one, ended)
                self._reports.fold(connection, one, evidence.jobs)
                self._announce(connection, now)
                self._reached("folded")
                owners.save(connection, now, owners.resolved(seen.jobs))
                ledger.add(connection, now, accounted(evidence), hour=ledger.HOUR / self._settings.time_scale)
                fleet_ledger.add(
                    connection,
                    now,
                    fleet_now(
                        evidence,
                        cluster_of=word.cluster_of,
                        out_of_service=word.out_of_service(),
                        parts=word.fleet(),
                    ),
                    longest=longest,
                    hour=ledger.HOUR / self._settings.time_scale,
                )
                # An engine that is asked knows the newest samples a little later.
                set_meta(connection, WATERMARK, now if evidence.accounted_until is None else evidence.accounted_until)
                if evidence.accounted_total is not None:
                    set_meta(connection, TOTAL, evidence.accounted_total)
                self._reached("accounted")
                said = (*self._failures.notices(), *(notice.text for notice in told), *unclaimed(seen))
                status = self._status(now, judgements, (*self._source.targets(), *word.targets), said)
                save_status(connection, status, stale_after=3 * self._scrape_interval)
                self._reached("written")
            self._reached("committed")
            self._reports.committed()
        self._notices.tell(told)
        self._source_log.tell(status.targets, elapsed(), time_scale=self._settings.time_scale)
        self._reached("done")

    def watches(self) -> Mapping[str, WatchCounts]:
        """How the watches of the schedulers fare."""
        return self._workloads.watches()

    def failures(self) -> Mapping[str, int]:
        """How often something failed of one job, GPU or node alone, by step."""
        return self._failures.counts()

    def close(self) -> None:
        """Let go of the schedulers' connections."""
        self._workloads.close()

    def _judged(self, evidence: Evidence) -> list[Judgement]:
        judged: list[Judgement] = []
        for item in evidence.jobs:
            with self._failures.of(Doing.JUDGE, item.job.id):
                judged.append(judge(item, self._settings.judging))
        return judged

    def _applied(self, policies: PoliciesInForce, judged: Iterable[Judgement]) -> list[Applied]:
        applied: list[Applied] = []
        for judgement in judged:
            with self._failures.of(Doing.JUDGE, judgement.evidence.job.id):
                applied.append(policies.applied(judgement))
        return applied

    def _open_questions(self, now: float) -> tuple[list[Incident], list[Incident]]:
        """Incidents that a scheduler may know the end of: those that are active, and those lately ended without final
        figures.
        """
        since = now - FIGURES_WITHIN / self._settings.time_scale
        with self._database.read() as connection:
            lately = incidents.resolved_since(connection, JOBS, since)
            return incidents.active(connection, JOBS), [incident for incident in lately if lacks_final(incident)]

    def _status(
        self, now: float, judgements: list[Judgement], targets: tuple[TargetStatus, ...], said: tuple[str, ...]
    ) -> Status:
        alive = [judgement for judgement in judgements if judgement.evidence.ended is None]
        informed = sum(judgement.informed for judgement in alive)
        first = [j.first_verdict_at for j in alive if j.first_verdict_at is not None]
        return Status(
            now=now,
            time_scale=self._settings.time_scale,
            replay=self._source.replaying(),
            last_pass=now,
            first_verdict_at=min(first) if first and not informed else None,
            jobs_judged=informed,
            targets=targets,
            not_evaluable=_not_evaluable(alive),
            notices=said,
            lists_gpus=self._settings.prometheus is None,
        )


def _refuse_other_passes(connection: sa.Connection, accounted_from: float | None) -> None:
    """What the source counts must begin where the store's ledger ends.

    It does not where a commit whose answer was lost was one all the same, or where a server that took over lacks the
    last ones: then only who begins anew, from the store, counts every second once. A store that is new has counted
    nothing. Raises LeaseLostError.
    """
    kept = get_meta(connection, WATERMARK)
    if None not in (kept, accounted_from) and kept != accounted_from:
        raise LeaseLostError(
            "the store is not as the last pass left it, because a commit's answer or a commit itself was lost: "
            "evaluation starts again from what is there"
        )


def _not_evaluable(judgements: Iterable[Judgement]) -> tuple[NotEvaluable, ...]:
    counted = Counter(
        (verdict.rule, verdict.reason)
        for judgement in judgements
        for verdict in judgement.verdicts
        if verdict.outcome is Outcome.NOT_EVALUABLE
    )
    return tuple(NotEvaluable(rule, reason, jobs) for (rule, reason), jobs in sorted(counted.items()))
