"""Where the alerter that evaluates is gone for long enough, another one has to evaluate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Judged
from benchmarks.chaos.promises.bounds import taken_over_after
from benchmarks.chaos.promises.quiet import recovery
from benchmarks.chaos.promises.takeover import another_takes_over
from benchmarks.chaos.record import AlerterPage, Look, Record

from .evidence import clean

BEGAN, ENDED = 1300.0, 1320.0
KILLED = Happened(
    "leader-killed",
    "alerter a",
    BEGAN,
    ENDED,
    halts=frozenset({"evaluation", "a"}),
    silences=frozenset({"alerter-a"}),
)
DUE = BEGAN + taken_over_after(60.0)
BEFORE = Look(1299.0, (), "a#1", 1)
NEVER = replace(BEFORE, at=1319.0)
TAKEN = Look(1319.0, (), "b#2", 2)
FOLLOWS = AlerterPage("b", 1319.0, 0.1, 200, leads=False, epoch=1, store=True)


def judged(*faults: Happened, looks: tuple[Look, ...] = (BEFORE, NEVER), page: AlerterPage | None = None) -> Judged:
    record: Record = replace(clean(), faults=faults, looks=looks, alerters=() if page is None else (page,))
    return Judged.of(another_takes_over(record))


def test_a_follower_that_never_takes_the_lease_is_a_violation() -> None:
    for page in (None, FOLLOWS):
        found = judged(KILLED, page=page)
        assert [one.fault for one in found.occasions] == ["leader-killed"]
        assert [(one.promise, one.subject, one.at) for one in found.violations] == [
            ("another takes over", "alerter-a", DUE)
        ]


@pytest.mark.parametrize(
    ("looks", "page"),
    [
        ((BEFORE, TAKEN), None),
        ((BEFORE, TAKEN), FOLLOWS),
        # Who leads may have been mistaken as the fault began: the other one did already.
        ((BEFORE, NEVER), replace(FOLLOWS, leads=True)),
        ((), replace(FOLLOWS, leads=True)),
    ],
)
def test_one_that_has_the_lease_or_says_that_it_leads_has_taken_over(
    looks: tuple[Look, ...], page: AlerterPage | None
) -> None:
    found = judged(KILLED, looks=looks, page=page)
    assert [one.fault for one in found.occasions] == ["leader-killed"]
    assert found.violations == ()


def test_the_one_that_is_gone_does_not_take_over_from_itself() -> None:
    found = judged(KILLED, page=replace(FOLLOWS, replica="a", leads=True))
    assert [one.subject for one in found.violations] == ["alerter-a"]


@pytest.mark.parametrize(
    "fault",
    [
        replace(KILLED, halts=frozenset({"a"})),
        replace(KILLED, silences=frozenset()),
        replace(KILLED, silences=frozenset({"alerter-a", "alerter-b"})),
        replace(KILLED, ended=DUE - 1),
        # Its end took long: until that was set about nobody had to have taken over yet.
        replace(KILLED, stood=(BEGAN, DUE - 1)),
        # And so did its beginning.
        replace(KILLED, stood=(ENDED - 5, ENDED)),
    ],
)
def test_nobody_has_to_where_the_leader_is_not_gone_alone_or_not_for_long_enough(fault: Happened) -> None:
    assert judged(fault) == Judged((), ())


def test_nobody_has_to_where_something_else_is_in_the_way() -> None:
    database = Happened("database-killed", "database", 1305, 1308, halts=frozenset({"database", "evaluation"}))
    silent = frozenset({"alerter-b"})
    follower = Happened("follower-killed", "alerter b", 1280, 1290, halts=frozenset({"b"}), silences=silent)
    for other in (database, follower):
        assert judged(other, KILLED) == Judged((), ())
    earlier = replace(follower, began=1200, ended=BEGAN - recovery(clean()) - 1)
    beside = Happened("mail-cut", "mail", 1305, 1308, halts=frozenset({"mail"}))
    assert len(judged(earlier, beside, KILLED).violations) == 1


def test_what_was_in_the_way_for_a_moment_gives_all_of_the_time_anew() -> None:
    for until, expected in ((BEGAN + 2, 1), (DUE - 1, 0)):
        record = replace(clean(), faults=(KILLED,), looks=(BEFORE, NEVER), alerters=(), stalls=((BEGAN + 1, until),))
        found = Judged.of(another_takes_over(record))
        assert (len(found.occasions), len(found.violations)) == (expected, expected)
        assert [one.at for one in found.violations] == [DUE + 2] * expected
