"""Whose the GPUs are, on a fake node: allocations, processes, hosts and what could not be used."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.model import GpuReading, Process, ProcessOwner
from tests.fakes.cgroup import Use, pod_container, slurm_task, user_session
from tests.fakes.clock import FakeClock
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import Level
from tests.fakes.proc import FakeProcess, ProcTree
from tests.fakes.slurm_prolog import PrologWriter

NOW = 1_700_001_000.0
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
INSTANCE, OTHER_INSTANCE = "MIG-aaaaaaaa-0000-0000-0000-000000000001", "MIG-aaaaaaaa-0000-0000-0000-000000000002"
USERS = {1000: "ada", 1001: "ben"}
SLUID = "sEKNKTV3WPV500"


class Box:
    """A node of two GPUs whose processes are what the test says."""

    def __init__(self, tmp_path, local=False, people=False, job_mapping_dir=None):
        self.proc = ProcTree(tmp_path / "proc")
        self.prolog = PrologWriter(tmp_path / "slurm")
        (tmp_path / "cgroup").mkdir(parents=True)
        self.now = NOW
        self.attribution = Attribution(
            slurm_prolog_dir=self.prolog.directory,
            job_mapping_dir=job_mapping_dir,
            procfs=self.proc.root,
            cgroup=tmp_path / "cgroup",
            local=local,
            people=people,
            users=lambda uid: USERS.get(uid, str(uid)),
        )

    def run(self, pid, cgroup="/", *, uid=1000, start=NOW - 100, pgid=None):
        self.proc.add(FakeProcess(pid, start, cgroup, uid=uid, pgid=pgid))

    def resolve(self, a=(), b=(), *, drawing=()):
        """`a` and `b` are the pids that NVML reports on the GPUs; None where it cannot tell, "lost" for no GPU. Those
        of `drawing` only draw, on the first.
        """
        self.now += 5
        return self.attribution.resolve(
            [
                GpuReading(
                    uuid,
                    index,
                    "H100",
                    processes=None if pids is None else tuple(map(Process, pids)),
                    graphics=tuple(map(Process, drawing)) if uuid == A else (),
                )
                for index, (uuid, pids) in enumerate(((A, a), (B, b)))
                if pids != "lost"
            ],
            self.now,
        )


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


@pytest.fixture
def workstation(tmp_path):
    return Box(tmp_path, local=True)


def held(ownership):
    return [(allocation.device, allocation.workload.id) for allocation in ownership.allocations]


def test_a_file_allocates_a_gpu_also_without_any_process(box):
    box.prolog.start(
        7, [A], user="ada", account="physics", partition="gpu", nodes=["n1"], start=NOW - 500, array_job_id=None
    )
    [allocation] = box.resolve().allocations
    assert allocation.device == A
    assert allocation.start == NOW - 500
    assert allocation.first_process is None
    workload = allocation.workload
    assert (workload.id, workload.scheduler, workload.job_id) == ("slurm/7", "slurm", "7")
    assert (workload.user, workload.account, workload.partition) == ("ada", "physics", "gpu")


def test_a_file_without_a_name_has_the_name_of_its_uid(box):
    box.prolog.start(7, [A], uid=1001)
    assert box.resolve().allocations[0].workload.user == "ben"


def test_processes_of_the_job_attach_to_its_file(box):
    box.prolog.start(123, [A], array_job_id=120, array_task_id=3, start=NOW - 500)
    box.run(50, slurm_task(123), start=NOW - 60)
    box.run(51, slurm_task(123), start=NOW - 80)
    ownership = box.resolve(a=[50, 51])
    [allocation] = ownership.allocations
    assert (allocation.workload.id, allocation.workload.job_id) == ("slurm/120_3", "120_3")
    assert (allocation.start, allocation.first_process) == (NOW - 500, NOW - 80)
    assert ownership.pids == {50: "slurm/120_3", 51: "slurm/120_3"}


def test_the_first_process_stays_first_after_its_end(box):
    box.prolog.start(7, [A])
    box.run(50, slurm_task(7), start=NOW - 80)
    box.resolve(a=[50])
    box.proc.remove(50)
    assert box.resolve().allocations[0].first_process == NOW - 80
    box.run(51, slurm_task(7), start=NOW - 10)
    assert box.resolve(a=[51]).allocations[0].first_process == NOW - 80


def test_a_job_that_was_requeued_onto_the_same_gpu_begins_anew(box):
    box.prolog.start(7, [A], start=NOW - 500)
    box.run(50, slurm_task(7), start=NOW - 80)
    box.resolve(a=[50])
    box.proc.remove(50)
    box.prolog.start(7, [A], start=NOW)
    [allocation] = box.resolve().allocations
    assert (allocation.start, allocation.first_process) == (NOW, None)


def test_a_file_ends_its_allocation_at_once(box):
    box.prolog.start(7, [A, B])
    assert held(box.resolve()) == [(A, "slurm/7"), (B, "slurm/7")]
    box.prolog.end(7, [A])
    assert held(box.resolve()) == [(B, "slurm/7")]


def test_processes_that_outlive_their_file_keep_its_names(box):
    box.prolog.start(123, [A], array_job_id=120, array_task_id=3, account="physics", start=NOW - 500)
    box.run(50, slurm_task(123))
    before = box.resolve(a=[50])
    box.prolog.end(123, [A])
    assert box.resolve(a=[50]).allocations == before.allocations


def test_jobs_that_share_a_gpu_each_have_an_allocation(box):
    box.prolog.start(7, [A], shared=True)
    box.prolog.start(8, [A], shared=True, uid=1001)
    assert held(box.resolve()) == [(A, "slurm/7"), (A, "slurm/8")]


def test_without_a_file_a_slurm_job_is_known_by_its_cgroup_and_its_user_by_the_process(box):
    box.run(50, slurm_task(7), uid=1001, start=NOW - 60)
    ownership = box.resolve(a=[50])
    [allocation] = ownership.allocations
    assert (allocation.workload.id, allocation.workload.user, allocation.workload.account) == ("slurm/7", "ben", "")
    assert (allocation.start, allocation.first_process) == (NOW - 60, NOW - 60)
    assert ownership.pids == {50: "slurm/7"}


def test_a_pod_is_known_by_its_uid(box):
    box.run(50, pod_container("1b-2c", "c0ffee"))
    [allocation] = box.resolve(a=[50]).allocations
    workload = allocation.workload
    assert (workload.id, workload.scheduler) == ("k8s///1b-2c", "k8s")
    assert (workload.namespace, workload.pod, workload.user) == ("", "", "")


@pytest.mark.parametrize(
    ("files", "running", "expected"),
    [
        ([7], [8], ["slurm/7"]),
        ([7], [7, 8], ["slurm/7"]),
        ([7], ["1b-2c"], ["slurm/7"]),
        ([7, 8], [8], ["slurm/7", "slurm/8"]),
        ([7, 8], [7, 8, 9], ["slurm/7", "slurm/8"]),
        ([], [7, 8], ["slurm/7", "slurm/8"]),
    ],
    ids=["another's", "its own and another's", "a pod's", "sharers", "sharers and another's", "no file"],
)
def test_on_a_gpu_with_a_file_the_processes_of_others_take_nothing_away(box, files, running, expected):
    """Whose they are is told all the same: their work is not that of the holder."""
    for job in files:
        box.prolog.start(job, [A], shared=True)
    owners = {}
    for pid, owner in enumerate(running, 50):
        box.run(pid, slurm_task(owner) if isinstance(owner, int) else pod_container(owner, "c0ffee"))
        owners[pid] = f"slurm/{owner}" if isinstance(owner, int) else f"k8s///{owner}"
    ownership = box.resolve(a=list(owners))
    assert held(ownership) == [(A, workload) for workload in expected]
    assert ownership.pids == owners
    assert ownership.unresolved == frozenset()


def test_a_job_on_a_gpu_that_is_allocated_to_another_has_the_names_of_its_file(box):
    box.prolog.start(7, [A], account="physics")
    box.prolog.start(8, [B], account="art", array_job_id=6, array_task_id=1)
    box.run(50, slurm_task(8))
    ownership = box.resolve(a=[50])
    assert held(ownership) == [(A, "slurm/7"), (B, "slurm/6_1")]
    assert ownership.pids == {50: "slurm/6_1"}


def test_a_process_of_no_job_on_an_allocated_gpu_has_no_allocation(workstation):
    workstation.prolog.start(7, [A])
    workstation.run(50, user_session(1001), uid=1001)
    ownership = workstation.resolve(a=[50])
    assert held(ownership) == [(A, "slurm/7")]
    assert ownership.pids == {}


@pytest.mark.parametrize(
    ("files", "uid", "expected"),
    [
        ([{"job_id": 7, "sluid": SLUID}], 1001, "slurm/7"),
        ([{"job_id": 7}], 1000, "slurm/7"),
        ([{"job_id": 7}, {"job_id": 8}], 1000, f"slurm/{SLUID}"),
        ([{"job_id": 7}, {"job_id": 8, "sluid": "sAAAAAAAAAAAAA"}], 1000, "slurm/7"),
        ([{"job_id": 7}], 1001, f"slurm/{SLUID}"),
        ([], 1000, f"slurm/{SLUID}"),
    ],
    ids=["the file says so", "only one of the user", "two of the user", "the other says so", "another user", "no file"],
)
def test_a_cgroup_named_by_a_sluid_is_the_job_that_it_can_only_be(box, files, uid, expected):
    for fields in files:
        box.prolog.start(gpu_uuids=[A], shared=True, **fields)
    box.run(50, f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0", uid=uid)
    assert box.resolve(a=[50]).pids == {50: expected}


def test_an_allocation_by_processes_ends_after_two_empty_answers(box):
    box.run(50, slurm_task(7))
    box.resolve(a=[50])
    assert held(box.resolve()) == [(A, "slurm/7")]
    assert held(box.resolve(a=[50])) == [(A, "slurm/7")]
    assert held(box.resolve()) == [(A, "slurm/7")]
    assert held(box.resolve()) == []


@pytest.mark.parametrize("answer", [None, "lost"])
def test_where_nvml_does_not_answer_a_gpu_keeps_its_processes_as_long_as_they_live(box, answer):
    box.run(50, slurm_task(7))
    box.resolve(a=[50])
    for _ in range(5):
        ownership = box.resolve(a=answer)
        assert held(ownership) == [(A, "slurm/7")]
        assert ownership.pids == {50: "slurm/7"}
    box.proc.remove(50)
    box.run(50, slurm_task(8), start=box.now)
    assert held(box.resolve(a=answer)) == [(A, "slurm/7")]
    assert held(box.resolve(a=answer)) == []


def test_processes_that_cannot_be_read_are_counted(box):
    box.run(50, slurm_task(7))
    box.run(51, slurm_task(7), start=NOW + 60)
    box.run(52, slurm_task(7))
    (box.proc.root / "52/stat").write_bytes(b"52 (python")
    ownership = box.resolve(a=[50, 51, 52, 53], b=[53, 0])
    assert ownership.pids == {50: "slurm/7"}
    assert ownership.unresolved == {51, 52, 53, 0}
    assert ownership.failures == {("process", "reused"): 1, ("process", "malformed"): 1, ("process", "gone"): 2}


def test_a_process_that_was_read_and_is_nobodys_is_resolved(box):
    box.run(50, user_session(1000))
    ownership = box.resolve(a=[50])
    assert (ownership.pids, ownership.unresolved) == ({}, frozenset())


def test_a_process_that_ended_right_after_nvml_saw_it_is_unresolved_only_then(box):
    box.prolog.start(7, [A])
    box.run(50, slurm_task(7))
    assert box.resolve(a=[50]).unresolved == frozenset()
    box.proc.remove(50)
    assert box.resolve(a=[50]).unresolved == {50}
    assert box.resolve(a=[]).unresolved == frozenset()


def test_where_the_hosts_processes_cannot_be_seen_those_on_a_gpu_stay_unresolved(box):
    """As in a container without the host's process numbers."""
    box.prolog.start(7, [A])
    for _ in range(3):
        ownership = box.resolve(a=[50])
        assert held(ownership) == [(A, "slurm/7")]
        assert (ownership.pids, ownership.unresolved) == ({}, {50})


