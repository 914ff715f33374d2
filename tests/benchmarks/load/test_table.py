"""The table says of each cell whether it was measured at that size; what was not is on the line through what was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.cluster.measured import Beside, Pass
from benchmarks.exporters.cost import Memory
from benchmarks.exporters.measured import Figures
from benchmarks.load.engine import Disk, Scraped
from benchmarks.load.table import Cell, Measured, cells, line

LINE = "on the line through 1,000 and 10,000"
SIZES = (1_000, 10_000, 100_000)
NODE = Figures(0, 0, 0, 0, 0, 0, 0, 0.005, 0, 0.6, Memory(50.0, 30.0, 45.0), (0.0,))


def one_pass(cpu: float, peak: float) -> Pass:
    return Pass(cpu * 4, cpu, 0, 0, 0, 70, 0, 0, peak, peak, None, 0)


def beside(gpus: int) -> Beside:
    passes = (one_pass(9, 9), one_pass(gpus / 10_000, 100), one_pass(gpus / 10_000, 100))
    return Beside(gpus, 0, 0, 0, passes, (9.0, gpus / 1000, gpus / 1000), (0.0, 0.0, 0.0))


FOUND = Measured(
    node=NODE,
    scraped={
        1_000: Scraped(125, 105_000, 7_000, 350, 0.02),
        10_000: Scraped(1_250, 1_050_000, 70_000, 3_050, 0.2),
    },
    disk=Disk(1, 2, 3.0, 2.5),
    beside={gpus: beside(gpus) for gpus in SIZES[:2]},
    canned={gpus: (one_pass(99, 999),) + (one_pass(gpus / 8_000, 0.01 * gpus),) * 2 for gpus in SIZES},
)


def test_only_what_no_prometheus_held_is_computed() -> None:
    table = cells(FOUND, SIZES)
    assert table["series"] == [Cell("105,000", True), Cell("1,050,000", True), Cell("10,500,000", False, LINE)]
    assert table["samples a second"][2] == Cell("700,000", False, LINE)
    assert [cell.measured for cell in table["alerter: CPU of a pass over canned answers"] if cell] == [True] * 3
    assert table["alerter: CPU of a pass over canned answers"][2] == Cell("12.50 s", True)
    assert table["alerter: how long a pass takes over Prometheus"][2] is None


def test_memory_goes_on_as_the_line_through_both_sizes() -> None:
    """50 MB without series, 300 MB each 100,000 of them."""
    assert cells(FOUND, SIZES)["Prometheus: memory, without queries"][2] == Cell("30.05 GB", False, LINE)


def test_a_day_on_disk_is_always_arithmetic() -> None:
    disk = [cell for cell in cells(FOUND, SIZES)["on disk a day"] if cell]
    assert [cell.figure for cell in disk] == ["1.8 GB", "18.1 GB", "181.4 GB"]
    assert {str(cell)[-35:] for cell in disk} == {" GB (computed: 3.00 bytes a sample)"}


def test_the_first_pass_which_opens_everything_does_not_count_for_cpu_and_does_for_memory() -> None:
    table = cells(FOUND, SIZES)
    assert table["alerter: CPU of a pass over Prometheus"][0] == Cell("0.10 s", True)
    assert table["alerter: memory, at most, over canned answers"][0] == Cell("999 MB", True)


def test_one_point_goes_on_in_proportion() -> None:
    assert line({10.0: 5.0})(100) == pytest.approx(50)
    assert line({10.0: 5.0, 20.0: 6.0})(30) == pytest.approx(7)


def test_a_cell_says_what_it_is() -> None:
    assert str(Cell("3 s", True)) == "3 s (measured)"
    assert str(Cell("3 s", False, LINE)) == "3 s (computed: on the line through 1,000 and 10,000)"


def test_a_fleet_of_which_one_size_was_measured_is_in_proportion_to_that() -> None:
    one = replace(FOUND, scraped={1_000: FOUND.scraped[1_000]})
    assert cells(one, SIZES)["series"][2] == Cell("10,500,000", False, "in proportion to 1,000")
