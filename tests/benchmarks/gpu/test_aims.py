"""What a case on a real GPU missed is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.gpu.aims import missed
from benchmarks.gpu.cases import Case
from benchmarks.gpu.comparison import Figures

CASE = Case("fed", (("fed",),))
FOUND = Figures(
    name="fed",
    seconds=81.0,
    truth=0.60,
    busy=0.59,
    theirs=0.60,
    observed=1.0,
    sm=0.30,
    sm_truth=0.299,
    watts=300.0,
    watts_theirs=303.0,
    units={},
    owned=[],
    facts=[],
    right=True,
)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, []),
        ({"busy": 0.57}, ["duty cycle"]),
        ({"sm": 0.33}, ["SM activity"]),
        # Programs whose kernels hold nobody knows how many multiprocessors.
        ({"sm": 0.33, "sm_truth": None}, []),
        ({"watts": 290.0}, ["energy"]),
        ({"watts": None}, []),
        ({"right": False}, ["what was found"]),
        ({"right": None}, []),
        ({"busy": 0.7, "right": False}, ["duty cycle", "what was found"]),
        # Nothing was read of the GPU: nothing that would be right.
        ({"busy": None}, ["not measured"]),
    ],
)
def test_what_is_too_far_off_is_named(changed: dict[str, object], named: list[str]) -> None:
    assert missed(CASE, replace(FOUND, **changed)) == named


def test_what_did_not_run_was_not_measured() -> None:
    assert missed(CASE, None) == ["not measured"]


def test_what_cannot_be_compared_is_not_asked() -> None:
    off = replace(FOUND, busy=0.7, watts=200.0)
    assert missed(replace(CASE, exact=False, steady=False), off) == []
