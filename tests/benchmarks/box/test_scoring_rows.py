"""The rows of a score, as somebody reads them who does not know what is behind them."""

from __future__ import annotations

from benchmarks.box.model import Condition, Fault, Observed, SeenIncident
from benchmarks.box.scoring import rows, score
from benchmarks.box.scoring.aims import FEWEST
from tests.benchmarks.box.scored import HOUR, LENGTH, condition, fleet, incident, job, observed, scenario, truth

MINUTE = 60.0
STEPS = (0.5, 10.0, None)


def _row(subject: str, conditions: list[Condition], seen: list[SeenIncident], *faults: Fault) -> str:
    """The figure of a subject, of one job for each condition."""
    jobs = [job(number, gpus=((f"m{number}", 0),)) for number, _ in enumerate(conditions, start=1)]
    truths = {one.number: truth(one, each) for one, each in zip(jobs, conditions, strict=True)}
    return _figure(subject, scenario(jobs, faults), truths, observed(seen))


def _figure(subject: str, plan, truths, seen: Observed) -> str:
    (figure,) = (row.figure for row in rows(score(plan, truths, seen), "theirs.toml") if subject in row.what)
    return figure


def test_the_time_to_detect_is_told_by_the_length_of_steps() -> None:
    conditions = [condition(step=step) for step in STEPS]
    seen = [
        incident(HOUR + (40 + number) * MINUTE, job=job(number), id=number) for number, _ in enumerate(STEPS, start=1)
    ]
    assert _row("time to detect", conditions, seen) == (
        "steps under 2 s: median 1.0 min, 95 % within 1.0 min, of 1; steps 2 to 30 s: median 2.0 min, 95 % within "
        "2.0 min, of 1; no steps: median 3.0 min, 95 % within 3.0 min, of 1; all: median 2.0 min, 95 % within 3.0 min, "
        "of 3"
    )
    assert _row("time to detect", conditions, []) == "nothing was told that must be"


def test_what_is_told_sooner_than_a_rule_can_open_shortens_no_time_to_detect() -> None:
    conditions = [condition(), condition()]
    seen = [incident(HOUR + minutes * MINUTE, job=job(number), id=number) for number, minutes in ((1, 20), (2, 42))]
    assert _row("time to detect", conditions, seen).endswith(
        "all: median 2.0 min, 95 % within 2.0 min, of 1, 1 sooner than that"
    )
    assert _row("time to detect", conditions[:1], seen[:1]).endswith("all: 1 sooner than that")


def test_a_mechanism_that_mostly_gets_no_one_cause_is_named_once_there_are_enough_of_it() -> None:
    def row(cases: int, sure: int) -> str:
        causes = [("no process",) if number <= sure else ("no process", "hang") for number in range(1, cases + 1)]
        seen = [
            incident(HOUR + 40 * MINUTE, causes=named, job=job(number), id=number)
            for number, named in enumerate(causes, start=1)
        ]
        return _row("causes: of incidents", [condition()] * cases, seen)

    assert row(FEWEST, 9).endswith(f"; mostly so: {job(1).mechanism} {FEWEST - 9} of {FEWEST}")
    assert "mostly" not in row(FEWEST, FEWEST // 2)
    assert "mostly" not in row(FEWEST - 1, 0)


def test_what_need_not_be_told_is_told_by_its_reason_and_not_by_what_went_on() -> None:
    spins, no_gpm = ({"must": False, name: why} for name, why in (("unruled", "ranks spin"), ("silent", "no GPM")))
    conditions = [
        condition("uneven", **spins),
        condition("uneven", **spins),
        condition("low_sm_activity", **no_gpm),
        condition(must=False, early="too short"),
        condition("stalled", must=False),
    ]
    assert _row("what need not be told", conditions, [incident(2 * HOUR, rule="stalled", job=job(5))]) == (
        "a signal shows it, and no rule is for it: 2 (2 ranks spin); no signal tells it: 1 (1 no GPM); over before a "
        "rule is asked, or cut off by a run's end: 1; near a bound, or exempt: 1, of which 1 were told"
    )


def test_gpus_and_nodes_have_a_row_of_their_own() -> None:
    fault = Fault(("n0", 0), HOUR, "xid", 79)
    told_it = incident(HOUR + 60, rule="gpu_fault", kind="gpu_fault", gpu="n0/0", workload="")
    figure = _row("GPUs and nodes", [condition()], [told_it], fault)
    assert figure == "precision 1.000 [0.207, 1.000] of 1; recall 1.000 [0.207, 1.000] of 1"


def test_reports_that_the_truth_does_not_know_are_told_as_not_judged() -> None:
    report = incident(LENGTH - HOUR, rule="overallocated", kind="report", severity="info")
    assert _row("reports", [condition()], [report]) == "precision -; recall -; 1 not judged"


def test_aims_that_are_not_shown_are_no_aims_that_are_met() -> None:
    plan, truths = fleet()
    sick = plan.jobs[0]
    figure = _figure("aims", plan, truths, observed([incident(sick.start + 40 * MINUTE, sick.end, job=sick)]))
    assert figure.startswith("missed: all jobs: recall 0.500 ")
    assert "not shown, as the interval reaches beyond the aim, 3;" in figure
