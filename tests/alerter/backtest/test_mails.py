"""When a user would have been mailed: on both sides of the cost, of the week, and of what they are to hear."""

from dataclasses import replace

import pytest

from dutycycle_alerter.backtest.mails import Mailbox
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident, OpenRule, Resolution, Severity, State
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings.notify import Owners
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import LATER, SETTINGS, evidence

HOUR, DAY = 3600.0, 86400.0


def incident(
    rule: str = "underused", level: Attention = Attention.WARNING, *, hours: float = 0.0, **fields: object
) -> Incident:
    """An incident of alice, of the last day before `LATER`."""
    found = advance(None, judge(evidence([0.2]), SETTINGS), SETTINGS).incident
    assert found is not None
    rules = (OpenRule(rule, LATER, Severity.WARNING, level),)
    values = {"rule": rule, "rules": rules, "wasted": hours * HOUR, "started_at": LATER - DAY} | fields
    return replace(found, **values)  # type: ignore[arg-type]


def mailed(hours: float, level: Attention, rule: str = "underused", **fields: object) -> bool:
    box, item = Mailbox(Owners(), 1), incident(rule, level, hours=hours, **fields)
    box.keep(item)
    box.consider([item], LATER)
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


@pytest.mark.parametrize(("days", "is_mailed"), [(6.0, True), (6.03, True), (6.05, False), (7.0, False)])
def test_what_was_wasted_a_week_ago_no_longer_counts(days: float, *, is_mailed: bool) -> None:
    """Of an incident that began before, the part since then does, as if it had been wasted evenly."""
    over = incident(hours=25, state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=LATER)
    box, new = Mailbox(Owners(), 1), incident(opened_at=LATER + days * DAY, started_at=LATER + days * DAY)
    box.keep(over)
    box.keep(new)
    box.consider([over, new], LATER + days * DAY)
    assert bool(box.mails) is is_mailed


def test_of_what_began_two_weeks_ago_half_counts() -> None:
    assert not mailed(47.9, Attention.WARNING, started_at=LATER - 14 * DAY)
    assert mailed(48.1, Attention.WARNING, started_at=LATER - 14 * DAY)


def test_what_several_incidents_of_a_user_wasted_adds_up() -> None:
    box = Mailbox(Owners(), 1)
    items = [incident(hours=13, subject=f"slurm/{n}") for n in range(2)]
    for item in items:
        box.keep(item)
    box.consider(items, LATER)
    assert [mail.subject for mail in box.mails] == ["slurm/0", "slurm/1"]


def test_of_what_became_critical_since_there_is_one_mail_more() -> None:
    box, item = Mailbox(Owners(), 1), incident(hours=25)
    box.keep(item)
    box.consider([item], LATER)
    for level, mails in ((Attention.WARNING, 1), (Attention.CRITICAL, 2), (Attention.CRITICAL, 2)):
        rules = (OpenRule("hung", LATER, Severity.CRITICAL, level), *item.rules)
        box.consider([replace(item, rules=rules, severity=Severity.CRITICAL)], LATER + HOUR)
        assert len(box.mails) == mails
    assert [(mail.rule, mail.cost) for mail in box.mails] == [("underused", True), ("hung", False)]


def test_what_became_critical_for_the_user_alone_counts_and_what_did_for_operators_alone_does_not() -> None:
    box, item = Mailbox(Owners(), 1), incident("idle", hours=25)
    box.keep(item)
    box.consider([item], LATER)
    for told, severity, mails in (
        (Attention.WARNING, Severity.CRITICAL, 1),
        (Attention.CRITICAL, Severity.WARNING, 2),
        (Attention.CRITICAL, Severity.CRITICAL, 2),
    ):
        box.consider([replace(item, rules=(OpenRule("idle", LATER, severity, told),), severity=severity)], LATER + HOUR)
        assert len(box.mails) == mails


def test_the_user_who_is_known_late_has_a_mail_and_the_waste() -> None:
    box, item = Mailbox(Owners(), 1), incident(hours=25, user="team-a")
    for one in (item, replace(item, user="alice")):
        box.keep(one)
        box.consider([one], LATER)
    other = incident(hours=0, subject="slurm/2", user="team-a")
    box.keep(other)
    box.consider([other], LATER)
    assert [(mail.user, mail.subject) for mail in box.mails] == [("team-a", item.subject), ("alice", item.subject)]


def test_nobody_is_mailed_of_what_is_over_or_has_no_user() -> None:
    assert not mailed(25, Attention.WARNING, state=State.RESOLVED)
    assert not mailed(25, Attention.WARNING, user="")


def test_an_incident_is_mailed_once_and_a_reopened_one_not_again() -> None:
    box = Mailbox(Owners(), 1)
    first = incident("idle", Attention.CRITICAL)
    for at in (LATER, LATER + HOUR):
        box.consider([replace(first, reopened=1)], at)
    box.consider([replace(first, opened_at=LATER + DAY)], LATER + DAY)
    assert [mail.at for mail in box.mails] == [LATER, LATER + DAY]


def test_the_site_says_what_it_costs_and_what_is_told_at_once() -> None:
    owners = Owners(wasted_gpu_hours=1, at_once=("underused",))
    for hours, level, cost in ((1.5, Attention.WARNING, True), (0, Attention.CRITICAL, False)):
        box, item = Mailbox(owners, 1), incident(level=level, hours=hours)
        box.keep(item)
        box.consider([item], LATER)
        assert [mail.cost for mail in box.mails] == [cost]


def test_the_time_scale_divides_the_cost() -> None:
    box, item = Mailbox(Owners(), 60), incident(hours=24.1 / 60)
    box.keep(item)
    box.consider([item], LATER)
    assert len(box.mails) == 1
