"""A cluster or a Slurm that somebody runs in a pod or in a job of the node's: its work is whose the GPU is."""

from __future__ import annotations

import pytest

from dutycycle_exporter.attribution.kubernetes import PodClaim
from dutycycle_exporter.model import Process, Workload
from dutycycle_exporter.shares import parts, work_of
from tests.exporter.attribution.kubernetes.test_resolver import NOW, TRAIN, UID, A, B, Box, held
from tests.fakes.cgroup import Use, pod_container, slurm_task
from tests.fakes.proc import FakeProcess

INNER_UID = "7b1c2d3e-4f50-4161-8273-849596a7b8c9"
INNER = Workload(f"k8s/ml/inner/{INNER_UID}", "k8s", namespace="ml", pod="inner", user="ben")
STRANGER = f"k8s///{INNER_UID}"
SLUID = "sEKNKTV3WPV500"

POD, INNER_POD = pod_container(UID, "c0ffee"), pod_container(INNER_UID, "facade")
KIND = f"/docker/0123abc/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{INNER_UID.replace('-', '_')}.slice/c"
K3S = f"/kubepods/besteffort/pod{INNER_UID}/c"


@pytest.fixture
def box(tmp_path):
    box = Box(tmp_path)
    box.pods.workloads = {UID: TRAIN}
    return box


def start(box, cgroup, pid=10, **fields):
    box.proc.add(FakeProcess(pid, NOW - 100, cgroup, **fields))


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(KIND, id="kind"),
        pytest.param(K3S, id="k3s"),
        pytest.param(f"{KIND}{K3S}", id="k3s in kind"),
        pytest.param(f"{INNER_POD}{slurm_task(7)}", id="a Slurm in a cluster"),
    ],
)
def test_a_pod_is_busy_with_what_runs_in_its_own_cluster(box, inside):
    start(box, f"{POD}{inside}")
    box.pods.claims = [PodClaim(A, TRAIN, NOW - 500, uid=UID)]
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, TRAIN.id)]
    assert ownership.pids == {10: TRAIN.id}
    assert ownership.allocations[0].first_process == pytest.approx(NOW - 100, abs=1)
    work = work_of((Process(10, None, 0.8),), ownership, {TRAIN.id})
    assert parts((TRAIN.id,), work) == {TRAIN.id: 1.0}


@pytest.mark.parametrize("name", ["job_5", SLUID])
def test_a_job_is_busy_with_what_runs_in_its_own_cluster(box, name):
    """Also where its user is root there."""
    start(box, f"/system.slice/slurmstepd.scope/{name}/step_0/user/task_0{KIND}", uid=0)
    box.prolog.start(5, [A], user="ada", sluid=SLUID)
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, "slurm/5")]
    assert ownership.pids == {10: "slurm/5"}
    assert ownership.allocations[0].first_process is not None


def test_a_job_in_a_pod_is_busy_with_what_runs_in_its_own_cluster(box):
    start(box, f"{POD}{slurm_task(5)}{KIND}")
    box.pods.claims = [PodClaim(A, TRAIN, NOW - 500, uid=UID)]
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, "slurm/5")]
    assert ownership.pids == {10: "slurm/5"}
    assert ownership.displaced == {(A, TRAIN.id)}


def test_whose_a_job_is_nobody_learns_from_the_pods_in_it(tmp_path):
    """A job mapping tells no user, and that of a process in a container may be any."""
    (tmp_path / "jobs").mkdir(mode=0o755)
    (tmp_path / "jobs" / "0").write_text("5\n")
    box = Box(tmp_path)
    box.attribution.apply(
        slurm_prolog_dir=box.prolog.directory, job_mapping_dir=tmp_path / "jobs", local=False, people=False, hosts=False
    )
    start(box, f"{slurm_task(5)}{KIND}", uid=0)
    [allocation] = box.resolve(a=[10]).allocations
    assert (allocation.workload.id, allocation.workload.user) == ("slurm/5", "")
    start(box, slurm_task(5), pid=11, uid=1000)
    [allocation] = box.resolve(a=[10, 11]).allocations
    assert (allocation.workload.id, allocation.workload.user) == ("slurm/5", "1000")


