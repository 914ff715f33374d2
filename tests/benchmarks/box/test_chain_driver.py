"""What drivers in a box say of utilization: their sample period and their highest reading are the scenario's."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.box.model import Scenario
from benchmarks.box.nodes import fleet
from benchmarks.box.nodes.gpu import SimulatedGpu, Stretch
from benchmarks.box.nodes.settings import NodeSettings
from tests.fakes.nvml import H100, Level, Load


@pytest.mark.parametrize(("full", "said"), [(1.0, [1.0, 0.5]), (0.99, [0.99, 0.5])])
def test_a_driver_says_no_more_than_its_highest_utilization(full: float, said: list[float]) -> None:
    gpu = SimulatedGpu("a", 0, H100, begin=1_000.0, time_scale=1.0, sample_period=0.2, full=full)
    gpu.add([Stretch.of(Load(Level(level)), 1_000.0 + at, 1_002.0 + at) for level, at in ((1.0, 0.0), (0.5, 2.0))])
    reading = gpu.read(1_004.0)
    assert reading is not None
    assert [span.utilization for span in reading.spans] == said


def test_nodes_sample_as_their_scenario_says(tmp_path: Path) -> None:
    scenario = Scenario(1, ("a",), 1, 10.0, (), sample_period=0.2, full=0.99)
    of = fleet.Fleet(scenario, lambda _: (), tmp_path, NodeSettings(), 0)
    assert (of._settings.sample_period, of._settings.full) == (0.2, 0.99)
