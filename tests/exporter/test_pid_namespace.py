"""In a pid namespace of its own the exporter does not take "no process" for known."""

from __future__ import annotations

import os

import pytest

from dutycycle_exporter.pid_namespace import apart
from tests.exporter.daemon import Daemon, eventually
from tests.exporter.published import samples

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


def test_with_its_own_proc_a_process_is_not_apart(tmp_path):
    assert not apart(tmp_path)
    (tmp_path / "self").symlink_to(str(os.getpid()))
    assert not apart(tmp_path)


def test_the_first_process_of_a_namespace_is_in_one_of_its_own(tmp_path, monkeypatch):
    """As in a container that shares nothing: on a machine init is the first."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    (tmp_path / "self").symlink_to("1")
    assert apart(tmp_path)


def test_a_proc_that_knows_it_by_another_pid_is_of_another_namespace(tmp_path):
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    assert apart(tmp_path)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("under", "shown"),
    [
        ((), [0.0]),
        ((*NAMESPACE, "--mount-proc"), []),
        (NAMESPACE, []),
        # As on a node that is a container itself, or under an init: there is nothing that would tell.
        ((*NAMESPACE, "--mount-proc", "sh", "-c", '"$@"; exit', "sh"), [0.0]),
    ],
    ids=["the machine's", "its own, and /proc", "its own, and the host's /proc", "another's, and /proc"],
)
def test_what_the_daemon_says_of_no_process_in_a_namespace(under, shown, nvml_driver, tmp_path):
    driver = nvml_driver()
    driver.add_gpu()
    driver.start()
    flags = ("--sample-interval=100ms", "--no-kubernetes", "--path.procfs=/proc")
    with Daemon(tmp_path, driver.environment, *flags, under=under) as daemon:
        # One page: after seconds without a snapshot none tells anything of a GPU.
        text = eventually(
            lambda: (page := daemon.get("/metrics")[1]) and samples(page, "gpu_utilization_ratio") and page
        )
        assert [sample.value for sample in samples(text, "gpu_processes")] == shown
