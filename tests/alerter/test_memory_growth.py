"""When memory grew: the same for whoever reads it at whatever moments, also of memory that wavers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.memory_growth import MEMORY_GROWTH, Highs

TOTAL = 80.0
READINGS = st.lists(st.floats(0.0, TOTAL), min_size=1, max_size=60)


def highs(readings: list[float]) -> Highs:
    found = Highs()
    for at, used in enumerate(readings):
        found.add(float(at), used, TOTAL)
    return found


@given(READINGS)
def test_it_is_when_memory_first_was_about_as_high_as_it_has_been_since(readings: list[float]) -> None:
    grew = highs(readings).grew_at()
    close = next(at for at, used in enumerate(readings) if used >= max(readings) - MEMORY_GROWTH * TOTAL)
    assert grew == (None if close == 0 else close)


@given(READINGS, st.integers(0, 59))
def test_what_comes_later_does_not_count_yet(readings: list[float], until: int) -> None:
    assert highs(readings).grew_at(until) == highs(readings[: until + 1]).grew_at()
    assert highs(readings).known(until)
    assert not highs(readings).known(-1)


@given(READINGS, st.integers(1, 5))
def test_who_reads_the_highest_of_some_readings_at_a_time_sees_it_as_much_later(
    readings: list[float], every: int
) -> None:
    """An alerter reads the highest of a window at each pass; `analyze` reads each row."""
    each, passes = highs(readings), Highs()
    for last in range(every - 1, len(readings) + every - 1, every):
        passes.add(float(last), max(readings[: last + 1]), TOTAL)
    fine, coarse = each.grew_at(), passes.grew_at()
    if coarse is None:
        assert fine is None or fine < every
    else:
        assert fine is not None
        assert 0 <= coarse - fine < every