def test_a_pod_that_is_seen_from_another_cgroup_namespace_has_a_group(box, tmp_path):
    """As from a container in cgroup v2: the path says whose a process is, and not where its group is."""
    container = pod_container("1b-2c", "x")
    group = tmp_path / "cgroup" / container.rpartition("/")[0].strip("/")
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 5000000\n")
    box.run(50, f"/../../..{container}")
    [host] = box.resolve(a=[50]).hosts
    assert (host.workload.id, host.cpu_seconds) == ("k8s///1b-2c", 5.0)


def test_bad_files_are_counted_beside_good_ones(box):
    box.prolog.start(7, [A])
    box.prolog.write(f"{B}.json", b'{"job_id": 8')
    ownership = box.resolve()
    assert held(ownership) == [(A, "slurm/7")]
    assert ownership.failures == {("slurm", "not_json"): 1}


@pytest.mark.parametrize(("ahead", "known"), [(0, True), (299, True), (1000, False)])
def test_a_start_in_the_far_future_is_not_known(box, ahead, known):
    box.prolog.start(7, [A], start=NOW + 5 + ahead)
    assert (box.resolve().allocations[0].start is not None) == known


def test_a_shell_job_is_a_workload_where_no_scheduler_is(workstation):
    workstation.run(40, user_session(1000), start=NOW - 100.4)
    workstation.run(50, user_session(1000), start=NOW - 60, pgid=40)
    workstation.run(51, user_session(1000), start=NOW - 50, pgid=40)
    workstation.run(60, slurm_task(7))
    ownership = workstation.resolve(a=[50, 51], b=[60])
    assert held(ownership) == [(A, f"local/40-{int(NOW) - 101}"), (B, "slurm/7")]
    workload = ownership.allocations[0].workload
    assert (workload.scheduler, workload.user, workload.job_id) == ("local", "ada", "")
    assert ownership.hosts == ()


