"""Pods in the resolver: with processes and without, beside Slurm, on shared GPUs, and while they have no names yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.attribution.kubernetes import PodClaim
from dutycycle_exporter.model import GpuReading, Process, Workload
from tests.fakes.cgroup import CgroupTree, Use, pod_container
from tests.fakes.proc import FakeProcess, ProcTree
from tests.fakes.slurm_prolog import PrologWriter

NOW = 1_700_001_000.0
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
UID = "4d01379a-a293-46f9-b558-a8de7db7816f"
TRAIN = Workload(f"k8s/ml/train/{UID}", "k8s", namespace="ml", pod="train", user="ada")


class SaidPods:
    """What KubernetesPods would say."""

    def __init__(self) -> None:
        self.claims: list[PodClaim] = []
        self.workloads: dict[str, Workload | None] = {}
        self.shown: dict[str, tuple[tuple[str, str], ...]] = {}
        self.failures: dict[tuple[str, str], int] = {}
        self.unsettled = False
        self.processes: Mapping[str, Collection[str]] = {}
        self.inner: Collection[str] = ()

    def allocations(
        self, gpus: Sequence[GpuReading], processes: Mapping[str, Collection[str]], inner: Collection[str] = ()
    ) -> tuple[PodClaim, ...]:
        self.processes, self.inner = processes, inner
        return tuple(self.claims)

    def workload_of(self, uid: str) -> Workload | None:
        return self.workloads.get(uid, Workload(f"k8s///{uid}", "k8s"))

    def settling(self) -> bool:
        return self.unsettled

    def labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        return self.shown

    def take_failures(self) -> Mapping[tuple[str, str], int]:
        taken, self.failures = self.failures, {}
        return taken


class Box:
    """A node of two GPUs."""

    def __init__(self, directory: Path) -> None:
        self.proc = ProcTree(directory / "proc")
        self.prolog = PrologWriter(directory / "slurm")
        self.cgroups = CgroupTree(directory / "cgroup")
        self.pods = SaidPods()
        self.now = NOW
        self.attribution = Attribution(
            slurm_prolog_dir=self.prolog.directory,
            procfs=self.proc.root,
            cgroup=self.cgroups.root,
            local=True,
            users=str,
            pods=self.pods,
        )

    def run(self, pid: int, uid: str | None, *, start: float = NOW - 100) -> None:
        cgroup = "/user.slice" if uid is None else pod_container(uid, "c0ffee")
        self.proc.add(FakeProcess(pid, start, cgroup))

    def resolve(self, a: Sequence[int] = (), b: Sequence[int] = ()):
        self.now += 5
        readings = [
            GpuReading(uuid, index, "H100", processes=tuple(map(Process, pids)))
            for index, (uuid, pids) in enumerate(((A, a), (B, b)))
        ]
        return self.attribution.resolve(readings, self.now)


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def held(ownership):
    return [(allocation.device, allocation.workload.id) for allocation in ownership.allocations]


def test_a_pod_holds_its_gpu_also_without_any_process(box):
    box.pods.claims = [PodClaim(A, TRAIN, NOW - 500)]
    [allocation] = box.resolve().allocations
    assert (allocation.device, allocation.workload) == (A, TRAIN)
    assert allocation.start == NOW - 500
    assert allocation.first_process is None
    box.pods.claims = []
    assert box.resolve().allocations == ()


def test_its_processes_are_its_own_and_say_when_work_began(box):
    box.run(10, UID)
    box.pods.claims = [PodClaim(A, TRAIN, NOW - 500, ("main", "side"))]
    box.pods.workloads[UID] = TRAIN
    ownership = box.resolve(a=[10])
    [allocation] = ownership.allocations
    assert (allocation.start, allocation.first_process) == (NOW - 500, pytest.approx(NOW - 100, abs=1))
    assert allocation.containers == ("main", "side")
    assert ownership.pids == {10: TRAIN.id}
    assert box.pods.processes == {A: {UID}, B: set()}


def test_the_kubelets_source_is_told_of_pods_processes_only(box):
    box.run(10, None)
    box.resolve(a=[10])
    assert box.pods.processes == {A: set(), B: set()}


def test_a_process_whose_pod_is_being_found_out_is_nobodys_yet_and_not_unowned(box):
    box.run(10, UID)
    box.pods.workloads[UID] = None
    ownership = box.resolve(a=[10])
    assert ownership.allocations == ()
    assert ownership.pids == {}
    assert ownership.unresolved == {10}
    assert not ownership.failures
    box.pods.workloads[UID] = TRAIN
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, TRAIN.id)]
    assert ownership.unresolved == frozenset()


def test_a_process_of_no_scheduler_on_a_pods_gpu_owns_nothing(box):
    box.run(10, None)
    assert [workload.split("/")[0] for _, workload in held(box.resolve(a=[10]))] == ["local"]
    box.pods.claims = [PodClaim(A, TRAIN)]
    box.resolve(a=[10])
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, TRAIN.id)]
    assert ownership.pids == {}


def test_slurm_and_kubernetes_may_share_a_node(box):
    box.prolog.start(7, [B], user="ben", uid=1001)
    box.pods.claims = [PodClaim(A, TRAIN)]
    assert held(box.resolve()) == [(A, TRAIN.id), (B, "slurm/7")]


def test_sharers_of_a_gpu_each_have_it(box):
    other = Workload("k8s/ml/other/u", "k8s", namespace="ml", pod="other", user="ml")
    box.pods.claims = [PodClaim(A, TRAIN), PodClaim(A, other)]
    assert held(box.resolve()) == [(A, other.id), (A, TRAIN.id)]


def test_labels_of_those_who_hold_and_failures_of_the_sources(box):
    box.pods.claims = [PodClaim(A, TRAIN)]
    box.pods.shown = {TRAIN.id: (("app", "x"),)}
    box.pods.failures = {("kubelet", "timeout"): 2}
    ownership = box.resolve()
    assert ownership.labels == {TRAIN.id: (("app", "x"),)}
    assert ownership.failures == {("kubelet", "timeout"): 2}
    assert box.resolve().failures == {}


def test_a_start_in_the_future_is_not_known(box):
    box.pods.claims = [PodClaim(A, TRAIN, NOW + 4000)]
    assert box.resolve().allocations[0].start is None


@pytest.mark.parametrize("qos", ["guaranteed", "burstable", "besteffort"])
def test_what_a_pod_without_a_process_on_its_gpu_uses_of_the_host(box, qos):
    """An idle notebook, or code that never touches its GPU: its cgroup is found by the pod's uid."""
    cgroup = pod_container(UID, "c0ffee", qos=qos)
    pod = cgroup.rpartition("/")[0]
    box.cgroups.add(pod, cpu_limit=4)
    box.cgroups.add(cgroup)
    box.cgroups.use(cgroup, Use(cpu_cores=2))
    box.cgroups.advance(int(NOW * 1e6))
    box.cgroups.advance(int((NOW + 10) * 1e6))
    box.pods.claims = [PodClaim(A, TRAIN)]
    [host] = box.resolve().hosts
    assert host.workload == TRAIN
    assert (host.cpu_seconds, host.cpu_limit) == (20, 4)


def test_a_pod_whose_cgroup_is_not_found_has_no_host_reading(box):
    nameless = Workload("k8s/ml/train/", "k8s", namespace="ml", pod="train")
    box.pods.claims = [PodClaim(A, TRAIN), PodClaim(B, nameless)]
    assert box.resolve().hosts == ()


def test_processes_on_a_gpu_of_pods_without_uids_may_be_any_pods(box):
    """Neither pod's, and not a stranger's: whose work it is stays unknown, and unknown is not idle."""
    nameless = [Workload(f"k8s/ml/{name}/", "k8s", namespace="ml", pod=name) for name in ("a", "b")]
    box.pods.claims = [PodClaim(A, workload, None) for workload in nameless]
    box.run(10, UID)
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, "k8s/ml/a/"), (A, "k8s/ml/b/")]
    assert (dict(ownership.pids), ownership.unresolved) == ({}, {10})


def test_that_pods_are_not_known_yet_is_passed_on(box):
    box.pods.unsettled = True
    assert box.resolve().settling
    box.pods.unsettled = False
    assert not box.resolve().settling
