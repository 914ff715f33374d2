"""What kinds of jobs a rule is for, when it can speak, and what is unknown to it."""

import pytest

from dutycycle_alerter.model import JobEvidence, JobKind
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Judging, Rules
from tests.alerter.cases import LATER, SETTINGS, START, evidence, moved
from tests.alerter.rules.verdicts import CLEAR, FIRING, NO_GAPS, NOT_APPLICABLE, UNKNOWN, WAITING, verdict


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
        # A process of the job's former run, which a source still remembers.
        (evidence([0.0], at=START + 2399, first_process=START - 7200), START + 2400),
        # Where nobody tells when it began, a process says that it was before it was seen.
        (evidence([0.0], at=START + 2099, first_process=START - 300, start_told=False), START + 2100),
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
