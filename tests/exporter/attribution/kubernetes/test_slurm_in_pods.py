"""Slurm inside Kubernetes in the resolver: whose a GPU is that the kubelet gives to a pod, and Slurm to a job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from dutycycle_exporter.attribution.kubernetes import PodClaim
from dutycycle_exporter.model import Workload
from tests.exporter.attribution.kubernetes.test_resolver import NOW, TRAIN, UID, A, B, Box, held
from tests.fakes.cgroup import Use, pod_container, slurm_task
from tests.fakes.proc import FakeProcess

OTHER_UID = "7b1c2d3e-4f50-4161-8273-849596a7b8c9"
SLURMD = Workload(f"k8s/slurm/gpu-0/{UID}", "k8s", namespace="slurm", pod="gpu-0", user="slurm")
OTHER = Workload(f"k8s/ml/other/{OTHER_UID}", "k8s", namespace="ml", pod="other", user="ml")
JOB, JOB_8 = "slurm/7", "slurm/8"

POD = PodClaim(A, SLURMD, NOW - 5000, ("slurmd",), UID)
LABELLED = replace(POD, slurm=True)
STRANGER = PodClaim(A, OTHER, NOW - 4000, ("main",), OTHER_UID)
IN_JOB, IN_JOB_8, IN_POD = (f"{pod_container(UID, 'c0ffee')}{below}" for below in (slurm_task(7), slurm_task(8), ""))


@pytest.fixture
def box(tmp_path):
    box = Box(tmp_path)
    box.pods.workloads = {UID: SLURMD, OTHER_UID: OTHER}
    return box


@dataclass(frozen=True)
class Case:
    """What is known of GPU A, and who holds it then. Jobs are told by prolog's files, with their fields."""

    pods: tuple[PodClaim, ...]
    jobs: dict[int, dict[str, object]] = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    """Their cgroups."""
    holders: tuple[str, ...] = ()
    displaced: tuple[str, ...] = ()


HERE, ELSEWHERE = {"pod_uid": UID}, {"pod_uid": OTHER_UID}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case((LABELLED,), holders=(SLURMD.id,)), id="no job"),
        pytest.param(
            Case((POD,), {7: HERE}, holders=(JOB,), displaced=(SLURMD.id,)),
            id="the prolog says in which pod it ran; the job has no process yet",
        ),
        pytest.param(
            Case((LABELLED,), {7: {}}, holders=(JOB,), displaced=(SLURMD.id,)), id="the pod's labels say that it is one"
        ),
        pytest.param(
            Case((POD,), {7: {}}, (IN_JOB,), holders=(JOB,), displaced=(SLURMD.id,)),
            id="the job's processes are in the pod's cgroup",
        ),
        pytest.param(
            Case((POD,), {}, (IN_JOB,), holders=(JOB,), displaced=(SLURMD.id,)), id="and no file says anything"
        ),
        pytest.param(
            Case((LABELLED,), {7: HERE, 8: HERE}, holders=(JOB, JOB_8), displaced=(SLURMD.id,)), id="two jobs share it"
        ),
        pytest.param(
            Case((POD,), {}, (IN_JOB, IN_JOB_8), holders=(JOB, JOB_8), displaced=(SLURMD.id,)),
            id="two jobs share it, as their processes tell",
        ),
        pytest.param(
            Case((POD,), {7: {}}, holders=(SLURMD.id, JOB)), id="two schedulers gave it away by mistake: nothing tells"
        ),
        pytest.param(
            Case((STRANGER,), {7: HERE}, holders=(OTHER.id, JOB)), id="by mistake: the prolog ran in another pod"
        ),
        pytest.param(
            Case((STRANGER,), {7: {}}, (slurm_task(7),), holders=(OTHER.id, JOB)),
            id="by mistake: it is on the node",
        ),
        pytest.param(
            Case((replace(STRANGER, slurm=True),), {7: HERE}, holders=(OTHER.id, JOB)),
            id="what the prolog says goes before labels",
        ),
        pytest.param(
            Case((POD, STRANGER), {7: HERE}, holders=(OTHER.id, JOB), displaced=(SLURMD.id,)),
            id="a pod that shares the GPU goes on sharing it",
        ),
        pytest.param(
            Case((LABELLED, replace(STRANGER, slurm=True)), {7: HERE}, holders=(OTHER.id, JOB), displaced=(SLURMD.id,)),
            id="of two pods of Slurm's the one in which the job runs",
        ),
        pytest.param(
            Case((POD,), {}, (IN_POD,), holders=(SLURMD.id,)),
            id="the pod's own process is no job's",
        ),
        pytest.param(
            Case((STRANGER,), {}, (IN_JOB,), holders=(OTHER.id,)), id="a job of another pod takes nothing away"
        ),
        pytest.param(
            Case((POD,), {7: HERE}, (IN_JOB_8,), holders=(JOB,), displaced=(SLURMD.id,)),
            id="nor does one without a file where another has one",
        ),
    ],
)
def test_who_holds_the_gpu_of_a_pod(box, case):
    box.pods.claims = list(case.pods)
    for job_id, fields in case.jobs.items():
        box.prolog.start(job_id, [A], shared=True, **fields)
    for pid, cgroup in enumerate(case.processes, start=10):
        box.proc.add(FakeProcess(pid, NOW - 100, cgroup))
    ownership = box.resolve(a=range(10, 10 + len(case.processes)))
    assert held(ownership) == [(A, holder) for holder in case.holders]
    assert ownership.displaced == {(A, workload) for workload in case.displaced}
    assert not ownership.failures


