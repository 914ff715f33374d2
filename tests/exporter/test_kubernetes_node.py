"""The exporter as a process on a Kubernetes node: pods by the kubelet's socket, through all that a kubelet does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter.daemon import Daemon, eventually
from tests.exporter.published import samples
from tests.fakes.kubelet import FakeKubelet, Fault, pod
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import Level

UID = "0f3c9d7e-6f0e-4b43-9f43-1d4cf1a2b3c4"
OTHER_UID = "7b1c2d3e-4f50-4161-8273-849596a7b8c9"


@pytest.fixture
def kubernetes(nvml_libraries, tmp_path):
    """A node of three GPUs, the third in MIG mode; its kubelet; and the exporter there."""
    with ExitStack() as stack:
        node = stack.enter_context(FakeNode(tmp_path / "fake", nvml_libraries, gpus=3, time_scale=10))
        node.driver.set_mig(2, ["1g.10gb", "2g.20gb"])
        kubelet = stack.enter_context(FakeKubelet(tmp_path / "kubelet" / "kubelet.sock", rate_limit=True))
        paths = [f"--path.{name}={path}" for name, path in node.paths.items()]
        file = tmp_path / "exporter.yaml"
        file.write_text("cluster: lab\n")
        daemon = Daemon(
            tmp_path,
            node.environment,
            *paths,
            f"--kubernetes.socket={kubelet.path}",
            f"--config.file={file}",
            "--time-scale=10",
            "--sample-interval=2500ms",
            "--series-hold=10s",
            "--compat=dcgm",
        )
        node.start()
        yield node, kubelet, stack.enter_context(daemon), file


def held(daemon):
    """Which pods hold which devices, with their shares."""
    status, text = daemon.get("/metrics")
    assert status == 200
    return {
        (
            sample.labels["namespace"],
            sample.labels["pod"],
            sample.labels["mig"] or sample.labels["gpu_uuid"],
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "gpu_allocation"
    }


def test_pods_hold_what_the_kubelet_says_with_and_without_processes(kubernetes):
    node, kubelet, daemon, _ = kubernetes
    first, second, _ = (gpu.uuid for gpu in node.driver.gpus)
    small, large = node.driver.set_mig(2, ["1g.10gb", "2g.20gb"])
    kubelet.pods = [
        pod("train", "ml", {"nvidia.com/gpu": [first]}),
        pod("a", "web", {"nvidia.com/gpu.shared": [f"{second}::0"]}),
        pod("b", "web", {"nvidia.com/gpu.shared": [f"{second}::1"]}),
        pod("small", "ml", {"nvidia.com/mig-1g.10gb": [small]}),
        pod("large", "ml", {"nvidia.com/mig-2g.20gb": [large]}),
        pod("no-gpu", "web", {"example.com/nic": ["eth1"]}),
    ]
    expected = {
        ("ml", "train", first): 1,
        ("web", "a", second): 0.5,
        ("web", "b", second): 0.5,
        ("ml", "small", small): pytest.approx(1 / 7),
        ("ml", "large", large): pytest.approx(2 / 7),
    }
    eventually(lambda: len(held(daemon)) == len(expected), "every pod is shown")
    assert held(daemon) == expected
    assert daemon.values("dutycycle_exporter_collector_success", collector="kubelet") == [1]
    kubelet.pods = []
    eventually(lambda: not held(daemon), "pods that ended are gone")


def test_under_dcgm_exporters_names_a_gpu_is_its_containers_and_under_ours_the_pods(kubernetes):
    node, kubelet, daemon, _ = kubernetes
    uuid = node.driver.gpus[0].uuid
    replicas = [{"nvidia.com/gpu": [f"{uuid}::{number}"]} for number in range(2)]
    kubelet.pods = [pod("train", "ml", *replicas)]
    eventually(lambda: held(daemon) == {("ml", "train", uuid): 1}, "the pod is shown, once")
    shown = {
        (sample.labels["namespace"], sample.labels["pod"], sample.labels["container"])
        for family in text_string_to_metric_families(daemon.get("/metrics")[1])
        for sample in family.samples
        if sample.name == "DCGM_FI_DEV_GPU_UTIL" and sample.labels["UUID"] == uuid
    }
    assert shown == {("ml", "train", "c0"), ("ml", "train", "c1")}


def test_of_two_that_share_a_gpu_each_has_what_its_processes_did(kubernetes):
    """And 0, which is a value, for the one that does nothing."""
    node, kubelet, daemon, _ = kubernetes
    uuid = node.driver.gpus[0].uuid
    kubelet.pods = [
        pod("works", "ml", {"nvidia.com/gpu": [f"{uuid}::0"]}),
        pod("idles", "ml", {"nvidia.com/gpu": [f"{uuid}::1"]}),
    ]
    node.pod(UID, {0: Level(0.8)}, Work(memory=2**30))
    node.pod(OTHER_UID, {0: Level(0.0)}, Work(memory=2**31))
    eventually(lambda: daemon.total("workload_gpu_busy_seconds_total", gpu="0") > 2, "busy time is counted")
    of_gpu = "gpu_busy_seconds_total"
    # After seconds without a snapshot no page tells of a GPU.
    page = eventually(lambda: (text := daemon.get("/metrics")[1]) and samples(text, of_gpu, gpu="0") and text)
    [busy] = samples(page, of_gpu, gpu="0")
    of_pods = sum(sample.value for sample in samples(page, "workload_gpu_busy_seconds_total", gpu="0"))
    assert of_pods <= busy.value + 1e-6
    assert "NaN" not in page


def workloads(daemon):
    return {
        sample.labels["workload"]
        for family in text_string_to_metric_families(daemon.get("/metrics")[1])
        for sample in family.samples
        if sample.name == "gpu_allocation"
    }


def test_a_pod_that_is_made_anew_under_its_name_is_another_and_a_completed_one_is_over(kubernetes):
    """Without the API server, while the kubelet lists the name all the time. Whose processes were not seen soon after
    it was listed has no uid.
    """
    node, kubelet, daemon, _ = kubernetes
    first = node.pod(UID, {0: Level(0.8)})
    eventually(lambda: daemon.total("gpu_busy_seconds_total", gpu="0") > 0, "the first works")
    kubelet.pods = [pod("worker-0", "ml", {"nvidia.com/gpu": [node.driver.gpus[0].uuid]})]
    eventually(lambda: workloads(daemon) == {f"k8s/ml/worker-0/{UID}"}, "the first is known")
    first.stop()
    second = node.pod(OTHER_UID, {0: Level(0.8)})
    eventually(lambda: workloads(daemon) == {f"k8s/ml/worker-0/{OTHER_UID}"}, "the second has its name and the GPU")
    eventually(lambda: set(held(daemon).values()) == {1}, "and all of it")
    second.stop()
    eventually(lambda: not held(daemon), "nobody has it any more")


@pytest.mark.parametrize("trouble", ["restart", "hang", "nonsense"])
def test_an_allocation_does_not_end_on_a_kubelet_in_trouble(kubernetes, trouble):
    node, kubelet, daemon, _ = kubernetes
    uuid = node.driver.gpus[0].uuid
    kubelet.pods = [pod("train", "ml", {"nvidia.com/gpu": [uuid]})]
    eventually(lambda: held(daemon), "the pod is shown")
    if trouble == "restart":
        kubelet.stop()
        kubelet.starting = True  # without pods, for a second or as long as its API server is away
        asked = len(kubelet.calls)
        kubelet.start()
        eventually(lambda: len(kubelet.calls) > asked + 4, "the new one was asked")
        kubelet.starting = False
    else:
        kubelet.fault = {"hang": Fault.HANG, "nonsense": Fault.GARBAGE}[trouble]
        eventually(
            lambda: daemon.values("dutycycle_exporter_collector_success", collector="kubelet") == [0], "it is noticed"
        )
    allocated = daemon.total("workload_gpu_allocated_seconds_total")
    for _ in range(20):
        assert held(daemon) == {("ml", "train", uuid): 1}
        time.sleep(0.1)
    kubelet.fault = None
    eventually(
        lambda: daemon.total("workload_gpu_allocated_seconds_total") > allocated + 1, "time goes on being counted"
    )


def test_a_reload_asks_for_other_resources_and_loses_no_counter(kubernetes):
    node, kubelet, daemon, file = kubernetes
    uuid = node.driver.gpus[0].uuid
    kubelet.pods = [
        pod("train", "ml", {"nvidia.com/gpu": [uuid]}),
        pod("odd", "ml", {"lab.example/gpu": [node.driver.gpus[1].uuid]}),
    ]
    eventually(lambda: daemon.total("workload_gpu_allocated_seconds_total") > 1, "the pod is accounted")
    before = daemon.total("workload_gpu_allocated_seconds_total")
    file.write_text("cluster: lab\nkubernetes.resources: ['nvidia.com/*', 'lab.example/gpu']\n")
    daemon.signal(signal.SIGHUP)
    eventually(lambda: len(held(daemon)) == 2, "the other resource is looked at")
    assert daemon.total("workload_gpu_allocated_seconds_total", pod="train") >= before
    assert daemon.values("dutycycle_exporter_config_last_reload_successful") == [1]


def test_the_api_server_is_asked_for_only_where_there_is_a_service_account():
    command = [
        str(Path(sys.executable).with_name("dutycycle-exporter")),
        "--kubernetes.api",
        "--web.listen-address=127.0.0.1:0",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "--kubernetes.api: there is no service account here" in done.stderr
