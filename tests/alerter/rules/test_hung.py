"""Jobs that spin at idle power: whether they hang, and what confirms it."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import WindowEvidence
from dutycycle_alerter.rules import Outcome
from tests.alerter.cases import evidence
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.verdicts import CLEAR, FIRING, NOT_EVALUABLE, verdict

# A GPU draws 70 W idle and 670 W at most: 160 W lie 15 % of the way between.


@pytest.mark.parametrize(
    ("utilizations", "watts", "outcome"),
    [
        ([1.0, 1.0], 75, FIRING),
        ([0.95, 0.95], 75, FIRING),
        ([0.9499, 0.95], 75, CLEAR),
        ([1.0, 1.0], 160, FIRING),
        ([1.0, 1.0], 160.1, CLEAR),
        # A little under what was learned as idle power is idle power.
        ([1.0, 1.0], 60, FIRING),
        # The others may wait without spinning, and at least one must spin.
        ([1.0, 0.005], 75, FIRING),
        ([1.0, 0.0051], 75, CLEAR),
        ([0.0, 0.0], 75, CLEAR),
        ([0.0] * 7 + [1.0], 75, FIRING),
        # One that works clears it, whatever the others do.
        ([1.0] * 7 + [0.6], 75, CLEAR),
        ([1.0], 75, FIRING),
    ],
)
def test_hung(utilizations: list[float], watts: float, outcome: Outcome) -> None:
    assert verdict("hung", evidence(utilizations, gpu_fields=at_power(watts))).outcome is outcome


@pytest.mark.parametrize("missing", ["energy_share", "power_limit", "idle_power"])
def test_without_power_a_job_that_may_hang_is_not_evaluable(missing: str) -> None:
    known = {name: value for name, value in at_power(75).items() if name != missing}
    found = verdict("hung", evidence([1.0, 1.0], gpu_fields=known))
    assert (found.outcome, bool(found.reason)) == (NOT_EVALUABLE, True)
    # One that plainly works is judged all the same.
    assert verdict("hung", evidence([0.7, 1.0], gpu_fields=known)).outcome is CLEAR


def test_a_power_limit_that_is_not_above_idle_power_makes_no_range() -> None:
    fields = at_power(75) | {"power_limit": 70.0}
    assert verdict("hung", evidence([1.0], gpu_fields=fields)).outcome is NOT_EVALUABLE


def test_one_gpu_at_work_clears_a_hang_though_the_power_of_the_other_is_unknown() -> None:
    spins, works = evidence([1.0], gpu_fields={}), evidence([1.0], gpu_fields=at_power(500))
    item = evidence([1.0, 1.0])

    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, (*spins.window(length).gpus, *works.window(length).gpus))

    assert verdict("hung", replace(item, window=window)).outcome is CLEAR


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        ({}, Severity.WARNING),
        (counters(tensor=0.02, dram=0.02, link=10e6), Severity.CRITICAL),
        (counters(tensor=0.0201, dram=0.0, link=0.0), Severity.WARNING),
        (counters(tensor=0.0, dram=0.0201, link=0.0), Severity.WARNING),
        (counters(tensor=0.0, dram=0.0, link=10.01e6), Severity.WARNING),
        # Any one of them confirms, where the others are not measured.
        (counters(tensor=0.0), Severity.CRITICAL),
        (counters(dram=0.02), Severity.CRITICAL),
        (counters(link=10e6), Severity.CRITICAL),
        # Multiprocessors do not: a collective that spins keeps some of them.
        (counters(sm=0.01), Severity.WARNING),
        # Where none was active GPM has stopped measuring, and says nothing; links go on by themselves.
        (counters(sm=0.0, tensor=0.0, dram=0.0), Severity.WARNING),
        (counters(sm=0.0, tensor=0.0, dram=0.0, link=0.0), Severity.CRITICAL),
    ],
)
def test_hung_is_critical_only_where_counters_confirm_it(fields: dict[str, object], severity: Severity) -> None:
    found = verdict("hung", evidence([1.0, 1.0], gpu_fields=at_power(75) | fields))
    assert (found.outcome, found.severity) == (FIRING, severity)


def test_the_liveliest_gpu_decides_what_is_said_of_a_hang() -> None:
    """One that still moves something denies it for all, and one that draws most gives the figure."""
    quiet = evidence([1.0], gpu_fields=at_power(76) | counters(tensor=0.0))
    moving = evidence([1.0], gpu_fields=at_power(130) | counters(tensor=0.3))

    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, (*quiet.window(length).gpus, *moving.window(length).gpus))

    found = verdict("hung", replace(evidence([1.0, 1.0]), window=window))
    assert (found.outcome, found.severity) == (FIRING, Severity.WARNING)
    assert found.figures["tensor_active"] == pytest.approx(0.3)
    assert found.figures["power_level"] == pytest.approx(0.1)


def test_a_shared_gpu_hangs_at_the_power_of_the_device() -> None:
    """A sharer is credited with half of the time and half of the energy."""
    for watts, outcome in ((160, FIRING), (161, CLEAR)):
        fields = at_power(watts / 2) | {"share": 0.5}
        item = evidence([1.0], coverage=0.5, gpu_fields=fields)
        assert verdict("hung", item).outcome is outcome
