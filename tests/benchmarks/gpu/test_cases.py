"""Whether a case's incidents are those that there were to be found."""

from __future__ import annotations

import pytest

from benchmarks.gpu.cases import CASES, Case, as_expected, verdict
from benchmarks.gpu.workloads import LOOPS

STARVED = Case("starved", (("starved",),), ("stalled",), "data loading")
WELL = Case("fed", (("fed",),))


def incident(rule: str, *causes: str) -> dict[str, object]:
    return {"rule": rule, "causes": list(causes)}


@pytest.mark.parametrize(
    ("case", "incidents", "right"),
    [
        (STARVED, [[incident("stalled", "data loading")]], True),
        (STARVED, [[incident("stalled", "data loading", "small work per step")]], True),
        (STARVED, [[incident("stalled", "small work per step")]], False),
        (STARVED, [[incident("underused", "data loading")]], False),
        (STARVED, [[]], False),
        # Each of several jobs is to be found.
        (STARVED, [[incident("stalled", "data loading")], []], False),
        (WELL, [[]], True),
        (WELL, [[incident("underused", "small work per step")]], False),
        (Case("narrow", (("narrow",),), judged=False), [[incident("idle")]], None),
    ],
)
def test_what_was_found_is_right_where_it_names_the_mechanism_and_nothing_where_there_is_none(case, incidents, right):
    assert as_expected(case, incidents) is right


def test_every_case_runs_a_program_that_there_is():
    assert {program[0] for case in CASES for program in case.programs} <= LOOPS.keys()
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("right", "causes", "said"),
    [
        (False, [["hang"]], "**which is wrong**"),
        (True, [], "rightly not told"),
        (True, [["data loading"]], "named"),
        (True, [["data loading"], ["communication", "straggler"]], "hesitates between 2"),
    ],
)
def test_a_cause_among_several_is_not_a_cause_that_was_named(right: bool, causes: list[list[str]], said: str) -> None:
    assert verdict(right, [{"causes": each} for each in causes]) == said
