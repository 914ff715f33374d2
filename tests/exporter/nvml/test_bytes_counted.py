"""Counters of 32 bits become ones that do not wrap; GPM's rate tells how often they wrapped between two turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.nvml.bytes_counted import ByteCount
from tests.fakes.nvml import A100, H100

GIB = 2**30
WRAP = 2**32


def counted(carried, *, rate_known, step=5.0, start=123):
    """What is counted of bytes that are carried in each turn."""
    count, total = ByteCount(), start
    found = [count.read(0.0, total % WRAP, None)]
    for turn, size in enumerate(carried, 1):
        total += size
        found.append(count.read(turn * step, total % WRAP, size / step if rate_known else None))
    return found


def test_it_begins_at_0():
    """A child that is replaced begins a new counter, whose first value is no increase."""
    assert ByteCount().read(0.0, 123_456, None) == 0


@given(st.lists(st.integers(0, WRAP - 1), max_size=20))
def test_less_than_4_gib_a_turn_are_counted_exactly_without_gpm(carried):
    assert counted(carried, rate_known=False)[-1] == sum(carried)


@given(st.lists(st.integers(0, 100 * WRAP), max_size=20))
def test_any_number_of_bytes_is_counted_exactly_with_gpm(carried):
    assert counted(carried, rate_known=True)[-1] == sum(carried)


@given(st.lists(st.integers(0, 100 * WRAP), max_size=20), st.floats(-0.3, 0.3))
def test_a_rate_of_a_slightly_other_time_is_good_enough(carried, error):
    count, total = ByteCount(), 0
    count.read(0.0, 0, None)
    for turn, size in enumerate(carried, 1):
        total += size
        rate = max(0.0, (size + error * WRAP) / 5)
        assert count.read(turn * 5.0, total % WRAP, rate) == total


def test_a_counter_of_64_bits_does_not_wrap_and_begins_anew_when_it_goes_back():
    count = ByteCount()
    count.read(0.0, 10 * WRAP, 0.0)
    assert count.read(5.0, 12 * WRAP, 0.0) == 2 * WRAP
    assert count.read(10.0, 7 * WRAP, 0.0) == 9 * WRAP


@pytest.mark.parametrize(("model", "rx"), [(H100, 20 * GIB), (A100, GIB // 2)])
def test_pcie_bytes_go_on_where_the_device_s_counter_wraps(make_rack, model, rx):
    """20 GiB/s wrap it twenty-five times a turn; without GPM it may wrap once."""
    rack = make_rack(model=model)
    rack.driver.traffic(0, pcie_rx=rx, pcie_tx=1000)
    before = dict(rack.turn(2).gpu.pcie_bytes)
    after = dict(rack.turn(4).gpu.pcie_bytes)
    assert {name: after[name] - before[name] for name in after} == {
        "rx": pytest.approx(20 * rx),
        "tx": pytest.approx(20_000),
    }
