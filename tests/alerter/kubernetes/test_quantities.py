"""Amounts as requests and limits write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes.quantities import parse_quantity
from tests.alerter.kubernetes.decoded import GI


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("4", 4.0),
        (4, 4.0),
        (0.5, 0.5),
        ("+4", 4.0),
        ("500m", 0.5),
        ("2.5", 2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("100u", 1e-4),
        ("3n", 3e-9),
        ("1k", 1000.0),
        ("1K", None),
        ("1Ki", 1024.0),
        ("16Gi", 16 * GI),
        ("1.5Gi", 1.5 * GI),
        ("2M", 2e6),
        ("1E", 1e18),
        ("1e3", 1000.0),
        ("1E3", 1000.0),
        ("12e-1", 1.2),
        ("1e3Ki", None),
        ("", None),
        (" 1", None),
        ("1\n", None),
        ("٣", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("1e999", None),
        ("9" * 1000, None),
        ("9Ei", 9 * 2.0**60),
        ("99999E", None),
        (float("nan"), None),
        (-1, None),
        (10**400, None),
    ],
)
def test_quantities(text: str | float, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"no (quantity|amount)"):
            parse_quantity(text)
    else:
        assert parse_quantity(text) == pytest.approx(value)


@given(st.one_of(st.text(max_size=50), st.floats(), st.integers()))
def test_a_quantity_is_a_number_or_refused(text: str | float) -> None:
    with suppress(ValueError):
        assert 0 <= parse_quantity(text) <= 1e20
