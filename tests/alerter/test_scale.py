"""How durations are written and read."""

from contextlib import suppress
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.scale import format_duration, parse_duration, write_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("250ms", 0.25),
        ("1m30s", 90),
        ("1h30m", 5400),
        ("15m", 900),
        ("2d", 172800),
        ("1w", 604800),
        ("0.5h", 1800),
        ("0s", 0),
        (" 30s\n", 30),
    ],
)
def test_durations_are_read_as_prometheus_writes_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "s",
        "5 s",
        "-5s",
        "+5s",
        "5S",
        "5sec",
        "1h 30m",
        "1e3s",
        "5s5",
        "x5s",
        "∞s",
        "٣s",
        "1,5s",
        "1" * 65,
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write it like 30s, 15m or 1h30m"):
        parse_duration(text)


def test_a_refusal_does_not_repeat_a_whole_file() -> None:
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration("password: " * 100_000)
    assert len(str(refused.value)) < 200


UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}


@given(st.text(max_size=200) | st.text("0123456789.wdhms", max_size=70))
def test_no_text_is_worse_than_refused(text: str) -> None:
    with suppress(ValueError):
        parse_duration(text)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(list(UNITS))), min_size=1, max_size=6, unique_by=itemgetter(1)
    )
)
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    parts = sorted(parts, key=lambda part: -UNITS[part[1]])
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == pytest.approx(sum(number * UNITS[unit] for number, unit in parts))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.001, "0.001s"),
        (0.25, "0.25s"),
        (15, "15s"),
        (60, "1m"),
        (90, "90s"),
        (7200, "2h"),
        (129600, "36h"),
        (604800, "7d"),
        (1234567, "1234567s"),
        (86400 * 36500.0, "36500d"),
    ],
)
def test_durations_are_written_in_the_largest_unit_that_divides_them(seconds: float, text: str) -> None:
    assert write_duration(seconds) == text


@given(st.floats(0.001, 36500 * 86400) | st.integers(1, 36500 * 86400).map(float))
def test_a_written_duration_reads_back_exactly(seconds: float) -> None:
    assert parse_duration(write_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (5, "5 s"),
        (5.5, "5.5 s"),
        (9.97, "10 s"),
        (45.4, "45 s"),
        # Never "60 s" or "60 min": what rounds up to the next unit is written in it.
        (59.7, "1 min"),
        (89, "1 min"),
        (720, "12 min"),
        (3599, "1 h"),
        (7500, "2 h 5 min"),
        (47.99 * 3600, "47 h 59 min"),
        (48 * 3600, "2 d"),
        (76 * 3600, "3 d 4 h"),
    ],
)
def test_people_read_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
