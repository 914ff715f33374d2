"""A job that only just began to work was loading: what that did to CPUs and storage is no stall of its GPUs."""

from dataclasses import replace

import pytest

from dutycycle_alerter.model import HostUsage, JobEvidence
from dutycycle_alerter.rules import Outcome
from tests.alerter.rules.timeline import NOTHING, WORKS, Does, Life
from tests.alerter.rules.verdicts import CLEAR, FIRING, HOLDING, verdict

READING = HostUsage(io_pressure=0.3)
STARVED = Does(0.4, gap_2to30=0.5)


def stalled(*pieces: tuple[float, Does], host: HostUsage = READING, **known: float) -> Outcome:
    item: JobEvidence = Life([(minutes, [does]) for minutes, does in pieces], 1, host).evidence(**known)  # type: ignore[arg-type]
    return verdict("stalled", item).outcome


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        # Loads for 25 min, and works well for the last 10 of a window of 15: 53 % in all, and storage was busy.
        ([(25, NOTHING), (10, WORKS)], HOLDING),
        # The same in a job that had worked before.
        ([(15, WORKS), (25, NOTHING), (10, WORKS)], FIRING),
        # Once it worked for a tenth of the time before the window, that window has nothing of its loading.
        ([(25, NOTHING), (17.7, STARVED)], HOLDING),
        ([(25, NOTHING), (17.8, STARVED)], FIRING),
        # However long that took.
        ([(90, NOTHING), (10, WORKS)], HOLDING),
        # What a few kernels of a warm-up do is no work yet.
        ([(25, Does(0.01)), (10, WORKS)], HOLDING),
        # An ordinary start of some minutes takes nothing from a stall.
        ([(4, NOTHING), (21, STARVED)], FIRING),
        # Little work, and no more than that ever.
        ([(4, NOTHING), (60, Does(0.06, gap_2to30=0.5))], FIRING),
        # Signals that are gone are gone.
        ([(25, NOTHING), (40, Does(0.9))], CLEAR),
    ],
)
def test_a_stall_is_one_of_a_job_that_was_at_work(pieces: list[tuple[float, Does]], outcome: Outcome) -> None:
    assert stalled(*pieces) is outcome


@pytest.mark.parametrize("known", [{"watched": 15.0}, {"longest": 900.0}])
def test_where_nothing_is_known_of_the_time_before_a_stall_is_one(known: dict[str, float]) -> None:
    assert stalled((25, NOTHING), (10, WORKS), **known) is FIRING


def test_a_longer_window_that_is_not_answered_is_not_one_without_work() -> None:
    item = Life([(25, [NOTHING]), (10, [WORKS])], 1, READING).evidence()

    def failed(length: float):  # type: ignore[no-untyped-def]
        found = item.window(length)
        if length <= 900:
            return found
        return replace(found, gpus=tuple(replace(usage, observed=0.0, busy=0.0) for usage in found.gpus))

    assert verdict("stalled", replace(item, window=failed)).outcome is FIRING


def test_an_hours_old_idling_is_a_start_as_well() -> None:
    """Two hours are all that is looked at."""
    assert stalled((60, WORKS), (180, NOTHING), (10, WORKS)) is HOLDING
