"""Where the alerter that evaluates is gone for long enough, another one has to evaluate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Judged
from benchmarks.chaos.promises.bounds import taken_over_after
from benchmarks.chaos.promises.quiet import recovery
from benchmarks.chaos.promises.takeover import another_takes_over
from benchmarks.chaos.record import AlerterPage

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
FIRST = AlerterPage("b", 1302.0, 0.1, 200, leads=False, epoch=1, store=True, last_pass=1299.0)
STANDS = replace(FIRST, at=1319.0)
LEADS = replace(STANDS, leads=True)
EVALUATES = replace(LEADS, last_pass=1318.0)


def judged(*faults: Happened, pages: tuple[AlerterPage, ...] = (FIRST, STANDS)) -> Judged:
    return Judged.of(another_takes_over(replace(clean(), faults=faults, alerters=pages)))


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param((FIRST, STANDS), id="it never takes the lease"),
        pytest.param((FIRST, LEADS), id="it takes the lease and has no pass"),
        pytest.param((FIRST, replace(STANDS, last_pass=1318.0)), id="somebody has passes, and it does not lead"),
        pytest.param((FIRST, STANDS, replace(EVALUATES, at=ENDED + 1)), id="it does so only afterwards"),
        pytest.param((FIRST, STANDS, replace(EVALUATES, replica="a")), id="the one that is gone says that it does"),
    ],
)
def test_a_follower_that_does_not_evaluate_is_a_violation(pages: tuple[AlerterPage, ...]) -> None:
    found = judged(KILLED, pages=pages)
    assert [one.fault for one in found.occasions] == ["leader-killed"]
    assert [(one.promise, one.subject, one.at) for one in found.violations] == [
        ("another takes over", "alerter-a", DUE)
    ]


@pytest.mark.parametrize(
    "pages",
    [
        (FIRST, EVALUATES),
        (FIRST, STANDS, replace(EVALUATES, at=1319.9)),
        # Its clock was set back meanwhile.
        (FIRST, replace(EVALUATES, last_pass=1018.0)),
    ],
)
def test_one_that_leads_and_has_had_a_pass_since_has_taken_over(pages: tuple[AlerterPage, ...]) -> None:
    found = judged(KILLED, pages=pages)
    assert [one.fault for one in found.occasions] == ["leader-killed"]
    assert found.violations == ()


def test_nobody_is_asked_where_nobody_answered_in_time() -> None:
    assert judged(KILLED, pages=(FIRST, replace(STANDS, status=0))) == Judged((), ())


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
        stalled = replace(clean(), faults=(KILLED,), alerters=(FIRST, STANDS), stalls=((BEGAN + 1, until),))
        found = Judged.of(another_takes_over(stalled))
        assert (len(found.occasions), len(found.violations)) == (expected, expected)
        assert [one.at for one in found.violations] == [DUE + 2] * expected
