"""What is added to an incident is what its job consumed while it was open, whenever a source tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.model import Consumption
from tests.alerter.cases import LATER, evidence
from tests.alerter.incidents.folding import IDLE, MINUTE, opened, step
from tests.alerter.rules.test_rules import NO_GAPS

HOUR = 3600.0
HEALTHY = evidence([0.95, 0.95], gpu_fields=NO_GAPS)


def used(since: float | None, until: float | None) -> Consumption:
    """A minute of a GPU that did nothing."""
    return Consumption("H200", 60.0, 60.0, 0.0, 120.0, since=since, until=until)


@pytest.mark.parametrize(
    ("since", "until", "added"),
    [
        (None, None, 1.0),
        (LATER, LATER + 60, 1.0),
        (LATER - 30, LATER + 30, 0.5),
        (LATER - 45, LATER + 15, 0.25),
        # After an outage a source catches up what was hours ago.
        (LATER - 10 * HOUR, LATER - 9 * HOUR, 0.0),
        (LATER - HOUR, LATER, 0.0),
        (LATER + 5, LATER + 5, 1.0),
    ],
)
def test_what_was_consumed_before_the_opening_is_no_part_of_it(
    since: float | None, until: float | None, added: float
) -> None:
    incident = opened()
    item = replace(IDLE, recent=(used(since, until),))
    after = step(incident, item, LATER + MINUTE).incident
    assert after is not None
    assert after.wasted - incident.wasted == pytest.approx(60 * added)
    assert after.energy - incident.energy == pytest.approx(120 * added)


def test_nor_is_what_was_consumed_before_it_opened_again() -> None:
    cleared = step(opened(), HEALTHY, LATER + 10 * MINUTE).incident
    again = step(cleared, IDLE, LATER + 60 * MINUTE).incident
    assert again is not None
    between = (used(LATER + 20 * MINUTE, LATER + 50 * MINUTE), used(LATER + 60 * MINUTE - 30, LATER + 60 * MINUTE + 30))
    after = step(again, replace(IDLE, recent=between), LATER + 61 * MINUTE).incident
    assert after is not None
    assert after.wasted - again.wasted == pytest.approx(30)
    # Passes go on, and a source that tells a little late loses nothing by that.
    late = (used(LATER + 60 * MINUTE + 30, LATER + 61 * MINUTE + 30),)
    later = step(after, replace(IDLE, recent=late), LATER + 62 * MINUTE).incident
    assert later is not None
    assert later.wasted - after.wasted == pytest.approx(60)
