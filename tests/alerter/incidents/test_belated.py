"""What a source tells late of the time in which an incident was open is wasted within it, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.actions import resolve
from dutycycle_alerter.incidents.model import Incident, State
from tests.alerter.cases import LATER, evidence
from tests.alerter.incidents.folding import IDLE, MINUTE, opened, step
from tests.alerter.incidents.test_wasting import HEALTHY, HOUR, used

OVER = LATER + HOUR


def cleared() -> Incident:
    found = step(opened(), HEALTHY, OVER).incident
    assert found is not None
    return found


def ended() -> Incident:
    found = step(opened(), replace(IDLE, ended=OVER), OVER + 3 * MINUTE).incident
    assert found is not None
    return found


def closed() -> Incident:
    found = resolve(opened(), actor="bob", now=OVER).incident
    assert found is not None
    return found


@pytest.mark.parametrize("how", [cleared, ended, closed])
@pytest.mark.parametrize(
    ("since", "until", "added"),
    [
        (OVER - 60, OVER, 1.0),
        (OVER - 600, OVER - 540, 1.0),
        (OVER - 15, OVER + 45, 0.25),
        (OVER, OVER + 60, 0.0),
        (OVER + 5, OVER + 5, 0.0),
        (LATER - 45, LATER + 15, 0.25),
        (LATER - HOUR, LATER, 0.0),
        # Of the time since the pass before, in which it was resolved already.
        (None, None, 0.0),
    ],
)
def test_what_lies_before_its_end_is_added(
    how: Callable[[], Incident], since: float | None, until: float | None, added: float
) -> None:
    resolved = how()
    after = step(resolved, replace(HEALTHY, recent=(used(since, until),)), OVER + 5 * MINUTE)
    assert after.incident is not None
    assert after.events == ()
    assert after.incident.wasted - resolved.wasted == pytest.approx(60 * added)
    assert after.incident.energy - resolved.energy == pytest.approx(120 * added)


def test_also_where_the_job_has_ended_and_where_energy_is_not_known() -> None:
    part = replace(used(OVER - 30, OVER + 30), energy=None)
    after = step(ended(), replace(IDLE, ended=OVER, recent=(part,)), OVER + HOUR).incident
    assert after is not None
    assert (after.state, after.wasted - ended().wasted) == (State.RESOLVED, pytest.approx(30))


def test_an_hour_that_is_told_in_parts_is_added_once_whenever_the_incident_was_resolved() -> None:
    """A minute before the end, at it, or after it: the passes are late by more and more."""
    parts = [used(LATER + n * MINUTE, LATER + (n + 1) * MINUTE) for n in range(60)]
    expected = opened().wasted + 3600
    for late in (0, 1, 17, 90):
        incident = opened()
        for minute in range(1, 200):
            told = tuple(parts[n] for n in (minute - 1 - late,) if 0 <= n < 60)
            item = HEALTHY if minute >= 60 else IDLE
            incident = step(incident, replace(item, recent=told), LATER + minute * MINUTE).incident or incident
        assert incident.state is State.RESOLVED
        assert incident.wasted == pytest.approx(expected), late


def test_a_reopened_one_gets_its_part_before_it_opens_again() -> None:
    """The window that shows it again lies after the clearing, and is added."""
    late = (used(OVER - 60, OVER),)
    again = step(cleared(), replace(IDLE, recent=late), OVER + 40 * MINUTE).incident
    assert again is not None
    assert (again.reopened, again.wasted) == (1, pytest.approx(cleared().wasted + 60 + 2 * 30 * MINUTE))


def test_a_job_without_an_incident_has_no_use_for_it() -> None:
    assert step(None, replace(evidence([0.9]), recent=(used(OVER - 60, OVER),))).incident is None
