"""For how long nothing was known: time in which nobody looked does not count, in any of the transitions."""

from __future__ import annotations

import pytest

from dutycycle_alerter.incidents.device_lifecycle import advance_device
from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Resolution, State
from dutycycle_alerter.incidents.unknown import Pauses, unknown_for
from dutycycle_alerter.rules import judge
from tests.alerter.cases import LATER, SETTINGS, moved
from tests.alerter.incidents import test_device_lifecycle as devices
from tests.alerter.incidents.folding import opened
from tests.alerter.incidents.test_lifecycle import UNKNOWN

DAY = 86400.0
FAULT = devices.opened()


@pytest.mark.parametrize(
    ("those", "seconds"),
    [
        ((), 100),
        (((10, 40),), 70),
        (((10, 40), (50, 60)), 60),
        (((-50, 20),), 80),
        (((-50, -20),), 100),
        (((0, 100),), 0),
    ],
)
def test_time_in_which_nobody_looked_does_not_count(those: Pauses, seconds: float) -> None:
    assert unknown_for(1000.0, 1100.0, [(1000 + since, 1000 + until) for since, until in those]) == seconds


def test_a_pause_of_days_loses_nothing() -> None:
    away = ((LATER + 60, LATER + 3 * DAY),)
    for at, state in ((LATER + 3 * DAY, State.OPEN), (LATER + 4 * DAY - 60, State.RESOLVED)):
        judgement = judge(moved(UNKNOWN, at), SETTINGS)
        for step in (
            advance(opened(), judgement, SETTINGS, pauses=away),
            lose(opened(), SETTINGS, now=at, pauses=away),
            advance_device(
                FAULT, devices.SUBJECT, devices.UNKNOWN, lambda: FAULT.diagnosis, SETTINGS, now=at, pauses=away
            ),
        ):
            assert step.incident is not None
            assert step.incident.state is state
            assert step.incident.resolution is (None if state is State.OPEN else Resolution.LOST)
            assert [event.text for event in step.events] == ["nothing known for 24 h"] * (state is State.RESOLVED)
