"""A GPU that is lost is told while it is, and neither for less nor for longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Judged
from benchmarks.chaos.promises.devices import device_incidents_are_true, device_incidents_last_as_long
from benchmarks.chaos.promises.quiet import recovery, slack
from benchmarks.chaos.record import Record, StoredEvent, StoredIncident

from .evidence import clean

LOST = Happened("gpu-lost", "n1", 1300, 1330, blinds=frozenset({"GPU-1"}), broken=frozenset({"n1"}))
AGAIN = replace(LOST, began=1400, ended=1430)
FAULT = StoredIncident(2, "node/n1", "gpu_fault", "gpu_fault", "open", 1, 1, None, None, "", frozenset({"n1"}))


def lost(*told: tuple[str, float], faults: tuple[Happened, ...] = (LOST,)) -> Record:
    """What was told of the node, and when."""
    record = clean()
    events = tuple(StoredEvent(number, 2, at, kind, "") for number, (kind, at) in enumerate(told, 10))
    return replace(record, faults=faults, incidents=(*record.incidents, FAULT), events=(*record.events, *events))


def broken(record: Record) -> list[tuple[str, float]]:
    both = (device_incidents_are_true, device_incidents_last_as_long)
    return [(one.promise, one.at) for promise in both for one in Judged.of(promise(record)).violations]


def test_one_that_is_told_in_time_and_resolved_when_it_is_back_violates_nothing() -> None:
    told = lost(("opened", 1305), ("resolved", 1332), ("reopened", 1404), ("resolved", 1433), faults=(LOST, AGAIN))
    assert broken(told) == []
    for promise, asked in ((device_incidents_are_true, 4), (device_incidents_last_as_long, 4)):
        assert len(Judged.of(promise(told)).occasions) == asked


def test_a_later_loss_on_the_node_is_no_word_of_an_earlier_one() -> None:
    assert broken(lost(("opened", 1404), ("resolved", 1433), faults=(LOST, AGAIN))) == [("no incident is lost", 1330)]


def test_what_is_told_when_it_is_back_was_not_told_while_it_was_lost() -> None:
    assert ("no incident is lost", 1330) in broken(lost(("opened", 1331), ("resolved", 1335)))
    mended = replace(LOST, stood=(1300, 1325))
    assert ("no incident is lost", 1330) in broken(lost(("opened", 1327), ("resolved", 1335), faults=(mended,)))


def test_one_that_is_resolved_while_it_is_lost_is_a_violation() -> None:
    assert broken(lost(("opened", 1305), ("resolved", 1315))) == [("no resolution is false", 1315)]
    flapping = (("opened", 1305), ("resolved", 1315), ("reopened", 1317), ("resolved", 1332))
    assert broken(lost(*flapping)) == [("no resolution is false", 1315)]


def test_while_it_comes_back_its_incident_may_be_resolved() -> None:
    mended = replace(LOST, stood=(1300, 1325))
    assert broken(lost(("opened", 1305), ("resolved", 1327), faults=(mended,))) == []


def test_one_that_is_never_resolved_is_a_violation() -> None:
    due = LOST.ended + recovery(clean()) + slack(clean())
    assert broken(lost(("opened", 1305))) == [("what is over is resolved", due)]
    assert broken(lost(("opened", 1305), ("resolved", due - 1))) == []
    assert broken(lost(("opened", 1305), ("resolved", due + 1))) == [("what is over is resolved", due)]


def test_one_that_hangs_is_lost_once_it_is_left_out_and_has_to_be_told_by_then() -> None:
    """Its node was blind meanwhile: that is no excuse for this."""
    says = frozenset({"left-out:n1"})
    hang = replace(LOST, name="nvml-call-hangs", blinds=frozenset({"n1"}), says=says)
    assert broken(lost(("opened", 1325), ("resolved", 1340), faults=(hang,))) == []
    assert broken(lost(faults=(hang,))) == [("no incident is lost", 1330)]
    brief = replace(hang, ended=1320)
    assert broken(lost(faults=(brief,))) == []


@pytest.mark.parametrize(
    "hidden",
    [
        Happened("exporter-killed", "n1", 1340, 1590, blinds=frozenset({"n1"})),
        Happened("prometheus-killed", "prometheus", 1340, 1590, blinds=frozenset({"*"})),
        Happened("alerters-killed", "alerters", 1340, 1590, halts=frozenset({"evaluation"})),
    ],
)
def test_while_nobody_can_see_that_it_is_back_its_incident_stays(hidden: Happened) -> None:
    record = lost(("opened", 1305), faults=(LOST, hidden))
    assert broken(record) == []
    assert [one.fault for one in Judged.of(device_incidents_last_as_long(record)).occasions] == ["gpu-lost"]


def test_one_that_is_left_from_the_loss_before_is_resolved_as_the_next_begins_or_tells_of_it_too() -> None:
    near = replace(LOST, began=1355, ended=1385)
    late = (("opened", 1305), ("resolved", 1356), ("reopened", 1360), ("resolved", 1387))
    assert broken(lost(*late, faults=(LOST, near))) == []
    assert broken(lost(("opened", 1305), ("resolved", 1387), faults=(LOST, near))) == []
    assert broken(lost(("opened", 1305), ("resolved", 1356), faults=(LOST, near))) == [("no incident is lost", 1385)]
