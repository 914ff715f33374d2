"""A run that is killed leaves neither a process nor a mount, and nobody else's process is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.chaos import enclosure
from tests.required import lacking

ROOT = Path(__file__).resolve().parents[3]
RUN = """
import subprocess, sys
from pathlib import Path
from benchmarks.chaos.disks import SmallDisk
from benchmarks.chaos.enclosure import enclose
enclose()
with SmallDisk(Path(sys.argv[1]), 1):
    whose = {"user": "nobody"} if sys.argv[2] == "another" else {}
    outlives = subprocess.Popen(["sleep", "600"], start_new_session=True, **whose)
    print(outlives.pid, flush=True)
    sys.stdin.read()
    outlives.kill()
"""


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize(
    ("number", "whose"), [(signal.SIGKILL, "own"), (signal.SIGKILL, "another"), (signal.SIGTERM, "own")]
)
def test_what_a_killed_run_started_ends_and_what_it_mounted_was_its_own(
    number: signal.Signals, whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        lacking("root")
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    beside = subprocess.Popen(["sleep", "600"])
    command = [sys.executable, "-c", RUN, str(tmp_path / "disk"), whose]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert run.stdout is not None
        outlives = int(run.stdout.readline())
        assert alive(outlives)
        assert str(tmp_path) not in Path("/proc/mounts").read_text()
        assert str(tmp_path) in Path(f"/proc/{outlives}/mounts").read_text()
        run.send_signal(number)
        run.wait(30)
        deadline = time.monotonic() + 20
        while alive(outlives) or [path.name for path in tmp_path.iterdir()] != ["disk"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert alive(beside.pid)
    finally:
        for process in (run, beside):
            process.kill()
            process.communicate()


def test_where_everybody_is_nobody_is_left() -> None:
    """A run that failed to have a namespace of its own must not end every process of the machine."""
    assert list(enclosure.left("/proc")) == []
