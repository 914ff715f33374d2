"""Counters of 32 bits become ones that do not wrap; GPM's rate tells how often they wrapped between two turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.nvml.bytes_counted import ByteCount
from tests.fakes.nvml import A100, H100

GIB = 2**30
WRAP = 2**32


def counted(carried, *, step=5.0, start=123):
    """What is counted of bytes that are carried in each turn, GPM telling the rate."""
    count, total, found = ByteCount(), start, 0
    count.read(0.0, total % WRAP, None)
    for turn, size in enumerate(carried, 1):
        total += size
        found = count.read(turn * step, total % WRAP, size / step)
    return found


def test_it_begins_at_0_once_it_can_be_told():
    """A child that is replaced begins a new counter, whose first value is no increase."""
    count = ByteCount()
    assert count.read(0.0, 123_456, None) is None
    assert count.read(5.0, 123_456, 0.0) == 0


def test_without_gpm_nothing_is_told_of_a_counter_that_may_have_wrapped():
    count = ByteCount()
    assert [count.read(5.0 * turn, 1000 * turn, None) for turn in range(4)] == [None] * 4


def test_while_gpm_is_away_nothing_is_told_and_what_was_counted_stays():
    count = ByteCount()
    count.read(0.0, 0, None)
    assert count.read(5.0, 1000, 200.0) == 1000
    assert count.read(10.0, 5000, None) is None
    assert count.read(15.0, 5500, 100.0) == 1500


@given(st.lists(st.integers(0, 100 * WRAP), max_size=20))
def test_any_number_of_bytes_is_counted_exactly_with_gpm(carried):
    assert counted(carried) == sum(carried)


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


def test_pcie_bytes_go_on_where_the_device_s_counter_wraps(make_rack):
    """20 GiB/s wrap it twenty-five times a turn."""
    rack = make_rack(model=H100)
    rack.driver.traffic(0, pcie_rx=20 * GIB, pcie_tx=1000)
    before = dict(rack.turn(2).gpu.pcie_bytes)
    after = dict(rack.turn(4).gpu.pcie_bytes)
    assert {name: after[name] - before[name] for name in after} == {
        "rx": pytest.approx(20 * 20 * GIB),
        "tx": pytest.approx(20_000),
    }


def test_a_gpu_without_gpm_has_no_pcie_bytes(make_rack):
    rack = make_rack(model=A100)
    rack.driver.traffic(0, pcie_rx=GIB, pcie_tx=1000)
    assert rack.turn(3).gpu.pcie_bytes == ()
