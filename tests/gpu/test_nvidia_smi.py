"""What the comparisons read of nvidia-smi, and what their programs say where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.nvidia_smi import Reading, parse

ROOT = Path(__file__).resolve().parents[2]


def test_percents_mebibytes_and_watts_become_base_units() -> None:
    answer = "GPU-1, NVIDIA H200, 580.95.05, 37, 1024, 143771, 402.50\n"
    assert parse(answer) == {"GPU-1": Reading("GPU-1", "NVIDIA H200", "580.95.05", 0.37, 2**30, 143771 * 2**20, 402.5)}


def test_what_is_not_available_is_missing_and_not_zero() -> None:
    reading = parse("GPU-1, NVIDIA T400, 580.95.05, 0, [N/A], 4096, [Not Supported]\n")["GPU-1"]
    assert (reading.utilization, reading.memory_used, reading.power) == (0.0, None, None)


@pytest.mark.parametrize("program", ["compare_nvidia_smi", "measure", "nvml_calls", "overhead", "workloads"])
def test_where_there_is_no_gpu_a_program_says_so_and_exits_with_2(program: str, tmp_path: Path) -> None:
    arguments = {"workloads": ["fed"], "measure": ["--out", str(tmp_path / "out")]}.get(program, [])
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.gpu.{program}", *arguments],
        cwd=ROOT,
        # Neither nvidia-smi nor a GPU, whatever this machine has.
        env={**os.environ, "PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "NVIDIA" in done.stderr or "torch" in done.stderr