def test_a_prologs_word_is_told_to_the_kubelets_source_like_a_processs(box):
    """So it learns the uid of a pod that nobody else names."""
    box.prolog.start(7, [A], pod_uid=UID)
    box.proc.add(FakeProcess(10, NOW - 100, f"{pod_container(OTHER_UID, 'c0')}{slurm_task(8)}"))
    box.resolve(b=[10])
    assert box.pods.processes == {A: {UID}, B: {OTHER_UID}}


def test_where_one_job_was_found_the_next_is_expected(box):
    """Though nothing tells of it in which pod it runs: as a job mapping directory's has no more than a number."""
    box.pods.claims = [POD, replace(POD, device=B)]
    box.proc.add(FakeProcess(10, NOW - 100, IN_JOB))
    box.prolog.start(8, [B])
    assert held(box.resolve(b=[])) == [(A, SLURMD.id), (B, SLURMD.id), (B, JOB_8)]
    assert held(box.resolve(a=[10])) == [(A, JOB), (B, JOB_8)]
    box.proc.remove(10)
    box.resolve()
    assert held(box.resolve()) == [(A, SLURMD.id), (B, JOB_8)]
    box.pods.claims = []
    box.resolve()
    box.pods.claims = [POD, replace(POD, device=B)]
    assert held(box.resolve()) == [(A, SLURMD.id), (B, SLURMD.id), (B, JOB_8)], "nothing is known of the next pod"


def test_one_empty_answer_about_processes_gives_the_gpu_back_to_nobody(box):
    """A job that only its processes prove ends with the second, and until then it holds the GPU alone."""
    box.pods.claims = [POD]
    box.proc.add(FakeProcess(10, NOW - 100, IN_JOB))
    found = [held(box.resolve(a=pids)) for pids in ([10], [], [])]
    assert found == [[(A, JOB)], [(A, JOB)], [(A, SLURMD.id)]]


def test_the_pod_is_the_same_after_the_job_as_before(box):
    box.pods.claims = [LABELLED]
    box.run(10, UID)
    before = box.resolve(a=[10]).allocations
    box.proc.remove(10)
    box.prolog.start(7, [A], pod_uid=UID, start=NOW)
    [during] = box.resolve().allocations
    assert (during.workload.id, during.start, during.containers) == (JOB, NOW, ())
    box.prolog.end(7, [A])
    assert box.resolve().allocations == before


@pytest.mark.parametrize(
    ("jobs", "uid", "owner"),
    [
        pytest.param({7: 1000}, 1000, JOB, id="of the only job"),
        pytest.param({7: 1000}, 300_000, JOB, id="of the only job, its user's number being another's"),
        pytest.param({7: 1000, 8: 1001}, 1001, JOB_8, id="of the job of its user"),
        pytest.param({7: 1000, 8: 1000}, 1000, None, id="of one of the two of its user"),
        pytest.param({7: 1000, 8: 1001}, 300_000, None, id="of one of the two"),
    ],
)
def test_without_cgroups_of_slurms_a_process_in_the_pod_is_a_jobs(box, jobs, uid, owner):
    box.pods.claims = [POD]
    for job_id, user in jobs.items():
        box.prolog.start(job_id, [A], uid=user, shared=True, pod_uid=UID, start=NOW - 200)
    box.proc.add(FakeProcess(10, NOW - 100, IN_POD, uid=uid))
    ownership = box.resolve(a=[10])
    assert (dict(ownership.pids), ownership.unresolved) == (({10: owner}, set()) if owner else ({}, {10}))
    started = {allocation.workload.id for allocation in ownership.allocations if allocation.first_process is not None}
    assert started == ({owner} - {None})
    assert ownership.hosts == (), "the pod's cgroup is not the job's"


