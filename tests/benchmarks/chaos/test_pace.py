"""A machine that did not keep pace is found in the calm times, and what a fault delays is not its fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.pace import pace
from benchmarks.chaos.record import Record

from .evidence import AWAY, KILLED, clean

TARGET = "127.0.0.1:9100"


def scraped(record: Record, every: float, since: float = 1000.0) -> Record:
    count = int((record.ended - since) / every)
    return replace(record, scrapes={TARGET: tuple(since + every * number for number in range(count))})


def without_scrapes(since: float, until: float) -> Record:
    record = scraped(clean(), every=0.5)
    return replace(record, scrapes={TARGET: tuple(at for at in record.scrapes[TARGET] if not since < at < until)})


def with_passes(record: Record, age: float, since: float, until: float) -> Record:
    """The last pass was that old, for some time."""
    pages = (replace(page, last_pass=page.at - age) if since <= page.at <= until else page for page in record.alerters)
    return replace(record, alerters=tuple(pages))


def test_one_that_kept_pace() -> None:
    found = pace(scraped(clean(), every=0.5))
    assert (found.passes, found.scrapes, found.slow) == (0.0, 0.0, False)
    assert str(found) == "passes were overdue for 0.0% and scrapes for 0.0% of the calm time"


def test_passes_that_came_late() -> None:
    found = pace(with_passes(scraped(clean(), every=0.5), 5.0, 1000.0, 1100.0))
    assert found.slow
    assert found.passes == pytest.approx(88 / 490, abs=0.01)
    assert str(found).startswith("this machine was too slow: passes were overdue for 1")


def test_scrapes_that_came_late() -> None:
    found = pace(scraped(clean(), every=1.5))
    assert found.slow
    assert found.scrapes == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("fault", [KILLED, AWAY])
def test_what_is_late_on_account_of_a_fault_is_not_the_machines(fault) -> None:
    record = with_passes(scraped(clean(), every=0.5), 30.0, fault.began, fault.ended + 20.0)
    assert not pace(record).slow


@pytest.mark.parametrize("since", [900.0, 1225.0])
def test_what_prometheus_has_lost_was_not_late(since: float) -> None:
    """Emptied, it lacks all from before; killed after its disk had been full, the last minutes."""
    assert not pace(without_scrapes(since, AWAY.ended + 1.0)).slow


def test_of_what_was_not_lost_it_is_still_said_what_was_late() -> None:
    record = without_scrapes(1225.0, AWAY.ended + 1.0)
    late = tuple(at for at in record.scrapes[TARGET] if not 1450.0 < at < 1500.0)
    # All but the two faults with 25 s after each, and the 65 s that are lost between them.
    assert pace(replace(record, scrapes={TARGET: late})).scrapes == pytest.approx(49.5 / 445, abs=0.01)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (1225.0, AWAY.began - 1.5),
        (1225.0, AWAY.began + 1.0),  # it went on while the fault stood: it was not stopped
        (1225.0, AWAY.ended + 60.0),  # and was not the one that is to blame
        (1400.0, 1500.0),
    ],
)
def test_what_is_missing_at_another_time_was_late(since: float, until: float) -> None:
    assert pace(without_scrapes(since, until)).slow


def test_who_does_not_lead_makes_no_passes() -> None:
    record = with_passes(scraped(clean(), every=0.5), 300.0, 1000.0, 1600.0)
    record = replace(record, alerters=tuple(replace(page, leads=False) for page in record.alerters))
    assert pace(replace(record, alerters=record.alerters + clean().alerters)).passes == 0.0


def test_scrapes_are_those_of_all_nodes_on_average() -> None:
    on_time, late = (scraped(clean(), every).scrapes[TARGET] for every in (0.5, 1.5))
    assert pace(replace(clean(), scrapes={"n1": on_time, "n2": late})).scrapes == pytest.approx(1 / 6, abs=0.01)


def test_where_prometheus_could_not_be_asked_it_cannot_be_said() -> None:
    assert str(pace(clean())).startswith("whether the machine kept pace cannot be said")


def test_where_there_was_no_calm_it_cannot_be_said() -> None:
    record = replace(clean(), faults=(replace(KILLED, began=1000.0, ended=1600.0),))
    assert str(pace(record)) == "whether the machine kept pace cannot be said: of a calm time nothing was seen"
    assert not pace(record).slow
