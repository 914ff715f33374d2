"""Figures as people read them: unknown is unknown, and what is not zero never reads as zero."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter import figures
from dutycycle_alerter.model import Gpu

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 14, 5, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "unknown"),
        (0.0, "0 %"),
        (0.0004, "under 0.1 %"),
        (0.001, "0.1 %"),
        (0.042, "4.2 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (0.5, "50 %"),
        (1.0, "100 %"),
    ],
)
def test_percent(ratio: float | None, text: str) -> None:
    assert figures.percent(ratio) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0, "0"),
        (1, "under 0.01"),
        (36, "0.01"),
        (1800, "0.50"),
        (3570, "0.99"),
        (3600, "1.0"),
        (359_700, "99.9"),
        (360_000, "100"),
        (4_334_400, "1,204"),
    ],
)
def test_hours(seconds: float | None, text: str) -> None:
    assert figures.hours(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1 / 7, "0.143"), (0.25, "0.25"), (8.0, "8"), (999.4, "999"), (999.6, "1,000"), (2048, "2,048")],
)
def test_amount(number: float, text: str) -> None:
    assert figures.amount(number) == text


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (None, "unknown"),
        (0, "0 Wh"),
        (1, "under 0.1 Wh"),
        (3600, "1.0 Wh"),
        (3.06e6, "850 Wh"),
        (3.6e6, "1.0 kWh"),
        (4.464e7, "12.4 kWh"),
        (3.6e9, "1,000 kWh"),
    ],
)
def test_energy(joules: float | None, text: str) -> None:
    assert figures.energy(joules) == text


@pytest.mark.parametrize(
    ("grams", "text"),
    [
        (None, "unknown"),
        (0, "0 g"),
        (0.04, "under 0.1 g"),
        (0.3, "0.3 g"),
        (12, "12 g"),
        (999.4, "999 g"),
        (999.6, "1.0 kg"),
        (42_220, "42.2 kg"),
        (1_204_000, "1,204 kg"),
    ],
)
def test_mass(grams: float | None, text: str) -> None:
    assert figures.mass(grams) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "unknown"), (0, "0.00"), (0.002, "under 0.01"), (0.005, "0.01"), (1234.5, "1,234.50")],
)
def test_money(amount: float | None, text: str) -> None:
    assert figures.money(amount) == text


@pytest.mark.parametrize(
    ("bytes_", "text"), [(None, "unknown"), (0, "0.0 GiB"), (2**20, "under 0.1 GiB"), (79.6 * 2**30, "79.6 GiB")]
)
def test_gibibytes(bytes_: float | None, text: str) -> None:
    assert figures.gibibytes(bytes_) == text


@pytest.mark.parametrize(
    "said",
    [figures.percent, figures.hours, figures.energy, figures.mass, figures.money, figures.gibibytes],
    ids=lambda said: said.__name__,
)
@given(value=st.floats(min_value=1e-12, max_value=1))
def test_what_is_not_zero_never_reads_as_zero(said: Callable[[float], str], value: float) -> None:
    """Nor as a zero of some digits, such as 0.0 kg."""
    assert set(said(value).split()[0].strip("0.")) or said(value).startswith("under"), said(value)


@pytest.mark.parametrize(
    ("seconds_before", "text"),
    [
        (0, "14:05"),
        (6 * 3600, "08:05"),
        (15 * 3600, "Fri 20 Nov, 23:05"),
        (-12 * 3600, "Sun 22 Nov, 02:05"),
        (20 * 86400, "Sun 1 Nov, 14:05"),
        (400 * 86400, "17 Oct 2025, 14:05"),
    ],
)
def test_moment_is_as_short_as_can_be_told_apart(seconds_before: float, text: str) -> None:
    assert figures.moment(NOW - seconds_before, now=NOW, zone=UTC) == text


def test_a_moment_before_clocks_were_changed_says_its_zone() -> None:
    """A page says once what zone its times are in: that of now."""
    autumn, winter = (datetime(2026, month, 20, 12, 5, tzinfo=UTC).timestamp() for month in (10, 11))
    assert figures.zone_name(winter, BERLIN) == "CET"
    assert figures.moment(winter - 86400, now=winter, zone=BERLIN) == "Thu 19 Nov, 13:05"
    assert figures.moment(autumn, now=winter, zone=BERLIN) == "Tue 20 Oct, 14:05 CEST"
    assert figures.moment(autumn, now=autumn, zone=BERLIN) == "14:05"
    assert figures.moment(autumn + 3600, now=winter, zone=BERLIN, beside=autumn) == "15:05 CEST"


def test_a_zone_at_a_moment_has_the_offset_of_then() -> None:
    autumn, winter = (datetime(2026, month, 20, tzinfo=UTC).timestamp() for month in (10, 11))
    assert [figures.clock_at(t, BERLIN).tzname(None) for t in (autumn, winter)] == ["CEST", "CET"]
    assert f"{figures.local(winter, figures.clock_at(autumn, BERLIN)):%H:%M %Z}" == "02:00 CEST"


def test_moment_is_in_the_zone_and_to_the_second_where_asked() -> None:
    zone = timezone(timedelta(hours=10))
    assert figures.moment(NOW, now=NOW, zone=zone, seconds=True) == "00:05:30"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "just now"), (-0.4, "just now"), (45, "45 s ago"), (7500, "2 h 5 min ago"), (-720, "in 12 min")],
)
def test_ago(seconds: float, text: str) -> None:
    assert figures.ago(seconds) == text


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (["0"], "0"),
        (["0", "1"], "0, 1"),
        (["3", "1", "2", "0"], "0–3"),
        (["0", "1", "2", "5", "7", "8"], "0–2, 5, 7, 8"),
        (["left", "1"], "1, left"),
        (["0", "9" * 5000], "0, " + "9" * 5000),
        (["²"], "²"),
    ],
)
def test_gpus_of_a_node(indexes: list[str], text: str) -> None:
    assert figures.gpu_places(Gpu("n", index) for index in indexes) == [("n", text)]


def test_gpus_by_node_in_the_given_order_and_mig_instances_counted() -> None:
    gpus = [Gpu("b", "0"), Gpu("a", "1"), Gpu("b", "1", mig="MIG-1"), Gpu("b", "1", mig="MIG-2")]
    assert figures.gpu_places(gpus) == [("b", "0, 1 (2 MIG)"), ("a", "1")]
    assert figures.gpu_places([]) == []


def test_count() -> None:
    assert [figures.count(n, "job") for n in (0, 1, 2, 1200)] == ["0 jobs", "1 job", "2 jobs", "1,200 jobs"]
    assert figures.count(2, "process", "processes") == "2 processes"
