"""Every rule on both sides of each of its bounds; hangs and multiprocessors have files of their own."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import HostUsage, JobEvidence
from dutycycle_alerter.rules import Outcome, judge
from tests.alerter.cases import SETTINGS, START, evidence
from tests.alerter.rules.spinning import at_power
from tests.alerter.rules.timeline import Does, Life
from tests.alerter.rules.verdicts import (
    CLEAR,
    FIRING,
    HOLDING,
    NO_GAPS,
    NOT_APPLICABLE,
    NOT_EVALUABLE,
    WAITING,
    gaps,
    verdict,
)


@pytest.mark.parametrize(
    ("utilizations", "outcome"),
    [
        ([0.0], FIRING),
        ([0.005], FIRING),
        # 0.6 % would round to 1 % or, on another scale, to 0: the unrounded mean decides.
        ([0.0051], HOLDING),
        ([0.02], HOLDING),
        ([0.0201], CLEAR),
        # Every GPU must be idle, and one that works clears it.
        ([0.0] * 7 + [0.006], HOLDING),
        ([0.0] * 7 + [0.03], CLEAR),
        # 0 is a value: seven idle GPUs and one at 100 % are not an average of 100 %.
        ([0.0] * 7 + [1.0], CLEAR),
        ([0.0] * 8, FIRING),
    ],
)
def test_idle(utilizations: list[float], outcome: Outcome) -> None:
    assert verdict("idle", evidence(utilizations)).outcome is outcome


@pytest.mark.parametrize(
    ("over_two_hours", "severity"), [(0.0, Severity.CRITICAL), (0.005, Severity.CRITICAL), (0.0051, Severity.WARNING)]
)
def test_idle_is_critical_when_it_also_holds_over_two_hours(over_two_hours: float, severity: Severity) -> None:
    found = verdict("idle", evidence([0.0, 0.0], by_window={7200: [0.0, over_two_hours]}))
    assert (found.outcome, found.severity) == (FIRING, severity)


@pytest.mark.parametrize(("lately", "outcome"), [(0.02, FIRING), (0.0201, CLEAR)])
def test_work_over_the_last_quarter_of_an_hour_clears_idle(lately: float, outcome: Outcome) -> None:
    assert verdict("idle", evidence([0.0, 0.0], by_window={900: [0.0, lately]})).outcome is outcome


@pytest.mark.parametrize(("lasted", "outcome"), [(1499, WAITING), (1500, CLEAR)])
def test_idle_can_be_cleared_before_it_could_open(lasted: float, outcome: Outcome) -> None:
    assert verdict("idle", evidence([0.5], at=START + lasted)).outcome is outcome


def test_idle_is_a_warning_while_the_job_is_younger_than_two_hours() -> None:
    found = verdict("idle", evidence([0.0], at=START + 600 + 1800))
    assert (found.outcome, found.severity) == (FIRING, Severity.WARNING)


@pytest.mark.parametrize(
    ("utilizations", "outcome", "idle"),
    [
        ([0.0, 0.15], FIRING, 1),
        ([0.0, 0.1499], HOLDING, 1),
        ([0.005, 0.9], FIRING, 1),
        ([0.0051, 0.9], HOLDING, 0),
        ([0.02, 0.9], HOLDING, 0),
        ([0.0201, 0.9], CLEAR, 0),
        ([0.0] * 7 + [0.9], FIRING, 7),
        # All idle is `idle`, not this.
        ([0.0, 0.0], HOLDING, 2),
        # One idle GPU of eight does not make the job idle, but it is partially idle.
        ([0.0] + [0.9] * 7, FIRING, 1),
        ([0.9], NOT_APPLICABLE, None),
    ],
)
def test_partially_idle(utilizations: list[float], outcome: Outcome, idle: int | None) -> None:
    found = verdict("partially_idle", evidence(utilizations))
    assert found.outcome is outcome
    if outcome is FIRING:
        assert len(found.gpus) == idle


SLOW, PAUSED = Does(0.1, memory=30e9), Does(gap_ge600=1.0, memory=30e9)
UNUSED = Does(gap_ge600=1.0, processes=0.0, memory=200 * 2**20)


@pytest.mark.parametrize(
    ("before", "after", "known", "outcome"),
    [
        ([SLOW, UNUSED], [SLOW, UNUSED], {}, FIRING),
        # What the job used once it may use again: the one that works little may be in a pause.
        ([SLOW, replace(UNUSED, processes=1.0)], [SLOW, UNUSED], {}, HOLDING),
        ([SLOW, replace(UNUSED, memory=201 * 2**20)], [SLOW, UNUSED], {}, HOLDING),
        # What is not measured is not known to be unused.
        ([SLOW, replace(UNUSED, processes=None)], [SLOW, UNUSED], {}, HOLDING),
        ([SLOW, replace(UNUSED, memory=None)], [SLOW, UNUSED], {}, HOLDING),
        ([SLOW, UNUSED], [SLOW, UNUSED], {"watched": 49.0}, HOLDING),
        ([SLOW, UNUSED], [SLOW, UNUSED], {"longest": 1800.0}, HOLDING),
        ([SLOW, UNUSED], [SLOW, UNUSED], {"start_told": False}, HOLDING),
        # A job of which no GPU works is idle as a whole.
        ([SLOW, UNUSED], [PAUSED, UNUSED], {}, HOLDING),
        ([UNUSED, UNUSED], [UNUSED, UNUSED], {}, HOLDING),
    ],
)
def test_a_gpu_that_was_never_used_is_unused_however_little_the_others_do(
    before: list[Does], after: list[Does], known: dict[str, object], outcome: Outcome
) -> None:
    item = Life([(20, before), (40, after)], 2).evidence(**known)  # type: ignore[arg-type]
    found = judge(item, SETTINGS)
    verdict, underused = found.verdict("partially_idle"), found.verdict("underused")
    assert verdict.outcome is outcome
    if outcome is FIRING:
        assert (verdict.gpus, underused.outcome) == (item.job.gpus[1:], HOLDING)


@pytest.mark.parametrize(
    ("utilization", "gap_share", "host", "outcome"),
    [
        (0.05, 0.20, HostUsage(), FIRING),
        (0.0499, 0.20, HostUsage(), HOLDING),
        (0.6999, 0.20, HostUsage(), FIRING),
        (0.70, 0.20, HostUsage(), HOLDING),
        (0.40, 0.1999, HostUsage(), HOLDING),
        (0.40, 0.12, HostUsage(), HOLDING),
        (0.40, 0.1199, HostUsage(), CLEAR),
        (0.80, 0.20, HostUsage(), HOLDING),
        (0.8001, 0.20, HostUsage(), CLEAR),
        (0.40, 0.0, HostUsage(cpu_of_limit=0.90), FIRING),
        (0.40, 0.0, HostUsage(cpu_of_limit=0.8999), HOLDING),
        (0.40, 0.0, HostUsage(cpu_of_limit=0.80), HOLDING),
        (0.40, 0.0, HostUsage(cpu_of_limit=0.7999), CLEAR),
        (0.40, 0.0, HostUsage(io_pressure=0.20), FIRING),
        (0.40, 0.0, HostUsage(cpu_pressure=0.20), FIRING),
        (0.40, 0.0, HostUsage(io_pressure=0.1999), HOLDING),
        (0.40, 0.0, HostUsage(io_pressure=0.12), HOLDING),
        (0.40, 0.0, HostUsage(io_pressure=0.1199), CLEAR),
        (0.40, 0.0, HostUsage(cpu_pressure=0.1199, io_pressure=0.12), HOLDING),
        # What is not measured is left out, on opening and on clearing.
        (0.40, None, HostUsage(cpu_of_limit=0.95), FIRING),
        (0.40, None, HostUsage(cpu_of_limit=0.5), CLEAR),
        (0.40, None, HostUsage(), NOT_EVALUABLE),
    ],
)
def test_stalled(utilization: float, gap_share: float | None, host: HostUsage, outcome: Outcome) -> None:
    fields = {} if gap_share is None else gaps(gap_share)
    assert verdict("stalled", evidence([utilization], gpu_fields=fields, host=host)).outcome is outcome


def test_long_pauses_do_not_make_a_job_stalled() -> None:
    fields = NO_GAPS | {"gap_30to600_share": 0.5}
    assert verdict("stalled", evidence([0.4], gpu_fields=fields)).outcome is CLEAR


@pytest.mark.parametrize(
    ("utilizations", "outcome"),
    [
        ([0.9, 0.54], FIRING),
        ([0.9, 0.5401], HOLDING),
        ([0.9, 0.63], HOLDING),
        ([0.9, 0.6301], CLEAR),
        ([0.30, 0.10], FIRING),
        ([0.2999, 0.10], HOLDING),
        # Partially idle says it better.
        ([0.9, 0.0], HOLDING),
        ([0.9, 0.9], CLEAR),
        ([0.9], NOT_APPLICABLE),
    ],
)
def test_uneven(utilizations: list[float], outcome: Outcome) -> None:
    assert verdict("uneven", evidence(utilizations)).outcome is outcome


def test_uneven_names_the_gpus_that_lag() -> None:
    found = verdict("uneven", evidence([0.95, 0.30, 0.92, 0.50]))
    assert [gpu.index for gpu in found.gpus] == ["1", "3"]


def test_uneven_over_nodes() -> None:
    """Every GPU of the second node lags, so that its mean does."""
    found = verdict("uneven", evidence([0.9, 0.9, 0.5, 0.5], nodes=2))
    assert (found.outcome, [gpu.node for gpu in found.gpus]) == (FIRING, ["node1", "node1"])


def test_a_job_that_declared_its_ranks_different_is_not_uneven() -> None:
    assert verdict("uneven", evidence([0.9, 0.2], expect_uneven=True)).outcome is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("utilization", "last", "outcome"),
    [
        (0.01, 0.01, FIRING),
        (0.2499, 0.2499, FIRING),
        (0.25, 0.2, HOLDING),
        (0.2, 0.25, HOLDING),
        (0.2, 0.32, HOLDING),
        (0.2, 0.3201, CLEAR),
        # A job that stands still is left to `idle`.
        (0.2, 0.005, CLEAR),
        (0.2, 0.0051, FIRING),
    ],
)
def test_underused(utilization: float, last: float, outcome: Outcome) -> None:
    found = verdict("underused", evidence([utilization], by_window={900: [last]}, gpu_fields=NO_GAPS))
    assert (found.outcome, found.severity) == (outcome, Severity.WARNING)


@pytest.mark.parametrize(
    ("item", "explained_by"),
    [
        (evidence([0.0]), "idle"),
        (evidence([0.4, 0.0]), "partially_idle"),
        (evidence([0.17], gpu_fields=gaps(0.33)), "stalled"),
        (evidence([0.40, 0.04], gpu_fields=NO_GAPS), "uneven"),
        (evidence([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], gpu_fields=NO_GAPS | at_power(75)), "hung"),
    ],
)
def test_underused_does_not_fire_where_a_rule_above_does(item: JobEvidence, explained_by: str) -> None:
    judgement = judge(item, SETTINGS)
    assert judgement.verdict(explained_by).outcome is FIRING
    assert judgement.verdict("underused").outcome in (HOLDING, CLEAR)
