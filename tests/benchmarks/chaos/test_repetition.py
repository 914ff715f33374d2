"""A message may come twice where its acknowledgement could not arrive or be kept, which is counted, and not else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Excused, Judged, check, repetition
from benchmarks.chaos.record import Look, Record

from .evidence import FAULTS, OPENED, clean

TAKEN = OPENED + 1


def twice(sender: str = "a") -> Record:
    """Its first mail came from this alerter, and half a minute later again."""
    record = clean()
    first = replace(record.taken[0], sender=sender)
    return replace(record, taken=(first, *record.taken[1:], replace(first, at=TAKEN + 30)))


def judged(record: Record, *faults: Happened) -> Judged:
    return check(replace(record, faults=(*FAULTS, *faults)))[repetition.no_message_comes_twice]


def fault(*halts: str, began: float = TAKEN - 1, ended: float = TAKEN + 1, took: bool | None = True) -> Happened:
    return Happened("fault", "it", began, ended, took, halts=frozenset(halts))


def test_without_a_fault_it_is_a_violation_and_says_who_sent_it() -> None:
    [found] = judged(twice()).violations
    assert "mail took it from a at 1051.0 and 30.0 s later again" in found.evidence


@pytest.mark.parametrize("halts", [("mail",), ("a",), ("a", "evaluation"), ("database", "evaluation")])
def test_where_its_receiver_its_sender_or_the_store_was_away_it_is_excused_and_counted(halts: tuple[str, ...]) -> None:
    found = judged(twice(), fault(*halts))
    assert found.violations == ()
    assert found.excused == (Excused("fault"),)


@pytest.mark.parametrize("halts", [("slack",), ("b",), ("b", "evaluation"), ("slurm",), ("kubernetes",)])
def test_a_fault_of_somebody_else_excuses_nothing(halts: tuple[str, ...]) -> None:
    assert len(judged(twice(), fault(*halts)).violations) == 1


def test_where_it_does_not_say_who_sent_it_that_was_who_had_the_lease() -> None:
    record = replace(twice(sender=""), looks=(Look(TAKEN - 1, (), "a#1", 1),))
    assert judged(record, fault("a")).excused == (Excused("fault"),)
    assert len(judged(record, fault("b")).violations) == 1


def test_where_nobody_knows_who_sent_it_either_alerters_fault_will_do() -> None:
    assert judged(twice(sender=""), fault("b")).excused == (Excused("fault"),)


@pytest.mark.parametrize("began", [TAKEN - 20, TAKEN + 6])
def test_a_fault_of_another_time_excuses_nothing(began: float) -> None:
    assert len(judged(twice(), fault("mail", began=began, ended=began + 10)).violations) == 1


def test_a_fault_that_did_not_take_excuses_nothing_and_one_that_nobody_could_ask_of_does() -> None:
    assert len(judged(twice(), fault("mail", took=False)).violations) == 1
    assert judged(twice(), fault("mail", took=None)).excused == (Excused("fault"),)


def test_a_machine_that_stood_still_excuses_it() -> None:
    found = judged(replace(twice(), stalls=((TAKEN, TAKEN + 2),)))
    assert found.excused == (Excused("a stall of the machine"),)
