"""Who was troubled for nothing, and who was told what had to be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.scoring import figures, rows, score, tables
from benchmarks.box.scoring.ratios import Share
from tests.benchmarks.box.scored import HOUR, condition, incident, job, message, observed, scenario, truth


@pytest.mark.parametrize(
    ("to", "owner"),
    [("ada@example.org", True), ("ada", True), ("@ada", True), ("ops@example.org", False), ("adam@example.org", False)],
)
def test_a_mail_about_a_healthy_job_is_its_owners_or_somebody_elses(to: str, owner: bool) -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one)}, observed([], [message(one, to)]))
    assert [mail.owner for mail in found.mails] == [owner]
    assert sum(healthy.gpu_hours for healthy in found.healthy) == 16


def test_a_mail_about_a_job_with_any_condition_is_not_false() -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one, condition(must=False))}, observed([], [message(one)]))
    assert not found.mails
    assert not found.healthy


def test_a_user_who_is_told_of_somebody_elses_job_is_troubled_for_nothing() -> None:
    one, other = job(), job(2, user="bob", gpus=(("n0", 2),))
    truths = {1: truth(one, condition()), 2: truth(other, condition())}
    found = score(scenario([one, other]), truths, observed([], [message(one, "bob@example.org"), message(one)]))
    assert [(mail.case.job, mail.to, mail.owner) for mail in found.mails] == [(1, "bob@example.org", True)]
    assert [(mail.case.job, mail.worth) for mail in found.owner_mails] == [(1, "must")]


def test_a_mail_to_a_user_that_speaks_of_no_job_is_false() -> None:
    one = job()
    empty = replace(message(one), workloads=())
    found = score(scenario([one]), {1: truth(one, condition())}, observed([], [empty]))
    assert [(mail.case.mechanism, mail.owner) for mail in found.mails] == [("no job of the run", True)]
    to_operators = replace(empty, to="gpus@example.org")
    assert not score(scenario([one]), {1: truth(one)}, observed([], [to_operators])).mails


@pytest.mark.parametrize(
    ("partition", "hours"), [("batch", 2 * (8 - 25 / 60)), ("interactive", 2 * (8 - 1.5)), ("serving", 0.0)]
)
def test_healthy_hours_count_from_when_something_can_be_told_on(partition: str, hours: float) -> None:
    one = job(partition=partition)
    assert figures.watched_hours(score(scenario([one]), {1: truth(one)}, observed())) == pytest.approx(hours)


def test_mails_are_counted_beside_what_their_jobs_lost_without_any_rule() -> None:
    lossy, well, fine = (job(number, gpus=((f"m{number}", 0),)) for number in (1, 2, 3))
    truths = {
        1: replace(truth(lossy, condition()), wasted=4 * HOUR),
        2: replace(truth(well, condition(must=False)), wasted=0.5 * HOUR),
        3: truth(fine, condition()),
    }
    seen = [incident(2 * HOUR, job=one, rule="stalled", id=one.number) for one in (lossy, well, fine)]
    mails = [message(lossy), message(well), message(well, at=3 * HOUR), message(fine)]
    found = score(scenario([lossy, well, fine]), truths, observed(seen, mails))
    # Of the last one no ledger was kept.
    assert figures.mails_of_well(found) == Share(2, 3)
    (listed,) = (table for table in tables(found) if table.title.startswith("Jobs that lost less than 10% to waits"))
    assert [line[1:] for line in listed.rows] == [(2, "training", "", "6.2%", "may", "stalled", 2)]


def test_of_no_mail_about_a_healthy_job_the_row_says_how_many_there_may_be() -> None:
    one = job()
    (row,) = (
        row
        for row in rows(score(scenario([one]), {1: truth(one)}, observed()), "theirs.toml")
        if "mails to owners" in row.what
    )
    assert "0 of 0, or 0.00 for 1,000 of 15 GPU-hours in which a healthy job can be told of (at most 197" in row.figure
