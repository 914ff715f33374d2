"""What the exporter needs of the machine: no capability, and nothing that it could write."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.exporter.daemon import Daemon, eventually
from tests.fakes.kubelet import FakeKubelet, pod
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Level
from tests.required import lacking

# A mount namespace of its own, whose root is read-only, and then uid 0 without any capability, now or ever.
CONFINED = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -o remount,bind,ro / && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"',
    "confined",
)


@pytest.fixture
def confined(root):
    """Only root can take capabilities and writing away from a process."""
    if missing := [program for program in ("unshare", "setpriv") if shutil.which(program) is None]:
        lacking(", ".join(missing))
    return CONFINED


@pytest.fixture
def memory():
    """A directory on a mount of its own, which stays writable: the NVML double counts its calls in a file."""
    directory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


def test_uid_0_without_capabilities_on_a_read_only_root_shows_everything(confined, memory, nvml_libraries, tmp_path):
    """As on Kubernetes: the kubelet's socket is in a directory that only uid 0 may enter."""
    with (
        FakeNode(memory / "fake", nvml_libraries, gpus=2, time_scale=10) as node,
        FakeKubelet(tmp_path / "kubelet" / "kubelet.sock") as kubelet,
    ):
        kubelet.path.parent.chmod(0o750)
        kubelet.pods = [pod("train", "ml", {"nvidia.com/gpu": [node.driver.gpus[1].uuid]})]
        node.slurm_job(7, {0: Level(0.5)})
        node.start()
        flags = [f"--path.{name}={path}" for name, path in node.paths.items()]
        flags += ["--time-scale=10", "--series-hold=10s", f"--kubernetes.socket={kubelet.path}"]
        with Daemon(tmp_path, node.environment, *flags, under=confined) as daemon:
            eventually(lambda: daemon.total("workload_gpu_busy_seconds_total", job_id="7") > 0, "the job's GPU is busy")
            eventually(lambda: daemon.values("gpu_allocation", pod="train") == [1], "the pod has its GPU")
            eventually(lambda: daemon.total("workload_cpu_seconds_total", workload="slurm/7") > 0, "CPU time is read")
            eventually(lambda: daemon.values("gpu_sm_active_ratio", gpu="0"), "its units are measured")
            assert daemon.values("gpu_expected") == [2]
            for pid in (daemon.process.pid, daemon.child()):
                status = Path(f"/proc/{pid}/status").read_text()
                assert "\nUid:\t0\t" in status
                assert "\nCapEff:\t0000000000000000\n" in status
            assert (tmp_path / "exporter.log").read_text().count("level=ERROR") == 0
