"""What may be missing of a job is the time in which its exporter did not count, and an interval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import check, ledger
from benchmarks.chaos.promises.ledger import bounds
from benchmarks.chaos.promises.quiet import recovery
from benchmarks.chaos.record import Record

from .evidence import AWAY, BUSY, IDLE, KILLED, clean, violations


def least(record: Record) -> float:
    return bounds(record, record.jobs[1])[0]


def lost(record: Record) -> float:
    """Seconds for which a job of two GPUs may be missing on account of faults."""
    return (least(replace(record, faults=())) - least(record)) / 2


def test_the_downtime_ends_when_the_exporter_counts_again() -> None:
    assert lost(clean()) == pytest.approx(KILLED.ended + 2 - KILLED.began + 0.5)


def test_an_exporter_that_stays_blind_is_excused_for_no_longer_than_it_may_take_to_recover() -> None:
    record = clean()
    blind = tuple(replace(page, success=0.0) if page.at > KILLED.began else page for page in record.exporters)
    downtime = KILLED.ended + recovery(record) - KILLED.began
    assert lost(replace(record, exporters=blind)) == pytest.approx(downtime + record.interval)


def test_what_was_not_fetched_before_the_counters_were_lost_may_be_missing_too() -> None:
    record = clean()
    cut = Happened("prometheus-paused", "prometheus", 1190.0, 1205.0, blinds=frozenset({"*"}))
    assert lost(replace(record, faults=(cut, KILLED, AWAY))) == pytest.approx(lost(record) + 10)


def test_a_gpu_that_is_lost_as_its_job_begins_excuses_that_job_alone() -> None:
    record = clean()
    gone = Happened("gpu-lost", "n1", record.began, record.began + 10, blinds=frozenset({"GPU-1"}))
    for device, expected in (("GPU-1", 10 + recovery(record) + record.interval), ("GPU-2", 0.0)):
        job = replace(record.jobs[1], devices=frozenset({device}))
        assert lost(replace(record, jobs=(record.jobs[0], job), faults=(gone,))) == pytest.approx(expected)


def test_more_than_that_is_a_violation() -> None:
    record = clean()
    for missing, expected in ((1.0, ["the ledger is true"]), (-1.0, [])):
        found = violations(replace(record, ledger={**record.ledger, BUSY: least(record) - missing}))
        assert [one.promise for one in found if one.subject == BUSY and "ledger" in one.promise] == expected


def test_time_that_was_held_and_not_measured_is_a_violation() -> None:
    record = replace(clean(), measured={IDLE: (370.0, 0.0), BUSY: (0.0, 0.0)})
    assert [(one.promise, one.subject) for one in violations(record)] == [("measurements are true", BUSY)]


def test_two_faults_at_once_excuse_the_time_of_one() -> None:
    record = clean()
    beside = replace(KILLED, name="exporter-paused", began=KILLED.began + 1, ended=KILLED.ended - 1)
    assert lost(replace(record, faults=(*record.faults, beside))) == pytest.approx(lost(record) + record.interval)


def measured(record: Record, gpu_seconds: float) -> Record:
    """So much of the job that works, all of it as busy as it was."""
    return replace(record, measured={IDLE: (370.0, 0.0), BUSY: (gpu_seconds, 0.9 * gpu_seconds)})


def test_what_could_be_measured_is_what_was_in_sight_once() -> None:
    """Ten minutes of two GPUs without a killed exporter and a Prometheus that was away, which are not counted twice."""
    record = clean()
    away = sum(one.ended - one.began + recovery(record) + record.interval for one in (KILLED, AWAY))
    slack = 3 * record.interval + 2.0 + 2 * record.pass_interval + record.interval
    due = 0.9 * 2 * (600.0 - away - slack)
    for found, expected in ((due - 10.0, [BUSY]), (due + 10.0, [])):
        assert [one.subject for one in violations(measured(record, found))] == expected


def test_a_job_of_which_nothing_had_to_be_measured_puts_nothing_to_the_test() -> None:
    record = clean()
    hidden = Happened("exporter-cut", "n1", record.began, record.ended, blinds=frozenset({"n1"}))
    for one, expected in ((record, 5), (replace(record, measured=None), 0), (replace(record, faults=(hidden,)), 3)):
        assert len(check(one)[ledger.measurements_are_true].occasions) == expected


def test_what_prometheus_had_scraped_and_lost_may_be_missing() -> None:
    """It is killed, and what it had scraped before is not there any more, of any node."""
    there = (AWAY.began - 0.5, AWAY.ended + 3)
    gone = (AWAY.began - 40, AWAY.ended + 3)
    for scrapes, more in (
        ({"n1": there, "n2": there}, 0.0),
        ({"n1": gone, "n2": there}, 0.0),
        ({"n1": gone, "n2": gone}, AWAY.ended + recovery(clean()) - AWAY.began + clean().interval),
        ({"n1": (*gone, AWAY.began + 10), "n2": gone}, 0.0),  # it was not stopped
        ({"n1": gone[:1], "n2": gone[:1]}, 0.0),  # what a later fault made it lose had been counted
        ({}, 0.0),
    ):
        assert lost(replace(clean(), scrapes=scrapes)) == pytest.approx(lost(clean()) + more)
