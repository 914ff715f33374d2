"""In a pid namespace of its own the exporter does not take "no process" for known."""

from __future__ import annotations

import os

import pytest

from dutycycle_exporter.pid_namespace import apart
from tests.exporter.daemon import Daemon, eventually


def test_with_its_own_proc_a_process_is_not_apart(tmp_path):
    assert not apart(tmp_path)
    (tmp_path / "self").symlink_to(str(os.getpid()))
    assert not apart(tmp_path)


def test_a_proc_that_knows_it_by_another_pid_is_of_another_namespace(tmp_path):
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    assert apart(tmp_path)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("own_proc", "shown"), [(("--mount-proc",), [0.0]), ((), [])], ids=["the namespace's /proc", "the host's /proc"]
)
def test_the_daemon_in_a_namespace_of_its_own(own_proc, shown, nvml_driver, tmp_path):
    """With its own /proc there is nothing that would tell: then it is the machine, as far as it can see."""
    driver = nvml_driver()
    driver.add_gpu()
    driver.start()
    flags = ("--sample-interval=100ms", "--no-kubernetes", "--path.procfs=/proc")
    under = ("unshare", "--pid", "--fork", "--kill-child", *own_proc)
    with Daemon(tmp_path, driver.environment, *flags, under=under) as daemon:
        eventually(lambda: daemon.values("gpu_utilization_ratio"))
        assert daemon.values("gpu_processes") == shown
