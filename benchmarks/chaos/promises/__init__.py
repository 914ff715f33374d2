"""What Dutycycle promises (DESIGN, sections 5 and 6), each promise a function from a record to what violates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..record import Record
from . import (
    alerts,
    answers,
    devices,
    incidents,
    instances,
    ledger,
    notifications,
    repetition,
    store,
    takeover,
    telling,
    texts,
)
from .quiet import quiet
from .violation import Excused, Found, Judged, Violation

Promise = Callable[[Record], Iterator[Found]]

PROMISES: tuple[Promise, ...] = (
    incidents.no_incident_is_lost,
    incidents.no_incident_is_made_up,
    incidents.no_resolution_is_false,
    incidents.what_is_over_is_resolved,
    devices.device_incidents_are_true,
    devices.device_incidents_last_as_long,
    store.one_active_incident_each,
    store.what_was_seen_stays,
    store.history_is_appended_only,
    store.states_follow_each_other,
    store.only_the_leader_writes,
    store.what_was_stopped_is_not_committed,
    store.one_says_that_it_leads,
    takeover.another_takes_over,
    notifications.every_change_is_planned,
    notifications.every_notice_is_sent,
    notifications.what_is_sent_arrived,
    notifications.what_arrived_is_known,
    repetition.no_change_is_planned_twice,
    repetition.no_message_comes_twice,
    alerts.alertmanager_shows_what_is_active,
    answers.metrics_answer,
    answers.what_failed_is_never_zero,
    instances.instances_come_and_go,
    answers.liveness_asks_for_restarts_that_help,
    telling.what_is_away_is_told,
    answers.children_are_replaced,
    answers.everything_recovers,
    answers.nothing_ends_by_itself,
    ledger.ledger_is_true,
    ledger.measurements_are_true,
    texts.secrets_are_kept,
    texts.untrusted_text_does_nothing,
)


Verdicts = Mapping[Promise, Judged]


def check(record: Record) -> Verdicts:
    """Of each promise, how often it was put to the test and what violates it. A fault that did not take excuses
    nothing, and nobody has to tell of it.
    """
    record = _of_what_took(record)
    return {promise: Judged.of(promise(record)) for promise in PROMISES}


def clear_share(record: Record) -> float:
    """The part of the time of all jobs in which nothing was in the way of what a job's incidents have to tell: of the
    rest nothing is asked. 0 where there was no job.
    """
    record = _of_what_took(record)
    total = clear = 0.0
    for job in record.jobs:
        since, until = max(job.start, record.began), job.end or record.ended
        spans = quiet(record, lambda fault, job=job: incidents.hides(fault, job), since, until)  # type: ignore[misc]
        total += max(0.0, until - since)
        clear += sum(end - begin for begin, end in spans)
    return clear / total if total else 0.0


def _of_what_took(record: Record) -> Record:
    return replace(record, faults=tuple(one for one in record.faults if one.took is not False))


def violations(verdicts: Verdicts) -> list[Violation]:
    """All of them, oldest first."""
    found = [violation for each in verdicts.values() for violation in each.violations]
    return sorted(found, key=lambda one: (one.at, one.promise, one.subject))


__all__ = ["PROMISES", "Excused", "Judged", "Promise", "Verdicts", "Violation", "check", "clear_share", "violations"]
