"""Who was troubled for nothing, and who was told what had to be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.scoring import figures, score
from tests.benchmarks.box.scored import condition, job, message, observed, scenario, truth


@pytest.mark.parametrize(
    ("to", "owner"),
    [("ada@example.org", True), ("ada", True), ("@ada", True), ("ops@example.org", False), ("adam@example.org", False)],
)
def test_a_mail_about_a_healthy_job_is_its_owners_or_somebody_elses(to: str, owner: bool) -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one)}, observed([], [message(one, to)]))
    assert [mail.owner for mail in found.mails] == [owner]
    assert figures.healthy_hours(found) == 16


def test_a_mail_about_a_job_with_any_condition_is_not_false() -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one, condition(must=False))}, observed([], [message(one)]))
    assert not found.mails
    assert figures.healthy_hours(found) == 0


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
