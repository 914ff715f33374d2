"""Alertmanager has to show what is active, and nothing else, where nothing was in the way of telling it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import alerts, check
from benchmarks.chaos.promises.violation import Judged
from benchmarks.chaos.record import Firing, Look, Record

from .evidence import ENDED, IDLE, OPENED, RESOLVED, clean

SOON, LATE = 10.0, 13.0
"""Wall seconds of this record: a question, two refreshes and a pass; and as many until an alert ends by itself."""
RECOVERED = 25.0

ACTIVE = ((IDLE, "efficiency", (1,)),)

Shown = Callable[[float], tuple[int, ...]]


def seen(looks: Iterable[Look], firing: Iterable[Firing], *faults: Happened) -> Record:
    return replace(clean(), faults=faults, looks=tuple(looks), firing=tuple(firing))


def judged(firing: Shown, *faults: Happened) -> Judged:
    """Alertmanager's answer of each second, and the store's now and then: the incident, from its opening to its end."""
    times = (1000 + 0.31 * number for number in range(1935))
    looks = [Look(at, ACTIVE if OPENED <= at < RESOLVED else (), "a#1", 1) for at in times]
    answers = [Firing(float(at), 0.05, firing(at)) for at in range(1000, 1600)]
    return check(seen(looks, answers, *faults))[alerts.alertmanager_shows_what_is_active]


def between(since: float, until: float) -> Shown:
    return lambda at: (1,) if since <= at < until else ()


def always_but(since: float, until: float) -> Shown:
    """While it is active, without a gap."""
    return lambda at: () if since <= at < until else between(OPENED, RESOLVED)(at)


def fault(began: float, ended: float, halts: str = "alertmanager", skews: float = 0.0) -> Happened:
    return Happened("fault", "it", began, ended, halts=frozenset({halts} if halts else ()), skews=skews)


def moments(found: Judged) -> list[float]:
    return [one.at for one in found.violations]


@pytest.mark.parametrize("begins", [OPENED, OPENED + 8])
@pytest.mark.parametrize("ends", [RESOLVED, RESOLVED + 12])
def test_what_fires_while_it_is_active_violates_nothing(begins: float, ends: float) -> None:
    found = judged(between(begins, ends))
    assert found.violations == ()
    assert len(found.occasions) > 2 * (ENDED - RESOLVED)


@pytest.mark.parametrize("until_the_next_look", [0.05 * number for number in range(20)])
def test_what_happens_between_two_looks_is_seen_in_the_next(until_the_next_look: float) -> None:
    """Alertmanager may have been told of what no look had seen yet, however they fall."""
    at = 1100 + until_the_next_look
    times = [1000 + 0.31 * number for number in range(1935)]
    looks = [Look(time, ACTIVE if at <= time < at + 200 else (), "a#1", 1) for time in times]
    firing = [Firing(float(now), 0.05, (1,) if at + 0.1 <= now < at + 200.1 else ()) for now in range(1000, 1600)]
    assert check(seen(looks, firing))[alerts.alertmanager_shows_what_is_active].violations == ()


def test_what_is_active_and_does_not_fire_is_named() -> None:
    found = judged(between(OPENED, 1300.0))
    assert moments(found) == [float(at) for at in range(1301, int(RESOLVED))]
    first = found.violations[0]
    assert (first.promise, first.subject) == ("Alertmanager shows what is active", IDLE)
    assert first.evidence == "incident 1 is active and does not fire"


def test_once_it_may_be_missed_as_another_alert_takes_its_place() -> None:
    assert moments(judged(always_but(1300.0, 1301.0))) == []
    assert moments(judged(always_but(1300.0, 1302.0))) == [1301.0]


def test_what_is_told_late_is_named() -> None:
    assert moments(judged(between(OPENED + SOON + 3, RESOLVED)))[0] == OPENED + SOON


def test_what_fires_twice_is_named() -> None:
    found = judged(lambda at: 2 * always_but(1e9, 1e9)(at) if 1200 <= at < 1203 else always_but(1e9, 1e9)(at))
    assert moments(found) == [1201.0, 1202.0]
    assert found.violations[0].evidence == "incident 1 fires more than once"


def test_what_is_over_and_fires_is_named() -> None:
    found = judged(between(OPENED, RESOLVED + LATE + 3))
    assert moments(found) == [RESOLVED + LATE, RESOLVED + LATE + 1, RESOLVED + LATE + 2]
    assert (found.violations[0].subject, found.violations[0].evidence) == (IDLE, "incident 1 is not active and fires")


def test_what_the_store_does_not_have_is_named() -> None:
    found = judged(lambda at: (*between(OPENED, RESOLVED)(at), *((9,) if at == 1200 else ())))
    assert [(one.subject, one.evidence) for one in found.violations] == [
        ("an incident that the store lacks", "incident 9 is not active and fires")
    ]


@pytest.mark.parametrize(
    ("hinders", "until"),
    [
        pytest.param(fault(1300.0, 1310.0), 1310.0, id="what it missed it has by the next refresh"),
        pytest.param(fault(1300.0, 1310.0, "evaluation"), 1310.0 + RECOVERED, id="nobody evaluates"),
        pytest.param(fault(1300.0, 1310.0, "", -300.0), 1310.0 + RECOVERED, id="an alerter's clock"),
    ],
)
def test_nothing_is_asked_while_something_was_in_the_way_and_until_all_has_recovered(
    hinders: Happened, until: float
) -> None:
    assert judged(always_but(1300.5, until + SOON + 1), hinders).violations == ()
    assert moments(judged(always_but(1300.5, until + SOON + 4), hinders))[-1] == until + SOON + 3


@pytest.mark.parametrize("halts", ["mail", "webhook", "slurm"])
def test_a_fault_of_something_else_excuses_nothing(halts: str) -> None:
    assert moments(judged(always_but(1300.0, 1303.0), fault(1300.0, 1310.0, halts))) == [1301.0, 1302.0]


@pytest.mark.parametrize("skews", [0.0, -300.0, 300.0])
def test_an_end_told_by_a_clock_that_was_ahead_may_show_as_late_as_that(skews: float) -> None:
    """What was before is told of once."""

    def firing(at: float) -> tuple[int, ...]:
        return (*between(OPENED, 1600.0)(at), *((9,) if at == 1200 else ()))

    found = judged(firing, fault(RESOLVED - 80, RESOLVED - 70, "", skews))
    assert moments(found)[:2] == ([1200.0] if skews > 0 else [1200.0, RESOLVED + LATE])


def test_what_is_over_may_fire_twice_until_it_has_ended_there() -> None:
    assert moments(judged(lambda at: 2 * between(RESOLVED, RESOLVED + LATE)(at) + between(OPENED, RESOLVED)(at))) == []


def test_of_what_no_look_followed_nothing_is_asked() -> None:
    """Whether it was active by then nobody saw."""
    record = seen([Look(1000 + 0.31 * n, (), "a#1", 1) for n in range(1000)], [Firing(1309.9, 0.05, (1,))])
    assert check(record)[alerts.alertmanager_shows_what_is_active] == Judged((), ())


def test_an_answer_that_took_long_is_of_when_it_was_asked_for() -> None:
    looks = [Look(1000 + 0.31 * n, ACTIVE if 1000 + 0.31 * n >= 1100 else (), "a#1", 1) for n in range(1000)]
    for took, expected in ((3.0, []), (0.1, [1111.0])):
        record = seen(looks, [Firing(at, took, ()) for at in (1110.9, 1111.0)])
        assert moments(check(record)[alerts.alertmanager_shows_what_is_active]) == expected


def test_of_a_record_without_an_alertmanager_nothing_is_asked() -> None:
    assert check(clean())[alerts.alertmanager_shows_what_is_active] == Judged((), ())
