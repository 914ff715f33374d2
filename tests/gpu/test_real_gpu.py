"""The exporter on a real NVIDIA driver, beside nvidia-smi and beside what programs know of themselves. Skipped, saying
why, where there is none (make test-gpu).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.gpu.compare_nvidia_smi import figures
from benchmarks.gpu.jobs import Job, workload
from benchmarks.gpu.nvidia_smi import Reading, absent, query
from tests.exporter.daemon import Daemon, eventually

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

MIB = 2**20
LAG = 0.6
"""Seconds until the exporter shows what was at an instant: a sample of the driver's, and a turn."""

Start = Callable[..., list[Job]]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    if why := absent():
        pytest.skip(why)


@pytest.fixture(scope="module")
def _torch() -> None:
    python, *_ = workload("fed")
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{python} has no torch with CUDA (TORCH_PYTHON names another Python)")


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, {}, "--sample-interval=250ms", "--series-hold=250ms", "--attribution.local") as daemon:
        eventually(lambda: daemon.get("/-/ready")[0] == 200, "the exporter has read the GPUs")
        yield daemon


@pytest.fixture
def start(_torch: None, tmp_path: Path) -> Iterator[Start]:
    """Starts programs whose mechanism is known; returns when they are at work."""
    with ExitStack() as stack:

        def run(*programs: tuple[str, ...]) -> list[Job]:
            jobs = [
                stack.enter_context(
                    Job(
                        number,
                        workload(*program, "--seconds=300"),
                        gpu="",
                        cpus=0,
                        prolog=None,
                        log=tmp_path / f"{number}.log",
                    )
                )
                for number, program in enumerate(programs)
            ]
            eventually(lambda: all(len(job.lines) >= 3 for job in jobs), "the programs compute")
            return jobs

        yield run


@pytest.fixture
def pulses(start: Start) -> Job:
    """A program that computes about half of the time, and says for how long."""
    [job] = start(("pulsed", "--step=0.7", "--duty=0.5"))
    return job


def ours(daemon: Daemon, uuid: str) -> dict[str, float]:
    return figures(daemon.get("/metrics")[1])[uuid]


def uses_first(readings: dict[str, Reading]) -> str:
    """The GPU on which torch works: the one that does most, where several do."""
    return max(readings.values(), key=lambda reading: reading.memory_used or 0.0).uuid


def next_line(job: Job) -> dict[str, float]:
    """What the program says next of itself, when the exporter shows it too."""
    known = len(job.lines)
    eventually(lambda: len(job.lines) > known, "the program goes on")
    time.sleep(LAG)
    return job.lines[known]


def share(first: dict[str, float], last: dict[str, float]) -> float:
    """Of the time between two lines in which the program's kernels were on the GPU."""
    return (last["busy"] - first["busy"]) / (last["t"] - first["t"])


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


def test_energy_is_power_over_ten_seconds(exporter: Daemon, pulses: Job) -> None:
    """The counter of energy against the mean of nvidia-smi's power: sensors look only part of the time."""
    uuid = uses_first(query())
    begin, started = ours(exporter, uuid)["gpu_energy_joules_total"], time.monotonic()
    watts = []
    while time.monotonic() - started < 10:
        watts.append(query()[uuid].power)
    length = time.monotonic() - started
    joules = ours(exporter, uuid)["gpu_energy_joules_total"] - begin
    known = [value for value in watts if value is not None]
    assert known
    # A few percent, and either end of the counter may be a quarter of a second old.
    assert joules == pytest.approx(fmean(known) * length, rel=0.1)


def test_busy_time_is_that_of_the_program_s_kernels(exporter: Daemon, pulses: Job) -> None:
    uuid = uses_first(query())
    begin, first = next_line(pulses), ours(exporter, uuid)
    time.sleep(30)
    end, last = next_line(pulses), ours(exporter, uuid)
    busy, observed = (last[name] - first[name] for name in ("gpu_busy_seconds_total", "gpu_observed_seconds_total"))
    assert observed == pytest.approx(end["t"] - begin["t"], abs=2)
    # NVML's samples are whole percents, rounded down, and half a second at either end is not the program's.
    assert busy / observed == pytest.approx(share(begin, end), abs=0.03)


def test_multiprocessors_are_as_active_as_a_kernel_that_holds_so_many_of_them(exporter: Daemon, start: Start) -> None:
    [job] = start(("narrow", "--multiprocessors=33", "--step=0.5", "--duty=0.6"))
    begin, first = next_line(job), exporter.total("workload_gpu_active_seconds_total", unit="sm")
    time.sleep(15)
    end, last = next_line(job), exporter.total("workload_gpu_active_seconds_total", unit="sm")
    if not exporter.values("gpu_sm_active_ratio"):
        pytest.skip("this GPU, or its driver, has no profiling counters (GPM)")
    held = end["multiprocessors"] / end["multiprocessors_in_all"]
    assert (last - first) / (end["t"] - begin["t"]) == pytest.approx(held * share(begin, end), abs=0.02)


def test_a_program_owns_the_gpu_on_which_it_runs(exporter: Daemon, pulses: Job) -> None:
    """Without a scheduler, a process group is the job."""

    def owned() -> list[float]:
        uuid = uses_first(query())
        shares = exporter.values("gpu_allocation", gpu_uuid=uuid, scheduler="local")
        processes = exporter.values("workload_gpu_processes", gpu_uuid=uuid, scheduler="local")
        return shares if shares and sum(processes) >= 1 else []

    assert sum(eventually(owned, "the program owns its GPU")) == pytest.approx(1)
    memory = exporter.total("workload_gpu_memory_used_bytes", gpu_uuid=uses_first(query()), scheduler="local")
    assert memory > 10 * MIB


def test_of_two_programs_on_a_gpu_each_is_as_busy_as_its_kernels(exporter: Daemon, start: Start) -> None:
    """They take turns within each second: what is the one's is never the other's."""
    jobs = start(("pulsed", "--duty=0.3"), ("pulsed", "--duty=0.2", "--phase=0.5"))

    def busy() -> list[float]:
        names = [label(exporter, job) for job in jobs]
        return [exporter.total("workload_gpu_busy_seconds_total", workload=name) for name in names]

    begins, first = [next_line(job) for job in jobs], busy()
    time.sleep(20)
    ends, last = [next_line(job) for job in jobs], busy()
    for begin, end, before, after in zip(begins, ends, first, last, strict=True):
        assert (after - before) / (end["t"] - begin["t"]) == pytest.approx(share(begin, end), abs=0.04)


def label(exporter: Daemon, job: Job) -> str:
    """The workload's whole name."""
    page = exporter.get("/metrics")[1]
    return next(part for line in page.split("\n") for part in line.split('"') if part.startswith(job.subject))
