"""What is done to a GPU, and whom it excuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from benchmarks.chaos import probes
from benchmarks.chaos.faults.hardware import GpuLost, GpuVanished
from tests.fakes.nvml import Driver, Libraries

LOST = [pynvml.NVML_ERROR_GPU_IS_LOST, 0]


@pytest.mark.parametrize(("kind", "meanwhile"), [(GpuLost, LOST), (GpuVanished, [0])])
def test_a_gpu_that_is_away_blinds_itself_and_nothing_else_of_its_node(
    kind: type[GpuLost], meanwhile: list[int], tmp_path: Path, nvml_libraries: Libraries
) -> None:
    with Driver(tmp_path / "nvml", nvml_libraries) as driver:
        gone, stays = driver.add_gpu(), driver.add_gpu()
        driver.step()
        machine = SimpleNamespace(
            fake=SimpleNamespace(driver=driver), nvml=lambda: probes.nvml(driver.environment), gpus=2
        )
        site, fault = SimpleNamespace(machines={"n1": machine}), kind("n1")
        fault.begin(site)  # type: ignore[arg-type]
        assert [gpu["error"] for gpu in machine.nvml()["gpus"]] == meanwhile
        assert fault.in_force(site)  # type: ignore[arg-type]
        happened = fault.happened(1.0, 2.0, took=True)
        assert happened.blinds_any(frozenset({"n1", gone.uuid}))
        assert not happened.blinds_any(frozenset({"n1", stays.uuid}))
        assert happened.broken == {"n1"}
        fault.end(site)  # type: ignore[arg-type]
        assert [gpu["error"] for gpu in machine.nvml()["gpus"]] == [0, 0]
        assert not fault.in_force(site)  # type: ignore[arg-type]