def test_a_process_that_was_there_before_the_job_is_no_beginning_of_its_work(box):
    """But its work is the job's as long as nobody knows better: what is not known is not idle."""
    box.pods.claims = [POD]
    box.prolog.start(7, [A], pod_uid=UID, start=NOW - 50)
    box.proc.add(FakeProcess(10, NOW - 100, IN_POD))
    ownership = box.resolve(a=[10])
    assert ownership.pids == {10: JOB}
    assert ownership.allocations[0].first_process is None


def test_a_process_in_the_jobs_cgroup_is_the_jobs_and_one_in_the_pods_alone_is_not(box):
    """Where Slurm uses cgroups and no file names the job: what else runs in the pod is no work of the job's."""
    box.pods.claims = [POD]
    box.proc.add(FakeProcess(10, NOW - 100, IN_JOB))
    box.proc.add(FakeProcess(11, NOW - 100, IN_POD))
    assert box.resolve(a=[10, 11]).pids == {10: JOB, 11: SLURMD.id}


def test_what_a_job_without_a_process_uses_of_the_host_is_in_its_own_cgroup_in_the_pod(box):
    path = pod_container(UID, "c0ffee")
    group = f"{path}/system.slice/slurmstepd.scope/job_7"
    box.cgroups.add(group)
    box.cgroups.use(group, Use(cpu_cores=3))
    box.cgroups.use(path, Use(cpu_cores=1))
    for at in (NOW, NOW + 10):
        box.cgroups.advance(int(at * 1e6))
    box.pods.claims = [POD]
    box.prolog.start(7, [A], pod_uid=UID)
    [host] = box.resolve().hosts
    assert (host.workload.id, host.cpu_seconds) == (JOB, 30)


@pytest.mark.parametrize(
    ("cgroups", "holders"),
    [
        pytest.param((OTHER_UID,), [(A, OTHER.id)], id="it has gone"),
        pytest.param((UID, OTHER_UID), [(A, OTHER.id), (A, JOB)], id="it is still there"),
        pytest.param((UID,), [(A, OTHER.id), (A, JOB)], id="the holder's cannot be seen"),
        pytest.param((), [(A, OTHER.id), (A, JOB)], id="no pod's can be seen"),
    ],
)
def test_a_file_of_a_pod_that_is_over_is_not_believed_where_its_gpu_is_another_pods(box, cgroups, holders):
    """A slurmd pod that was deleted ran no epilog; the one that takes its place has the GPU, and no job."""
    for uid in cgroups:
        box.cgroups.add(pod_container(uid, "c0ffee"))
    box.pods.claims = [STRANGER]
    box.prolog.start(7, [A], pod_uid=UID)
    ownership = box.resolve()
    assert held(ownership) == holders
    assert ownership.failures == ({("slurm", "earlier_pod"): 1} if len(holders) == 1 else {})


@pytest.mark.parametrize("uid", ["a/b", "a b", "../x", "é", "a" * 65, 7, ["x"], "a\nb"])
def test_a_uid_that_is_none_is_refused_with_its_file(box, uid):
    box.pods.claims = [POD]
    box.prolog.start(7, [A], pod_uid=uid)
    ownership = box.resolve()
    assert held(ownership) == [(A, SLURMD.id)]
    assert ownership.failures == {("slurm", "bad_field"): 1}


def test_slurm_on_the_node_beside_pods_is_as_it_was(box):
    box.prolog.start(7, [B], user="ben", uid=1001)
    box.pods.claims = [PodClaim(A, TRAIN)]
    ownership = box.resolve()
    assert held(ownership) == [(A, TRAIN.id), (B, JOB)]
    assert ownership.displaced == frozenset()
