"""Programs that are measured: what they write is taken, what they leave is nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.gpu.jobs import FailedError, Job, workload
from tests.exporter.daemon import alive, eventually


def job(folder: Path, code: str) -> Job:
    command = [sys.executable, "-c", f"import json, os, sys, time\n{code}"]
    return Job(7, command, gpu="GPU-1", cpus=1, prolog=None, log=folder / "log")


def test_its_lines_are_taken_while_it_runs_and_it_is_a_process_group_of_its_own(tmp_path):
    code = "print(json.dumps({'pid': os.getpid(), 'pgid': os.getpgid(0)}), flush=True); time.sleep(300)"
    with job(tmp_path, code) as running:
        eventually(lambda: running.lines, "it says something")
        [said] = running.lines
        assert said["pid"] == said["pgid"]
        assert running.subject == f"local/{said['pid']}-"
    assert not alive(int(said["pid"]))


def test_one_that_ends_by_itself_is_waited_for(tmp_path):
    with job(tmp_path, "[print(json.dumps({'t': n})) for n in range(3)]") as running:
        running.wait()
        assert running.lines == [{"t": 0}, {"t": 1}, {"t": 2}]


@pytest.mark.parametrize(
    ("code", "why"), [("sys.exit('no such GPU')", "exit 1\nno such GPU"), ("pass", "it said nothing")]
)
def test_one_that_fails_is_told_with_what_it_wrote(tmp_path, code, why):
    with job(tmp_path, code) as running, pytest.raises(FailedError, match=why):
        running.wait()


def test_the_python_that_has_torch_may_be_another(monkeypatch):
    monkeypatch.setenv("TORCH_PYTHON", "/opt/torch/bin/python")
    assert workload("fed", "--seconds=1") == [
        *("/opt/torch/bin/python", "-m", "benchmarks.gpu.workloads", "fed", "--seconds=1")
    ]
