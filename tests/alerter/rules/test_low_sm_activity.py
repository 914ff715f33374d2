"""GPUs that are busy with few of their multiprocessors, on both sides of each bound."""

from dataclasses import replace

import pytest

from dutycycle_alerter.model import WindowEvidence
from dutycycle_alerter.rules import Outcome
from dutycycle_alerter.settings import Judging
from tests.alerter.cases import evidence
from tests.alerter.rules.verdicts import CLEAR, FIRING, HOLDING, NOT_EVALUABLE, UNKNOWN, verdict


@pytest.mark.parametrize(
    ("utilization", "active_of_busy", "outcome"),
    [
        (0.50, 0.2499, FIRING),
        (0.50, 0.25, HOLDING),
        (0.4999, 0.2499, HOLDING),
        (1.0, 0.0001, FIRING),
        # A kernel that is resident keeps a multiprocessor: at exactly none GPM has stopped measuring.
        (1.0, 0.0, NOT_EVALUABLE),
        (1.0, 0.3499, HOLDING),
        (1.0, 0.35, CLEAR),
        # It clears by what the multiprocessors do, however busy the GPU is.
        (0.2, 0.35, CLEAR),
        (0.2, 0.34, HOLDING),
        # Nothing was busy: what the rule is about is over.
        (0.0, 0.0, CLEAR),
        (0.9, None, NOT_EVALUABLE),
        (0.2, None, NOT_EVALUABLE),
    ],
)
def test_low_sm_activity(utilization: float, active_of_busy: float | None, outcome: Outcome) -> None:
    fields = {} if active_of_busy is None else {"sm_share": active_of_busy * utilization}
    found = verdict("low_sm_activity", evidence([utilization], gpu_fields=fields))
    assert found.outcome is outcome
    assert bool(found.reason) == (outcome is NOT_EVALUABLE)


def test_low_sm_activity_needs_the_multiprocessors_of_every_gpu() -> None:
    known, unknown = evidence([0.9], gpu_fields={"sm_share": 0.05}), evidence([0.9])

    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, (*known.window(length).gpus, *unknown.window(length).gpus))

    item = replace(evidence([0.9, 0.9]), window=window)
    assert verdict("low_sm_activity", item).outcome is NOT_EVALUABLE


@pytest.mark.parametrize(
    ("before", "lately", "outcome"),
    [
        (0.1, 0.1, FIRING),
        (0.1, 0.2499, FIRING),
        # GPM began late in the window: what it has measured since is not little.
        (0.1, 0.25, HOLDING),
        (0.1, 0.9, HOLDING),
        # It has stopped: the half hour shows half of what there was.
        (0.2, 0.0, UNKNOWN),
        (0.2, None, UNKNOWN),
    ],
)
def test_gpm_that_measured_a_part_of_the_window_accuses_nobody(
    before: float, lately: float | None, outcome: Outcome
) -> None:
    whole = evidence([1.0], gpu_fields={"sm_share": before})
    last = evidence([1.0], gpu_fields={} if lately is None else {"sm_share": lately})
    item = replace(whole, window=lambda length: (last if length == 900 else whole).window(length))
    assert verdict("low_sm_activity", item).outcome is outcome


@pytest.mark.parametrize("earlier", [0.9, 0.0])
def test_low_sm_activity_is_not_judged_by_what_was_before_its_window(earlier: float) -> None:
    """Where `idle` takes longer to clear than this rule looks back."""
    settings = Judging.model_validate({"rules": {"idle": {"clear_window": "2h"}}})
    assert settings.rules.idle.clear_window > settings.rules.low_sm_activity.window
    whole, longer = (evidence([1.0], gpu_fields={"sm_share": share}) for share in (0.1, earlier))
    item = replace(whole, window=lambda length: (longer if length > 1800 else whole).window(length))
    assert verdict("low_sm_activity", item, settings).outcome is FIRING


def test_low_sm_activity_of_a_sharer_is_that_of_its_own_work() -> None:
    """It does all of the GPU's work: busy time and active multiprocessors are both credited to it."""
    for active, outcome in ((0.24, FIRING), (0.36, CLEAR)):
        fields = {"share": 0.5, "sm_share": active}
        assert verdict("low_sm_activity", evidence([2.0], coverage=0.5, gpu_fields=fields)).outcome is outcome
