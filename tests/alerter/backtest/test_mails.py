"""When a user would have been mailed: on both sides of the cost, of the week, and of what they are to hear."""

from dataclasses import replace

import pytest

from dutycycle_alerter.backtest.mails import Mailbox
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident, OpenRule, Severity, State
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import LATER, SETTINGS, evidence

HOUR, DAY = 3600.0, 86400.0


def incident(rule: str = "underused", level: Attention = Attention.WARNING, **fields: object) -> Incident:
    found = advance(None, judge(evidence([0.2]), SETTINGS), SETTINGS).incident
    assert found is not None
    rules = (OpenRule(rule, LATER, Severity.WARNING, level),)
    return replace(found, rule=rule, rules=rules, **fields)  # type: ignore[arg-type]


def mailed(hours: float, level: Attention, rule: str = "underused", *, after: float = 0.0, **fields: object) -> bool:
    box = Mailbox(1)
    box.waste("alice", LATER, hours * HOUR)
    box.consider(incident(rule, level, **fields), LATER + after)
    return bool(box.mails)


@pytest.mark.parametrize(
    ("hours", "level", "rule", "is_mailed"),
    [
        (24, Attention.WARNING, "underused", False),
        (24.001, Attention.WARNING, "underused", True),
        (24.001, Attention.CRITICAL, "underused", True),
        (24.001, Attention.INFO, "underused", False),
        (24.001, Attention.NONE, "underused", False),
        (0, Attention.CRITICAL, "underused", False),
        (0, Attention.CRITICAL, "idle", True),
        (0, Attention.CRITICAL, "hung", True),
        (0, Attention.WARNING, "idle", False),
    ],
)
def test_a_mail_is_due_by_cost_or_by_severity(hours: float, level: Attention, rule: str, *, is_mailed: bool) -> None:
    assert mailed(hours, level, rule) is is_mailed


def test_what_was_wasted_a_week_ago_no_longer_counts() -> None:
    assert mailed(25, Attention.WARNING, after=7 * DAY - 1)
    assert not mailed(25, Attention.WARNING, after=7 * DAY)


def test_nobody_is_mailed_of_what_is_over_or_has_no_user() -> None:
    assert not mailed(25, Attention.WARNING, state=State.RESOLVED)
    assert not mailed(25, Attention.WARNING, user="")
    assert not mailed(25, Attention.WARNING, user="bob")


def test_an_incident_is_mailed_once_and_a_reopened_one_not_again() -> None:
    box = Mailbox(1)
    first = incident("idle", Attention.CRITICAL)
    for at in (LATER, LATER + HOUR):
        box.consider(replace(first, reopened=1), at)
    box.consider(replace(first, opened_at=LATER + DAY), LATER + DAY)
    assert [mail.at for mail in box.mails] == [LATER, LATER + DAY]


def test_the_time_scale_divides_the_week_and_the_cost() -> None:
    box = Mailbox(60)
    box.waste("alice", LATER, 24 * HOUR / 60 + 1)
    box.consider(incident(), LATER + 7 * DAY / 60 - 1)
    assert len(box.mails) == 1
