"""Whatever is away is asked for by its kind, an outage of which nobody learns is found, and what was never asked is
told as that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import answers, check, telling
from benchmarks.chaos.promises.violation import Judged
from benchmarks.chaos.record import AlerterPage, ExporterPage, Look, Record, StoredDelivery

from .evidence import clean

BEGAN, ENDED = 1450.0, 1500.0
NOT_TOLD = AlerterPage(
    "a",
    1490.0,
    0.1,
    200,
    leads=True,
    store=True,
    last_pass=1489.0,
    sources={"prometheus": 1.0, "kubernetes": 1.0},
    watch_failures={"kubernetes": 2.0},
    failing={"mail": 0.0},
)
BEFORE = replace(NOT_TOLD, at=1400.0)
WELL = ExporterPage("k1", 1490.0, 0.1, 200, visible=5, success=1, age=0.1, utilizations=5, kubelet=1)
DUE = StoredDelivery(9, "due", "mail", BEGAN + 1, 1, None, None, "", "due")


def judged(said: str, *, alerter: AlerterPage = NOT_TOLD, exporter: ExporterPage = WELL, due: bool = True) -> Judged:
    fault = Happened("fault", "it", BEGAN, ENDED, says=frozenset({said}))
    record = replace(
        clean(),
        faults=(fault,),
        alerters=(BEFORE, alerter),
        exporters=(exporter,),
        gpus={"k1": 5},
        deliveries=(DUE,) if due else (),
    )
    return Judged.of(telling.what_is_away_is_told(record))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("source:prometheus", {"sources": {"prometheus": 0.0}}),
        ("watch:kubernetes", {"watch_failures": {"kubernetes": 3.0}}),
        ("watch:kubernetes", {"sources": {"kubernetes": 0.0}}),
        ("store:", {"store": False}),
        ("store:a", {"store": False}),
        ("receiver:mail", {"failing": {"mail": 4.0}}),
    ],
)
def test_what_an_alerter_has_to_say(said: str, told: dict[str, object]) -> None:
    assert [one.subject for one in judged(said).violations] == ["alerter-a"]
    sound = judged(said, alerter=replace(NOT_TOLD, **told))
    assert sound.violations == ()
    assert [one.fault for one in sound.occasions] == ["fault"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("nvml:k1", {"success": 0.0, "utilizations": 0}),
        ("left-out:k1", {"visible": 4.0}),
        ("kubelet:k1", {"kubelet": 0.0}),
        ("restart:k1", {"alive": 503, "why": "the library is of another version than the driver"}),
    ],
)
def test_what_an_exporter_has_to_say(said: str, told: dict[str, object]) -> None:
    assert [one.subject for one in judged(said).violations] == ["exporter-k1"]
    sound = judged(said, exporter=replace(WELL, **told))
    assert sound.violations == ()
    assert [one.fault for one in sound.occasions] == ["fault"]


def test_an_exporter_that_reads_nothing_at_all_leaves_no_gpu_out() -> None:
    nothing = replace(WELL, success=0.0, visible=None)
    assert [one.subject for one in judged("left-out:k1", exporter=nothing).violations] == ["exporter-k1"]


def test_a_gpu_that_hangs_may_be_tried_again_and_count_until_it_hangs() -> None:
    fault = Happened("fault", "it", BEGAN, ENDED, says=frozenset({"left-out:k1"}))
    pages = (replace(WELL, at=1485.0, visible=4.0), replace(WELL, at=1488.0), WELL)
    for exporters, violations in ((pages, 0), (pages[1:], 1)):
        record = replace(clean(), faults=(fault,), exporters=exporters, gpus={"k1": 5})
        assert len(Judged.of(telling.what_is_away_is_told(record)).violations) == violations


def test_liveness_that_fails_says_why() -> None:
    silent = replace(WELL, alive=503, why="\n")
    assert [one.subject for one in judged("restart:k1", exporter=silent).violations] == ["exporter-k1"]


def test_the_other_alerters_database_is_none_of_its_business() -> None:
    assert judged("store:b") == Judged((), ())


def test_a_receiver_to_which_nothing_was_due_is_not_judged() -> None:
    assert judged("receiver:mail", due=False) == Judged((), ())


@pytest.mark.parametrize("active", [True, False])
def test_a_receiver_that_is_told_again_of_what_is_active_is_judged_where_something_is(active: bool) -> None:
    fault = Happened("fault", "it", BEGAN, ENDED, says=frozenset({"receiver:alerts"}))
    looks = (Look(BEGAN + 1, (("slurm/1", "efficiency", (1,)),) if active else (), "a#1", 1),)
    for failing, subjects in ((0.0, ["alerter-a"]), (4.0, [])):
        page = replace(NOT_TOLD, failing={"alerts": failing})
        record = replace(clean(), sinks={"alerts": ""}, faults=(fault,), alerters=(BEFORE, page), looks=looks)
        found = Judged.of(telling.what_is_away_is_told(record))
        assert [one.subject for one in found.violations] == (subjects if active else [])
        assert len(found.occasions) == active


def test_liveness_that_does_not_answer_is_no_liveness() -> None:
    record = replace(clean(), exporters=(replace(clean().exporters[-1], alive=0),))
    found = check(record)[answers.liveness_asks_for_restarts_that_help].violations
    assert [one.subject for one in found] == ["exporter-n1"]


def test_what_nobody_knows_how_to_ask_raises() -> None:
    with pytest.raises(ValueError, match="nobody looks for"):
        Happened("fault", "it", BEGAN, ENDED, says=frozenset({"stroe"}))


def test_a_fault_that_was_over_before_anybody_looked_is_named() -> None:
    fault = Happened("brief", "it", BEGAN, BEGAN + 1, says=frozenset({"source:prometheus"}))
    record: Record = replace(clean(), faults=(*clean().faults, fault))
    occasions = check(record)[telling.what_is_away_is_told].occasions
    assert {one.fault for one in occasions} == {"prometheus-killed"}
    assert telling.never_judged(record, occasions) == ["brief"]


def test_a_run_in_which_nothing_was_there_asks_nothing() -> None:
    empty = Record(0.0, 100.0, 60.0, 0.5, 2.0, 2.0, {})
    asked = {promise.__name__ for promise, one in check(empty).items() if one.occasions}
    assert asked == set()


def test_while_it_is_being_put_right_it_may_be_told_that_it_is_back() -> None:
    """A fault's end returns when the part was seen to work; whoever was asked before may have seen that, too."""
    for stood_until, took, expected in ((1492.0, 0.1, 1), (1489.0, 0.1, 0), (1492.0, 3.0, 0)):
        for said, subject in (("store:", "alerter-a"), ("source:prometheus", "alerter-a"), ("nvml:k1", "exporter-k1")):
            fault = Happened("fault", "it", BEGAN, ENDED, stood=(BEGAN, stood_until), says=frozenset({said}))
            pages = {"alerters": (BEFORE, replace(NOT_TOLD, took=took)), "exporters": (replace(WELL, took=took),)}
            found = Judged.of(telling.what_is_away_is_told(replace(clean(), faults=(fault,), **pages)))
            assert [one.subject for one in found.violations] == [subject] * expected
            assert len(found.occasions) == expected


def test_a_message_that_went_out_while_its_receiver_was_put_right_was_due_all_the_while() -> None:
    fault = Happened("fault", "it", BEGAN, ENDED, stood=(BEGAN, 1495.0), says=frozenset({"receiver:mail"}))
    for sent_at, expected in ((1494.0, []), (1497.0, ["alerter-a"])):
        sent = (replace(DUE, sent_at=sent_at),)
        record = replace(clean(), faults=(fault,), alerters=(BEFORE, NOT_TOLD), deliveries=sent)
        found = Judged.of(telling.what_is_away_is_told(record)).violations
        assert [one.subject for one in found] == expected


def test_a_fault_that_took_long_to_begin_has_to_be_told_of_as_much_later() -> None:
    """The time that the site has counts from when it stood: what is seen in the middle of its beginning is no word."""
    fault = Happened("fault", "it", BEGAN, ENDED, says=frozenset({"store:"}))
    for stood_from, violations in ((BEGAN, 1), (NOT_TOLD.at - 1, 0)):
        late = replace(fault, stood=(stood_from, ENDED))
        record = replace(clean(), faults=(late,), alerters=(BEFORE, NOT_TOLD))
        assert len(Judged.of(telling.what_is_away_is_told(record)).violations) == violations
