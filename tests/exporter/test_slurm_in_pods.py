"""The exporter as a process on a Kubernetes node whose GPUs belong to a pod in which Slurm runs jobs."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter.daemon import Daemon, eventually
from tests.fakes.kubelet import FakeKubelet, pod
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Level
from tests.fakes.slurm_prolog import PrologWriter

UID = "0f3c9d7e-6f0e-4b43-9f43-1d4cf1a2b3c4"
POD, JOB, SECOND = f"k8s/slurm/gpu-0/{UID}", "slurm/7", "slurm/8"


class Box:
    """A node of two GPUs; its kubelet gives both to one slurmd pod; the prolog runs in that pod."""

    def __init__(self, directory, libraries, stack):
        self.directory = directory
        self.stack = stack
        self.node = stack.enter_context(FakeNode(directory / "fake", libraries, gpus=2, time_scale=20))
        self.kubelet = stack.enter_context(FakeKubelet(directory / "kubelet" / "kubelet.sock"))
        self.uuids = [gpu.uuid for gpu in self.node.driver.gpus]
        self.kubelet.pods = [pod("gpu-0", "slurm", {"nvidia.com/gpu": self.uuids})]
        self.prolog = PrologWriter(directory / "prolog")
        self.node.cgroups.add("/kubepods.slice")
        # The pod has a shell on its second GPU all the time.
        self.node.pod(UID, {1: Level(0.0)})
        self.node.start()
        self.daemon = None
        self.final = {}

    def run(self):
        """Starts the exporter, in place of the one that runs. Its kubelet starts as well and lists nothing before the
        GPUs have been read: a pod whose processes were not seen soon after it was listed has no uid.
        """
        if self.daemon is not None:
            self.daemon.__exit__(None, None, None)
            self.final = {}
        self.kubelet.starting = True
        paths = [f"--path.{name}={path}" for name, path in self.node.paths.items()]
        timing = ("--time-scale=20", "--sample-interval=4s", "--series-hold=40s")
        self.daemon = self.stack.enter_context(
            Daemon(
                self.directory,
                self.node.environment,
                *paths,
                *timing,
                f"--kubernetes.socket={self.kubelet.path}",
                "--node-name=kube-7",
            )
        )
        eventually(lambda: self.daemon.total("gpu_observed_seconds_total") > 0, "the GPUs are read")
        self.kubelet.starting = False
        return self

    def begin(self, job_id, *gpus):
        self.prolog.start(
            job_id, [self.uuids[gpu] for gpu in gpus], shared=True, user="ada", pod_uid=UID, start=time.time()
        )

    def end(self, job_id, *gpus):
        self.prolog.end(job_id, [self.uuids[gpu] for gpu in gpus], shared=True)

    def page(self):
        """Samples of one scrape by metric, each with its labels, and remembers the counters of those who are over."""
        samples = [
            sample
            for family in text_string_to_metric_families(self.daemon.get("/metrics")[1])
            for sample in family.samples
        ]
        for sample in samples:
            if sample.name.startswith("workload_gpu_") and sample.name.endswith("_seconds_total"):
                self.final[sample.name, sample.labels["workload"], sample.labels.get("gpu")] = sample.value
        return samples

    def shown(self, name, **labels):
        return [one.value for one in self.page() if one.name == name and labels.items() <= one.labels.items()]

    def held(self):
        return {
            (int(sample.labels["gpu"]), sample.labels["workload"]): sample.value
            for sample in self.page()
            if sample.name == "gpu_allocation"
        }

    def holds(self, **expected):
        """Waits until these, and no others, hold the GPUs `gpu0` and `gpu1`, in equal shares."""
        shares = {(int(gpu[-1]), name): 1 / len(names) for gpu, names in expected.items() for name in names}
        eventually(lambda: self.held() == pytest.approx(shares), f"{shares} is shown")

    def counter(self, what, workload, gpu=0):
        self.page()
        return self.final.get((f"workload_gpu_{what}_seconds_total", workload, str(gpu)), 0.0)

    def grows(self, what, workload, gpu=0, by=1.0):
        before = self.counter(what, workload, gpu)
        eventually(lambda: self.counter(what, workload, gpu) > before + by, f"{what} of {workload} grows")


@pytest.fixture
def box(nvml_libraries, tmp_path):
    with ExitStack() as stack:
        yield Box(tmp_path, nvml_libraries, stack)


def test_the_jobs_of_a_slurm_in_a_pod_hold_its_gpus_in_turn_and_every_second_is_counted_once(box):
    box.run().holds(gpu0=[POD], gpu1=[POD])
    box.grows("allocated", POD)
    # Allocated, and nothing runs: as much the job's as when something does.
    box.begin(7, 0)
    box.holds(gpu0=[JOB], gpu1=[POD])
    pods = box.counter("allocated", POD), box.counter("observed", POD)
    box.grows("allocated", JOB)
    work = box.node.slurm_job(7, {0: Level(0.8)}, pod=UID)
    box.grows("busy", JOB)
    assert box.counter("busy", POD) == 0, "the work is the job's"
    # But for what was measured late of the time before.
    assert (box.counter("allocated", POD), box.counter("observed", POD)) == pytest.approx(pods, abs=1)
    work.stop()
    box.end(7, 0)
    box.holds(gpu0=[POD], gpu1=[POD])
    box.grows("allocated", POD)
    box.begin(8, 0)
    box.holds(gpu0=[SECOND], gpu1=[POD])
    box.grows("allocated", SECOND)
    pod_on_0, pod_on_1 = box.counter("allocated", POD), box.counter("allocated", POD, gpu=1)
    jobs = [box.final["workload_gpu_allocated_seconds_total", name, "0"] for name in (JOB, SECOND)]
    # The second GPU's pod has had all the time; those that were read of two pages differ by what passed between.
    assert pod_on_0 + sum(jobs) == pytest.approx(pod_on_1, abs=0.5)
    [of_gpu_0] = eventually(lambda: box.shown("gpu_busy_seconds_total", gpu="0"))
    assert box.counter("busy", JOB) == pytest.approx(of_gpu_0, abs=0.5)
    labels = [sample.labels for sample in box.page() if sample.name == "gpu_allocation"]
    assert {one["node"] for one in labels} == {"kube-7"}, "not the Slurm node's name"


def test_a_restart_while_a_job_runs_shows_the_job_alone(box):
    box.begin(7, 0, 1)
    work = box.node.slurm_job(7, {0: Level(0.8)}, pod=UID)
    box.run().holds(gpu0=[JOB], gpu1=[JOB])
    box.run().holds(gpu0=[JOB], gpu1=[JOB])
    box.grows("busy", JOB)
    assert not any(POD in key for key in box.final), "the pod never held anything here"
    work.stop()
    box.end(7, 0, 1)
    box.holds(gpu0=[POD], gpu1=[POD])


def test_two_jobs_share_the_pods_gpu_and_the_pod_has_no_part(box):
    box.run().holds(gpu0=[POD], gpu1=[POD])
    box.begin(7, 0)
    box.begin(8, 0)
    box.holds(gpu0=[JOB, SECOND], gpu1=[POD])
    box.end(8, 0)
    box.holds(gpu0=[JOB], gpu1=[POD])


def test_without_a_prolog_the_cgroups_of_a_jobs_processes_name_it(box):
    box.run().holds(gpu0=[POD], gpu1=[POD])
    work = box.node.slurm_job(7, {0: Level(0.8)}, pod=UID)
    box.holds(gpu0=[JOB], gpu1=[POD])
    box.grows("busy", JOB)
    work.stop()
    box.holds(gpu0=[POD], gpu1=[POD])
