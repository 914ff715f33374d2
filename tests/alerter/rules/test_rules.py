"""Every rule on both sides of each of its bounds, and what kinds of jobs it is for."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind, WindowEvidence
from dutycycle_alerter.rules import Outcome, Verdict, judge
from dutycycle_alerter.settings import Judging, Rules
from tests.alerter.cases import LATER, SETTINGS, START, evidence, moved
from tests.alerter.rules.spinning import at_power, counters

FIRING, CLEAR, HOLDING = Outcome.FIRING, Outcome.CLEAR, Outcome.HOLDING
WAITING, UNKNOWN = Outcome.WAITING, Outcome.UNKNOWN
NOT_EVALUABLE, NOT_APPLICABLE = Outcome.NOT_EVALUABLE, Outcome.NOT_APPLICABLE

NO_GAPS = {"gap_lt2_share": 0.0, "gap_2to30_share": 0.0, "gap_30to600_share": 0.0, "gap_ge600_share": 0.0}


def gaps(share: float) -> dict[str, object]:
    return NO_GAPS | {"gap_lt2_share": share / 2, "gap_2to30_share": share / 2}


def verdict(rule: str, item: JobEvidence, settings: Judging = SETTINGS) -> Verdict:
    return judge(item, settings).verdict(rule)


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
        # Nothing was busy: there is nothing to take a share of.
        (0.0, 0.0, HOLDING),
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


@pytest.mark.parametrize(
    ("utilization", "outcome", "severity"),
    [
        (0.1499, FIRING, Severity.CRITICAL),
        (0.15, FIRING, Severity.WARNING),
        (0.2499, FIRING, Severity.WARNING),
        (0.25, HOLDING, Severity.WARNING),
        (0.32, HOLDING, Severity.WARNING),
        (0.3201, CLEAR, Severity.WARNING),
    ],
)
def test_underused(utilization: float, outcome: Outcome, severity: Severity) -> None:
    found = verdict("underused", evidence([utilization], gpu_fields=NO_GAPS))
    assert (found.outcome, found.severity) == (outcome, severity)


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
    assert judgement.verdict("underused").outcome is HOLDING


@pytest.mark.parametrize(
    ("kind", "applies"),
    [
        (JobKind.BATCH, set(Rules.ORDER)),
        (JobKind.INTERACTIVE, {"idle", "partially_idle"}),
        (JobKind.SERVING, {"idle"}),
    ],
)
def test_kinds_are_judged_by_their_own_rules(kind: JobKind, applies: set[str]) -> None:
    judgement = judge(evidence([0.4, 0.4], kind=kind, gpu_fields=NO_GAPS), SETTINGS)
    assert {v.rule for v in judgement.verdicts if v.outcome is not NOT_APPLICABLE} == applies


@pytest.mark.parametrize(("lasted", "outcome"), [(600 + 86399, WAITING), (600 + 86400, FIRING)])
def test_a_serving_job_is_idle_only_over_a_day(lasted: float, outcome: Outcome) -> None:
    item = evidence([0.0], at=START + lasted, kind=JobKind.SERVING)
    assert verdict("idle", item).outcome is outcome


@pytest.mark.parametrize("rule", Rules.ORDER)
def test_a_rule_that_is_disabled_is_not_applied(rule: str) -> None:
    settings = Judging.model_validate({"rules": {rule: {"enabled": False}}})
    assert verdict(rule, evidence([0.0, 0.0]), settings).outcome is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("item", "until"),
    [
        # Ten minutes from the first process, and then a whole window.
        (evidence([0.0], at=START + 2399), START + 2400),
        # Without a process, from the allocation.
        (evidence([0.0], at=START + 2399, first_process=None), START + 2400),
        # A process that came an hour late.
        (evidence([0.0], at=START + 5999, first_process=START + 3600), START + 6000),
        # While memory still grows, up to 20 minutes.
        (evidence([0.0], at=START + 2699, memory_grew_at=START + 900), START + 2700),
        (evidence([0.0], at=START + 2999, memory_grew_at=START + 1500), START + 3000),
        # Memory that settled early changes nothing.
        (evidence([0.0], at=START + 2399, memory_grew_at=START + 30), START + 2400),
        (evidence([0.0], at=START + 5399, kind=JobKind.INTERACTIVE), START + 5400),
    ],
)
def test_a_young_job_is_not_judged(item: JobEvidence, until: float) -> None:
    waiting = verdict("idle", item)
    assert (waiting.outcome, waiting.until) == (WAITING, until)
    assert verdict("idle", moved(item, until)).outcome is FIRING


def test_while_no_rule_can_speak_it_is_known_when_the_first_can() -> None:
    """The shortest window is the first to lie after grace."""
    assert judge(evidence([0.0], at=START + 1499), SETTINGS).first_verdict_at == START + 1500
    assert judge(evidence([0.0], at=START + 1500), SETTINGS).first_verdict_at is None


def test_a_job_is_judged_once_its_window_lies_after_grace() -> None:
    assert verdict("idle", evidence([0.0], at=START + 2400)).outcome is FIRING


@pytest.mark.parametrize("coverage", [0.0, 0.5, 0.799])
def test_a_gpu_that_was_hardly_measured_makes_the_job_unknown(coverage: float) -> None:
    judgement = judge(evidence([0.0, 0.0], coverage=[1.0, coverage], gpu_fields=NO_GAPS), SETTINGS)
    assert {v.outcome for v in judgement.verdicts} == {UNKNOWN}
    assert "node0:1" in judgement.verdict("idle").reason


def test_exact_coverage_is_enough() -> None:
    assert verdict("idle", evidence([0.0, 0.0], coverage=0.8)).outcome is FIRING


def test_unmeasured_is_never_idle() -> None:
    assert verdict("idle", evidence([None])).outcome is UNKNOWN


def test_a_job_whose_exporter_is_silent_is_unknown() -> None:
    judgement = judge(evidence([0.0], visible=False), SETTINGS)
    assert {v.outcome for v in judgement.verdicts} <= {UNKNOWN, NOT_APPLICABLE}


def test_one_busy_gpu_clears_idle_whatever_is_unknown_of_the_others() -> None:
    assert verdict("idle", evidence([0.5, 0.0], coverage=[1.0, 0.1])).outcome is CLEAR


def test_a_half_share_of_a_gpu_is_covered_by_half_of_its_time() -> None:
    item = evidence([0.0], coverage=0.5, gpu_fields={"share": 0.5}, at=LATER)
    assert verdict("idle", item).outcome is FIRING


def test_a_sharer_that_does_more_than_its_share_is_fully_busy_and_no_busier() -> None:
    """Two hold the GPU, one does all of its work: busy for twice what it was observed for."""
    item = evidence([2.0, 0.0], coverage=0.5, gpu_fields={"share": 0.5} | NO_GAPS)
    judgement = judge(item, SETTINGS)
    assert judgement.verdict("partially_idle").figures["busiest_utilization"] == 1.0
    # Its surplus is no work of the other GPU.
    assert judgement.verdict("underused").figures["utilization"] == 0.5
    assert all(value <= 1 for v in judgement.verdicts for name, value in v.figures.items() if "gpus" not in name)


def test_a_job_that_holds_no_gpu_at_present_is_unknown() -> None:
    judgement = judge(evidence([], at=LATER), SETTINGS)
    assert {v.outcome for v in judgement.verdicts} <= {UNKNOWN, NOT_APPLICABLE}