def test_a_desktop_is_no_job_and_what_draws_in_a_job_is_its(workstation):
    workstation.run(50, user_session(1000), pgid=50)
    workstation.run(51, user_session(1000), pgid=51)
    drawn = workstation.resolve(a=[50], b=[51], drawing=[51])
    assert held(drawn) == [(A, f"local/50-{int(NOW) - 100}"), (B, f"local/51-{int(NOW) - 100}")]
    for _ in range(2):
        alone = workstation.resolve(a=[50], drawing=[51])
    assert held(alone) == held(drawn)[:1]
    assert held(workstation.resolve(a=None, b=())) == held(drawn)[:1], "also while NVML does not tell who draws"
    workstation.run(60, slurm_task(7))
    for _ in range(2):
        in_job = workstation.resolve(drawing=[60])
    assert held(in_job) == [(A, "slurm/7")]


def test_without_leave_processes_of_no_scheduler_belong_to_nobody(box):
    box.run(50, user_session(1000))
    ownership = box.resolve(a=[50])
    assert (ownership.allocations, ownership.pids, ownership.failures) == ((), {}, {})


def test_a_node_without_anything_has_nothing(tmp_path):
    nowhere = tmp_path / "nowhere"
    attribution = Attribution(slurm_prolog_dir=nowhere, procfs=nowhere, cgroup=nowhere, local=True)
    ownership = attribution.resolve([GpuReading(A, 0, "H100", processes=(Process(1),))], NOW)
    assert ownership.allocations == ownership.hosts == ()
    assert ownership.failures == {("process", "gone"): 1}