def test_a_job_that_runs_the_nodes_kubelet_gives_way_to_the_pods_that_have_its_gpus(box):
    """Both schedulers have given the GPU away, one to the other's kubelet: of the two the pod works, or does not."""
    box.pods.workloads[INNER_UID] = INNER
    box.pods.claims = [PodClaim(A, INNER, NOW - 50, uid=INNER_UID)]
    box.prolog.start(5, [A, B], start=NOW - 500)
    start(box, f"{slurm_task(5)}{INNER_POD}")
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, INNER.id), (B, "slurm/5")]
    assert (ownership.pids, ownership.displaced) == ({10: INNER.id}, {(A, "slurm/5")})
    box.proc.remove(10)
    box.resolve()
    assert held(box.resolve()) == [(A, INNER.id), (B, "slurm/5")], "what is once known of the job stays known"
    box.pods.claims = []
    assert held(box.resolve()) == [(A, "slurm/5"), (B, "slurm/5")]


def test_of_a_job_and_a_pod_that_would_both_give_way_the_pod_holds_the_gpu(box):
    """Slurm runs in the pod, as its labels say, and the pod in the job."""
    box.pods.workloads[INNER_UID] = INNER
    box.pods.claims = [PodClaim(A, INNER, NOW - 50, uid=INNER_UID, slurm=True)]
    box.prolog.start(5, [A], start=NOW - 500)
    start(box, f"{slurm_task(5)}{INNER_POD}")
    assert held(box.resolve(a=[10])) == [(A, INNER.id)]


def test_two_schedulers_that_gave_a_gpu_away_by_mistake_both_hold_it(box):
    box.pods.claims = [PodClaim(A, INNER, NOW - 50, uid=INNER_UID)]
    box.prolog.start(5, [A], start=NOW - 500)
    start(box, slurm_task(5))
    ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, INNER.id), (A, "slurm/5")]
    assert ownership.displaced == frozenset()


def test_where_nobody_on_the_path_holds_the_gpu_it_is_the_innermost(box):
    start(box, f"{POD}{KIND}")
    ownership = box.resolve(a=[10])
    assert (held(ownership), ownership.pids) == ([(A, STRANGER)], {10: STRANGER})
    other = Workload("k8s/ml/other/u", "k8s", namespace="ml", pod="other", user="ml")
    box.pods.claims = [PodClaim(A, other, uid="u"), PodClaim(B, TRAIN, uid=UID)]
    for _ in range(2):
        ownership = box.resolve(a=[10])
    assert held(ownership) == [(A, other.id), (B, TRAIN.id)]
    assert ownership.pids == {10: STRANGER}


def test_a_process_on_more_than_its_pod_has_is_the_pods_everywhere(box):
    """A privileged one sees all of the node's; it is no stranger to its own for that."""
    start(box, f"{POD}{KIND}")
    box.pods.claims = [PodClaim(A, TRAIN, uid=UID)]
    for one in ({"a": [10], "b": [10]}, {"b": [10], "a": [10]}):
        assert box.resolve(**one).pids == {10: TRAIN.id}


def test_what_the_cluster_uses_of_the_host_is_the_pods(box):
    box.cgroups.add(f"{POD}{KIND}")
    box.cgroups.use(f"{POD}{KIND}", Use(cpu_cores=2))
    box.cgroups.use(POD, Use(cpu_cores=1))
    for at in (NOW, NOW + 10):
        box.cgroups.advance(int(at * 1e6))
    start(box, f"{POD}{KIND}")
    box.pods.claims = [PodClaim(A, TRAIN, uid=UID)]
    [host] = box.resolve(a=[10]).hosts
    assert (host.workload.id, host.cpu_seconds) == (TRAIN.id, 30)


def test_the_kubelets_source_is_told_which_pods_lie_in_others(box):
    start(box, f"{POD}{KIND}")
    start(box, POD, pid=11)
    box.resolve(a=[10, 11])
    assert (box.pods.processes[A], box.pods.inner) == ({UID, INNER_UID}, {INNER_UID})
    start(box, INNER_POD, pid=12)
    box.resolve(a=[10], b=[12])
    assert box.pods.inner == set(), "whoever names a group so in a pod of their own hides no other pod"
    box.prolog.start(7, [B], pod_uid=INNER_UID)
    box.resolve(a=[10])
    assert box.pods.inner == set()
