"""The exporter on a real NVIDIA driver, beside nvidia-smi. Skipped, saying why, where there is none (make test-gpu)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.gpu.compare_nvidia_smi import figures
from benchmarks.gpu.nvidia_smi import Reading, absent, query
from tests.exporter.daemon import Daemon, eventually

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    if why := absent():
        pytest.skip(why)


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, {}, "--sample-interval=250ms", "--series-hold=250ms", "--attribution.local") as daemon:
        eventually(lambda: daemon.get("/-/ready")[0] == 200, "the exporter has read the GPUs")
        yield daemon


@pytest.fixture
def pulses() -> Iterator[subprocess.Popen[str]]:
    """A program that computes half of the time, and says so."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{python} has no torch with CUDA (TORCH_PYTHON names another Python)")
    command = [python, "-m", "benchmarks.gpu.training", "pulsed", "--step=0.7", "--duty=0.5", "--seconds=300"]
    # In a process group of its own, as a shell starts a job: that is what owns the GPU here.
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert "passes each" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def ours(daemon: Daemon, uuid: str) -> dict[str, float]:
    return figures(daemon.get("/metrics")[1])[uuid]


def uses_first(readings: dict[str, Reading]) -> str:
    """The GPU on which torch works: the one that does most, where several do."""
    return max(readings.values(), key=lambda reading: reading.memory_used or 0.0).uuid


def test_every_gpu_is_shown_and_none_else(exporter: Daemon) -> None:
    assert set(figures(exporter.get("/metrics")[1])) == set(query())
    assert exporter.values("gpu_visible") == [len(query())]
    assert exporter.values("gpu_expected") == exporter.values("gpu_visible")
    assert exporter.values("dutycycle_exporter_collector_success", collector="nvml") == [1]


def test_memory_is_nvidia_smi_s_within_a_mebibyte(exporter: Daemon) -> None:
    """It is read at other instants: one of several looks finds it unchanged between."""

    def agree() -> bool:
        return all(
            abs(ours(exporter, uuid)["gpu_memory_used_bytes"] - reading.memory_used) <= MIB
            for uuid, reading in query().items()
            if reading.memory_used is not None
        )

    eventually(agree, "memory agrees with nvidia-smi's")


def test_energy_is_power_over_ten_seconds(exporter: Daemon, pulses: subprocess.Popen[str]) -> None:
    """The counter of energy against the mean of nvidia-smi's power: sensors look only part of the time."""
    uuid = uses_first(query())
    begin, start = ours(exporter, uuid)["gpu_energy_joules_total"], time.monotonic()
    watts = []
    while time.monotonic() - start < 10:
        watts.append(query()[uuid].power)
    length = time.monotonic() - start
    joules = ours(exporter, uuid)["gpu_energy_joules_total"] - begin
    known = [value for value in watts if value is not None]
    assert known
    # A few percent, and either end of the counter may be a quarter of a second old.
    assert joules == pytest.approx(fmean(known) * length, rel=0.1)


def test_busy_time_is_what_the_program_knows_to_have_computed(exporter: Daemon, pulses: subprocess.Popen[str]) -> None:
    uuid = uses_first(query())
    first, said = ours(exporter, uuid), []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (value := query()[uuid].utilization) is not None:
            said.append(value)
        time.sleep(0.2)
    last = ours(exporter, uuid)
    busy, observed = (last[name] - first[name] for name in ("gpu_busy_seconds_total", "gpu_observed_seconds_total"))
    assert observed == pytest.approx(30, abs=3)
    # Its step is calibrated once, so half is what it aims at.
    assert busy / observed == pytest.approx(0.5, abs=0.1)
    assert busy / observed == pytest.approx(fmean(said), abs=0.1)


def test_a_program_owns_the_gpu_on_which_it_runs(exporter: Daemon, pulses: subprocess.Popen[str]) -> None:
    """Without a scheduler, a process group is the job."""

    def owned() -> list[float]:
        uuid = uses_first(query())
        shares = exporter.values("gpu_allocation", gpu_uuid=uuid, scheduler="local")
        processes = exporter.values("workload_gpu_processes", gpu_uuid=uuid, scheduler="local")
        return shares if shares and sum(processes) >= 1 else []

    assert sum(eventually(owned, "the program owns its GPU")) == pytest.approx(1)
    memory = exporter.total("workload_gpu_memory_used_bytes", gpu_uuid=uses_first(query()), scheduler="local")
    assert memory > 10 * MIB
