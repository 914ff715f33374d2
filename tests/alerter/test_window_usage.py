"""What a job did over a window: every counter by its name, and nothing where it was not measured."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES, Series
from dutycycle_alerter.window_usage import gpu_usage, host_usage, memory_grew_at, window_evidence

GIB = 2.0**30

# What one GPU did


def gpu_series(
    *points: tuple[float, float, float], gauges: Sequence[tuple[float | None, ...]] | None = None, **counters: float
) -> Series:
    """A GPU's series from (t, observed, busy); allocated is as observed, other counters grow by a rate."""
    made = Series(len(GPU_COUNTERS))
    for i, (t, observed, busy) in enumerate(points):
        values = {"allocated": observed, "observed": observed, "busy": busy}
        values |= {name: rate * t for name, rate in counters.items()}
        row = (1.0, None, None, None, None) if gauges is None else gauges[i]
        made.append(t, tuple(values.get(name) for name in GPU_COUNTERS), row)
    return made


def test_gpu_usage_names_every_counter() -> None:
    rates = {"gap_lt2": 0.1, "gap_2to30": 0.2, "gap_30to600": 0.3, "gap_ge600": 0.4, "energy": 300.0}
    rates |= {"sm": 0.5, "tensor": 0.3, "dram": 0.2, "throttle_thermal": 0.06, "link_bytes": 1e9, "low": 0.7}
    made = gpu_series(
        (0, 0, 0), (100, 90, 45), gauges=[(0.5, 1.0, 8.0, 2.0, 700.0), (0.5, 4.0, 8.0, 1.0, 650.0)], **rates
    )
    usage = gpu_usage(made, 0, 100, idle_power=65)
    assert (usage.allocated, usage.observed, usage.busy) == (90, 90, 45)
    gaps = (usage.gap_lt2, usage.gap_2to30, usage.gap_30to600, usage.gap_ge600)
    assert gaps == pytest.approx((10, 20, 30, 40))
    assert usage.energy == pytest.approx(30_000)
    assert (usage.share, usage.memory_used, usage.memory_total, usage.processes) == (0.5, 4, 8, 1)
    assert (usage.sm, usage.tensor, usage.dram) == pytest.approx((50, 30, 20))
    assert (usage.throttle_thermal, usage.link_bytes, usage.low) == pytest.approx((6, 1e11, 70))
    assert (usage.power_limit, usage.idle_power) == (650, 65)


def test_time_without_a_duty_cycle_is_not_observed() -> None:
    """Observed seconds whose busy seconds are missing would read as idle."""
    made = Series(len(GPU_COUNTERS))
    for t, busy in ((0.0, 0.0), (100.0, None)):
        made.append(t, (t, t, busy, *[None] * (len(GPU_COUNTERS) - 3)), (1.0, *[None] * (len(GPU_GAUGES) - 1)))
    usage = gpu_usage(made, 0, 100)
    assert (usage.observed, usage.busy, usage.utilization) == (0, 0, None)
    assert usage.allocated == 100


def test_a_window_has_one_usage_per_gpu_in_order_over_its_length() -> None:
    busy, idle = gpu_series((0, 0, 0), (1000, 1000, 1000)), gpu_series((0, 0, 0), (1000, 1000, 0))
    found = window_evidence([busy, idle], [], at=1000, length=400)
    assert found.length == 400
    assert [usage.utilization for usage in found.gpus] == [1, 0]
    assert [usage.observed for usage in found.gpus] == pytest.approx([400, 400])


# Hosts


def host_series(
    cores: float | None,
    *,
    limit: float | None = None,
    io: float | None = None,
    cpu: float | None = None,
    end: float = 100,
) -> Series:
    """A node where the job uses this many cores and waits for these shares of time."""
    made = Series(3)
    for t in (0.0, end):
        made.append(t, tuple(None if rate is None else rate * t for rate in (cores, io, cpu)), (limit,))
    return made


def test_cores_are_summed_and_ratios_are_those_of_the_worst_node() -> None:
    nodes = [host_series(6, limit=8, io=0.1, cpu=0.5), host_series(3, limit=3, io=0.4, cpu=0.2)]
    for order in (nodes, nodes[::-1]):
        found = host_usage(order, 0, 100)
        assert found.cpu_cores == pytest.approx(9)
        assert found.cpu_of_limit == pytest.approx(1.0)
        assert found.io_pressure == pytest.approx(0.4)
        assert found.cpu_pressure == pytest.approx(0.5)


def test_what_no_node_reports_is_missing() -> None:
    found = host_usage([], 0, 100)
    assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure, found.cpu_pressure) == (None,) * 4
    found = host_usage([host_series(2, limit=None, io=0.0)], 0, 100)
    assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure, found.cpu_pressure) == (2, None, 0, None)