def test_the_parts_of_a_fake_node_are_owned_as_they_were_started(nvml_libraries, tmp_path):
    clock = FakeClock()
    with FakeNode(tmp_path / "node", nvml_libraries, gpus=4, clock=clock) as node:
        prolog = PrologWriter(tmp_path / "slurm")
        use = Use(cpu_cores=3, io_pressure=0.2, cpu_pressure=0.1)
        jobs = {
            0: node.slurm_job(7, {0: Level(0.5)}, Work(use=use, cpu_limit=8)),
            1: node.pod("1b-2c", {1: Level(0.5)}, Work(cpu_limit=4)),
            2: node.shell_job({2: Level(0.5)}),
            3: node.slurm_job(9, {3: Level(0)}, Work(processes=False, cpu_limit=2)),
        }
        uuids = [gpu.uuid for gpu in node.driver.gpus]
        prolog.start(9, [uuids[3]])
        clock.advance(10)
        node.driver.step()
        attribution = Attribution(
            slurm_prolog_dir=prolog.directory,
            procfs=node.paths["procfs"],
            cgroup=node.paths["cgroup"],
            local=True,
            users=str,
        )
        readings = [
            GpuReading(uuid, index, "H100", processes=tuple(map(Process, jobs[index].pids)))
            for index, uuid in enumerate(uuids)
        ]
        ownership = attribution.resolve(readings, clock.now)
        owners = {allocation.device: allocation.workload.id for allocation in ownership.allocations}
        [shell_pid] = jobs[2].pids
        assert [owners[uuid] for uuid in uuids] == [
            "slurm/7",
            "k8s///1b-2c",
            f"local/{shell_pid}-{int(clock.now - 10)}",
            "slurm/9",
        ]
        hosts = {host.workload.id: host for host in ownership.hosts}
        assert set(hosts) == {"slurm/7", "k8s///1b-2c", "slurm/9"}
        job = hosts["slurm/7"]
        assert (job.cpu_seconds, job.cpu_limit) == (pytest.approx(30), 8)
        assert (job.io_pressure, job.cpu_pressure, job.memory_pressure) == (pytest.approx(2), pytest.approx(1), None)
        assert hosts["k8s///1b-2c"].cpu_limit == 4
        assert (hosts["slurm/9"].cpu_seconds, hosts["slurm/9"].cpu_limit) == (pytest.approx(10), 2)
        assert ownership.failures == {}


