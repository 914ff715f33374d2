"""What the comparisons read of nvidia-smi, and what their programs say where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.nvidia_smi import Reading, Stream, Watched, parse
from tests.exporter.daemon import eventually

ROOT = Path(__file__).resolve().parents[2]


def test_percents_mebibytes_and_watts_become_base_units() -> None:
    answer = "GPU-1, NVIDIA H200, 580.95.05, 37, 1024, 143771, 402.50\n"
    assert parse(answer) == {"GPU-1": Reading("GPU-1", "NVIDIA H200", "580.95.05", 0.37, 2**30, 143771 * 2**20, 402.5)}


def test_what_is_not_available_is_missing_and_not_zero() -> None:
    reading = parse("GPU-1, NVIDIA T400, 580.95.05, 0, [N/A], 4096, [Not Supported]\n")["GPU-1"]
    assert (reading.utilization, reading.memory_used, reading.power) == (0.0, None, None)


def test_what_it_writes_while_it_runs_is_taken_with_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "2026/11/23 02:12:00.250, GPU-1, 37, 402.50\\n2026/11/23 02:12:00.450, GPU-1, [N/A], [N/A]\\n"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{said}'\nexec sleep 300\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Stream() as stream:
        first, second = eventually(lambda: stream.found if len(stream.found) == 2 else None, "it writes")
    assert first == Watched(first.t, "GPU-1", 0.37, 402.5)
    assert (second.utilization, second.power) == (None, None)
    assert second.t - first.t == pytest.approx(0.2)


@pytest.mark.parametrize("program", ["compare_nvidia_smi", "measure", "nvml_calls", "overhead", "workloads"])
def test_where_there_is_no_gpu_a_program_says_so_and_exits_with_77(program: str, tmp_path: Path) -> None:
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
    assert done.returncode == 77
    assert "NVIDIA" in done.stderr or "torch" in done.stderr
