"""`dutycycle-exporter --release` finds the exporter of its own container, also among the whole host's processes."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.exporter.daemon import PROGRAM, Daemon, eventually
from tests.required import lacking

# A container that shares its pid namespace has, as any, a mount namespace of its own.
CONTAINER = ("unshare", "--mount", "--")
NAMESAKE = ("bash", "-c", "exec -a dutycycle-exporter bash -c 'echo; read -r'")
"""It has the name and no handler, as an exporter that begins just now: the signal would end it."""


def released(daemon):
    return daemon.total("dutycycle_exporter_child_restarts_total", reason="released")


def ask(*within):
    return subprocess.run([*within, *PROGRAM, "--release"], capture_output=True, text=True, check=False)


def beside(daemon):
    """As by kubectl exec: in the namespaces of its container."""
    return ("nsenter", f"--mount=/proc/{daemon.process.pid}/ns/mnt", "--")


@pytest.fixture
def containers(nvml_driver, tmp_path):
    """Two exporters that see each other's processes."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter"))):
        lacking("root, unshare and nsenter")
    driver = nvml_driver()
    driver.add_gpu()
    environment = driver.start().environment
    flags = ("--sample-interval=250ms", f"--path.procfs={tmp_path}")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        Daemon(tmp_path / "a", environment, *flags, under=CONTAINER, program=PROGRAM) as ours,
        Daemon(tmp_path / "b", environment, *flags, under=CONTAINER, program=PROGRAM) as other,
    ):
        for one in (ours, other):
            eventually(lambda one=one: one.values("gpu_visible") == [1])
        yield ours, other


def test_it_is_the_exporter_of_the_same_container_that_lets_go(containers):
    ours, other = containers
    with subprocess.Popen([*beside(ours), *NAMESAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout.read(1) == b"\n"
        done = ask(*beside(ours))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"told process {ours.process.pid}; its log says what it does\n"
        eventually(lambda: released(ours) == 1)
        assert ours.child() is None
        assert shell.poll() is None
        shell.stdin.close()
    assert ask(*beside(ours)).returncode == 0
    eventually(lambda: "NVML is taken up again: it was asked for" in ours.log)
    assert released(other) == 0
    assert other.child() is not None


def test_one_that_cannot_take_the_signal_is_left_alone():
    """An exporter that has not begun to listen for it."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter"))):
        lacking("root, unshare and nsenter")
    with subprocess.Popen([*CONTAINER, *NAMESAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as named:
        assert named.stdout.read(1) == b"\n"
        done = ask("nsenter", f"--mount=/proc/{named.pid}/ns/mnt", "--")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no exporters run in this container" in done.stderr
        assert "systemctl kill" in done.stderr
        assert named.poll() is None
        named.stdin.close()