def test_a_node_that_was_seen_for_most_of_a_window_is_rated_over_that_part() -> None:
    assert host_usage([host_series(4, limit=8, end=80)], 0, 100).cpu_cores == pytest.approx(4)
    assert host_usage([host_series(4, limit=8, end=90)], 25, 100).cpu_of_limit == pytest.approx(0.5)


@pytest.mark.parametrize(("since", "until"), [(0, 79), (21, 100), (90, 100), (11, 90)])
def test_what_a_node_did_in_a_part_of_a_window_is_not_what_it_did_in_the_window(since: float, until: float) -> None:
    """One minute of waiting for storage, the only one that was seen, would be a stall of a quarter of an hour."""
    made = Series(3)
    for t in (since, until):
        made.append(t, (4 * t, t, t), (8.0,))
    found = host_usage([made], 0, 100)
    assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure, found.cpu_pressure) == (None,) * 4


def test_what_a_node_did_in_a_long_gap_is_not_what_it_did_in_a_window_that_begins_there() -> None:
    made = host_series(4, io=0.5, end=1000)
    made.append(1010, (4040.0, 500.0, 0.0), (None,))
    assert host_usage([made], 910, 1010).io_pressure == pytest.approx(0.45)
    assert host_usage([made], 910, 1010, longest_gap=60).io_pressure is None


def test_a_node_that_is_silent_over_the_window_says_nothing() -> None:
    assert host_usage([host_series(4, limit=8, io=1, cpu=1, end=50)], 50, 100).cpu_cores is None
    assert host_usage([None], 0, 100).cpu_cores is None


@pytest.mark.parametrize(
    "silent",
    [None, Series(3), host_series(None, io=0.1), host_series(4, end=50), host_series(4, end=70)],
    ids=["never seen", "nothing yet", "no CPU", "silent now", "silent since a while"],
)
def test_of_nodes_of_which_one_is_not_known_the_cores_of_the_others_are_not_the_jobs(silent: Series | None) -> None:
    for order in ([host_series(6, limit=8, io=0.4), silent], [silent, host_series(6, limit=8, io=0.4)]):
        found = host_usage(order, 60, 100)
        assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure) == (None, 0.75, 0.4)


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(1, 200), st.floats(0, 1)), max_size=5))
def test_the_order_of_nodes_does_not_matter(nodes: list[tuple[float, float, float]]) -> None:
    made = [host_series(cores, limit=limit, io=share) for cores, limit, share in nodes]
    one, other = host_usage(made, 0, 100), host_usage(made[::-1], 0, 100)
    assert one.cpu_of_limit == other.cpu_of_limit
    assert one.io_pressure == other.io_pressure
    assert (one.cpu_cores is None) == (other.cpu_cores is None)
    assert math.isclose(one.cpu_cores or 0, other.cpu_cores or 0)


# Loading


@pytest.mark.parametrize(
    ("memory", "grew"),
    [
        # Nothing is known of memory: no answer.
        ([None, None, None], None),
        # The first reading is where we came in, not growth.
        ([40, 40, 40], 0),
        ([None, 40, 40], 0),
        # Each new high counts, the last is the answer.
        ([1, 20, 20], 20),
        ([1, 20, 40], 30),
        # 2 % of the device's 80 GiB is 1.6 GiB: less is a running job's noise.
        ([40, 41.5, 40.1], 0),
        ([40, 41.7, 40.1], 20),
        # Slow growth adds up: 41 is close to 42, and 40 is not.
        ([40, 41, 42], 20),
        # Memory that wavers has grown when it first was about as high as it ever is.
        ([1, 60, 61.5], 20),
        # Freed and taken again is not a new high.
        ([40, 10, 40], 0),
        # A missing reading between is no fall.
        ([1, None, 20], 30),
    ],
)
def test_when_memory_last_grew(memory: list[float | None], grew: float | None) -> None:
    gauges = [(1.0, None if used is None else used * GIB, 80 * GIB, 1.0) for used in memory]
    made = gpu_series((10, 0, 0), (20, 0, 0), (30, 0, 0), gauges=gauges)
    assert memory_grew_at([made], 0, 100) == grew


def test_the_gpu_that_grew_last_decides() -> None:
    def loading(*used: float) -> Series:
        return gpu_series(
            (10, 0, 0), (20, 0, 0), (30, 0, 0), gauges=[(1.0, each * GIB, 80 * GIB, 1.0) for each in used]
        )

    gpus = [loading(1, 30, 30), loading(1, 1, 30), loading(1, 1, 1)]
    assert memory_grew_at(gpus, 0, 100) == memory_grew_at(gpus[::-1], 0, 100) == 30
    assert memory_grew_at(gpus, 0, 25) == 20


def test_without_the_devices_size_growth_is_measured_against_the_job_itself() -> None:
    made = gpu_series((10, 0, 0), (20, 0, 0), gauges=[(1.0, 100.0, None, 1.0), (1.0, 103.0, None, 1.0)])
    assert memory_grew_at([made], 0, 100) == 20
