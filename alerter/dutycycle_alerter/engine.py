"""One pass: read the evidence, judge every job, fold the verdicts into incidents, write all of it in one
transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Event, Incident
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.rules import Judgement, Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store import incidents, ledger
from dutycycle_alerter.store.database import Database, set_meta
from dutycycle_alerter.store.status import WATERMARK, save_status
from dutycycle_alerter.views import NotEvaluable, Status, TargetStatus

log = logging.getLogger(__name__)


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

    `reached` is told each of `STEPS`: a test that kills the process there sees whether anything is lost.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source,
        database: Database,
        clock: Callable[[], float],
        *,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._source = source
        self._database = database
        self._clock = clock
        self._reached = reached

    def run_pass(self) -> None:
        """Judge everything once. Nothing is changed unless all of it is. Raises StoreError."""
        now = self._clock()
        self._reached("begun")
        with self._source.evidence(now) as evidence:
            self._reached("read")
            judgements = [judge(item, self._settings.judging) for item in evidence.jobs]
            status = self._status(now, judgements)
            self._reached("judged")
            with self._database.write() as connection:
                self._reached("opened")
                self._fold(connection, judgements, now)
                self._reached("folded")
                used = [(item.job, part) for item in evidence.jobs for part in item.recent]
                ledger.add(connection, now, used, hour=ledger.HOUR / self._settings.time_scale)
                set_meta(connection, WATERMARK, now)
                self._reached("accounted")
                save_status(connection, status, stale_after=3 * self._settings.source.interval)
                self._reached("written")
            self._reached("committed")
        self._reached("done")

    def _fold(self, connection: sa.Connection, judgements: list[Judgement], now: float) -> None:
        judging, scale = self._settings.judging, self._settings.time_scale
        latest = incidents.latest(connection, [judgement.evidence.job.id for judgement in judgements])
        for judgement in judgements:
            before = latest.get(judgement.evidence.job.id)
            step = advance(before, judgement, judging, time_scale=scale)
            if step.incident != before or step.events:
                _report(incidents.save(connection, before, step), step.events)
        known = {judgement.evidence.job.id for judgement in judgements}
        for orphan in incidents.active(connection):
            if orphan.subject not in known:
                step = lose(orphan, judging, now=now, time_scale=scale)
                if step.events:
                    _report(incidents.save(connection, orphan, step), step.events)

    def _status(self, now: float, judgements: list[Judgement]) -> Status:
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
            targets=self._source.targets(),
            not_evaluable=_not_evaluable(alive),
        )


def _not_evaluable(judgements: Iterable[Judgement]) -> tuple[NotEvaluable, ...]:
    counted = Counter(
        (verdict.rule, verdict.reason)
        for judgement in judgements
        for verdict in judgement.verdicts
        if verdict.outcome is Outcome.NOT_EVALUABLE
    )
    return tuple(NotEvaluable(rule, reason, jobs) for (rule, reason), jobs in sorted(counted.items()))


def _report(incident: Incident | None, events: Iterable[Event]) -> None:
    if incident is None:
        return
    for event in events:
        # Ids and fixed words only: names of jobs and people are somebody else's text.
        log.info("incident %d (%s): %s", incident.id, incident.rule, event.kind.value)
