"""Idle gaps longer than a row, credited as the exporter credits them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.recordings.pauses import idle_rows, long_gaps


def gaps(pattern: str, *, length: float = 10.0, time_scale: float = 1.0):
    """Gaps of rows written as `.` (busy), `_` (idle) and `|` (a hole in the recording before the next row)."""
    rows = pattern.replace("|", "")
    apart = np.zeros(len(rows), dtype=bool)
    apart[0] = True
    for at in [pattern[:i].replace("|", "") for i, mark in enumerate(pattern) if mark == "|"]:
        apart[len(at)] = True
    idle = np.array([mark == "_" for mark in rows])
    middle, longest = long_gaps(idle, apart, np.full(len(rows), length), time_scale=time_scale)
    return middle.tolist(), longest.tolist()


@pytest.mark.parametrize(
    ("pattern", "middle", "longest"),
    [
        ("....", [0, 0, 0, 0], [0, 0, 0, 0]),
        (".__.", [0, 0, 0, 0], [0, 0, 0, 0]),  # 20 s: the recording has a column for it
        (".___.", [0, 0, 0, 0, 30], [0, 0, 0, 0, 0]),
        (".___", [0, 0, 0, 30], [0, 0, 0, 0]),
        ("___|.", [0, 0, 30, 0], [0, 0, 0, 0]),
        ("__|__.", [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),  # what lies in a hole is not known
    ],
)
def test_a_gap_counts_whole_when_it_ends(pattern, middle, longest):
    assert gaps(pattern) == (middle, longest)


def test_a_gap_that_reaches_ten_minutes_counts_then_and_as_it_grows():
    middle, longest = gaps("." + "_" * 62 + ".")
    assert middle == [0] * 64
    assert longest == [0] * 60 + [600, 10, 10, 0]


def test_bounds_are_scaled():
    assert gaps(".___.", length=1.0, time_scale=10) == ([0, 0, 0, 0, 3], [0] * 5)


def test_a_row_is_idle_at_zero_or_near_it_without_a_gap_that_ended_in_it():
    utilization = np.array([0.0, 0.0, 0.05, 0.05, 0.06, np.nan])
    short = np.array([0.0, 3.0, 0.0, 3.0, 0.0, 0.0])
    assert idle_rows(utilization, short).tolist() == [True, True, True, False, False, False]


@given(
    st.text("._|", min_size=1, max_size=200).filter(lambda text: text.strip("|")), st.sampled_from([5.0, 30.0, 400.0])
)
def test_no_idle_second_counts_twice(pattern, length):
    pattern = pattern.strip("|")
    middle, longest = gaps(pattern, length=length)
    assert sum(middle) + sum(longest) <= length * pattern.count("_") + 1e-6