@given(
    st.lists(
        st.tuples(st.sampled_from(["stat", "50/stat", "50/status", "50/cgroup", "slurm"]), st.binary()), max_size=4
    )
)
def test_whatever_the_files_hold_every_gpu_has_an_answer(contents):
    with tempfile.TemporaryDirectory() as directory:
        box = Box(Path(directory), local=True)
        box.run(50, slurm_task(7))
        for name, content in contents:
            if name == "slurm":
                box.prolog.write(f"{A}.json", content)
            else:
                (box.proc.root / name).write_bytes(content)
        for _ in range(3):
            ownership = box.resolve(a=[50], b=[50])
            assert len(set(held(ownership))) == len(ownership.allocations)
            assert set(ownership.pids.values()) <= {name for _, name in held(ownership)}


def test_processes_are_named_where_that_is_asked_for(tmp_path):
    """Also those of nobody; and not otherwise, as names of people are none of a default scrape's business."""
    box = Box(tmp_path, people=True)
    box.run(50, slurm_task(7), uid=1000)
    box.run(51, uid=1001)
    assert box.resolve(a=[50], b=[51, 52]).people == {
        50: ProcessOwner("ada", "python"),
        51: ProcessOwner("ben", "python"),
    }
    assert Box(tmp_path / "other").resolve().people == {}


def test_a_mig_instance_is_a_device_of_its_own(box):
    """Its GPU is not allocated because an instance is."""
    box.prolog.start(7, [INSTANCE], user="ada")
    box.run(50, slurm_task(8))
    instances = [
        GpuReading(A, 0, "H100", mig_mode="enabled"),
        GpuReading(A, 0, "H100", mig=INSTANCE, slices=1 / 7, processes=()),
        GpuReading(A, 0, "H100", mig=OTHER_INSTANCE, slices=3 / 7, processes=(Process(50),)),
    ]
    ownership = box.attribution.resolve(instances, NOW)
    assert held(ownership) == [(INSTANCE, "slurm/7"), (OTHER_INSTANCE, "slurm/8")]


# A job mapping directory beside the prolog's.


@pytest.fixture
def mapped(tmp_path):
    (tmp_path / "jobs").mkdir(mode=0o755)
    return Box(tmp_path, job_mapping_dir=tmp_path / "jobs")


def map_jobs(tmp_path, name, *jobs):
    (tmp_path / "jobs" / name).write_text("".join(f"{job}\n" for job in jobs))


def test_a_mapping_file_allocates_a_gpu_to_nobody_known_until_a_process_tells_whose_the_job_is(mapped, tmp_path):
    map_jobs(tmp_path, "1", 7)
    [allocation] = mapped.resolve().allocations
    assert (allocation.device, allocation.workload.id, allocation.workload.user) == (B, "slurm/7", "")
    mapped.run(50, slurm_task(7))
    [allocation] = mapped.resolve(b=[50]).allocations
    assert (allocation.workload.id, allocation.workload.user) == ("slurm/7", "ada")
    mapped.proc.remove(50)
    assert [allocation.workload.user for allocation in mapped.resolve().allocations] == ["ada"]
    map_jobs(tmp_path, "1")
    assert mapped.resolve().allocations == ()


def test_a_process_whose_cgroup_is_a_sluid_belongs_to_the_only_job_of_a_mapping(mapped, tmp_path):
    map_jobs(tmp_path, "0", 7)
    mapped.run(50, f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0")
    ownership = mapped.resolve([50])
    assert held(ownership) == [(A, "slurm/7")]
    assert [allocation.workload.user for allocation in ownership.allocations] == ["ada"]


def test_of_a_gpu_with_a_prologs_file_a_mapping_says_nothing_more(mapped, tmp_path):
    map_jobs(tmp_path, "0", 7, 8)
    map_jobs(tmp_path, "1", 9)
    mapped.prolog.start(7, [A], user="ada")
    ownership = mapped.resolve()
    assert held(ownership) == [(A, "slurm/7"), (B, "slurm/9")]


def test_mapping_files_that_cannot_be_used_are_counted(mapped, tmp_path):
    map_jobs(tmp_path, "0", "$(x)")
    map_jobs(tmp_path, "9", 7)
    assert mapped.resolve().failures == {("slurm", "bad_field"): 1, ("slurm", "unknown_gpu"): 1}


def test_a_job_of_a_mapping_without_processes_has_a_cgroup(mapped, tmp_path):
    map_jobs(tmp_path, "0", 7)
    group = tmp_path / "cgroup/system.slice/slurmstepd.scope/job_7"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 5000000\n")
    [host] = mapped.resolve().hosts
    assert (host.workload.id, host.cpu_seconds) == ("slurm/7", 5.0)
