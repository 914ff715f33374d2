"""A group's CPU time, limit and pressure, in cgroup v2, in v1, and where files are missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.cgroup import Group, parse
from dutycycle_exporter.attribution.hosts import CgroupFiles
from dutycycle_exporter.model import HostReading, Workload

JOB = Workload("slurm/7", "slurm")
PATH = "/system.slice/slurmstepd.scope/job_7"
GROUP = Group("slurm", "7", (("", PATH),))
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def write(root, path, **files):
    directory = root / path.strip("/")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


@pytest.fixture
def root(tmp_path):
    write(tmp_path, "/", cgroup__controllers="cpuset cpu io memory\n", cpuset__cpus__effective="0-63\n")
    return tmp_path


def test_a_group_in_cgroup_v2(root):
    write(
        root,
        PATH,
        cpu__stat="usage_usec 85000000\nuser_usec 1\nsystem_usec 2\n",
        cpu__max="max 100000\n",
        cpuset__cpus__effective="0-7,16\n",
        io__pressure=PRESSURE.format(5_000_000),
        cpu__pressure=PRESSURE.format(250_000),
        memory__pressure=PRESSURE.format(0),
    )
    assert CgroupFiles(root).read(JOB, GROUP) == HostReading(JOB, 85.0, 9.0, 5.0, 0.25, 0.0)


@pytest.mark.parametrize(
    ("own", "above", "cpuset", "limit"),
    [
        ("max 100000", "max 100000", None, 64),
        ("250000 100000", "max 100000", None, 2.5),
        ("250000 100000", "200000 100000", None, 2),
        ("max 100000", "1600000 100000", "0-7", 8),
        ("400000 100000", None, "0-7", 4),
        ("max", None, "", 64),
        ("", None, "3", 1),
        ("0 100000", None, "0,2,4-5", 4),
        ("100000 0", None, "5-2", 64),
        ("nan 100000", None, "0-3,x", 64),
    ],
)
def test_the_cpu_limit_is_the_least_quota_up_to_the_root_or_the_cpu_set(root, own, above, cpuset, limit):
    write(root, PATH, cpu__stat="usage_usec 0\n", cpu__max=own)
    if above is not None:
        write(root, "/system.slice", cpu__max=above)
    if cpuset is not None:
        write(root, PATH, cpuset__cpus__effective=cpuset)
    assert CgroupFiles(root).read(JOB, GROUP).cpu_limit == limit


def test_a_kernel_without_pressure_leaves_it_unknown(root):
    write(root, PATH, cpu__stat="usage_usec 1000000\n", cpuset__cpus__effective="0\n")
    assert CgroupFiles(root).read(JOB, GROUP) == HostReading(JOB, 1.0, 1.0)


def test_a_group_that_has_gone_tells_nothing(root):
    assert CgroupFiles(root).read(JOB, GROUP) is None
    assert CgroupFiles(root / "nowhere").read(JOB, GROUP) is None


def test_a_group_without_a_path_tells_nothing(root):
    assert CgroupFiles(root).read(JOB, Group("k8s", "u", None)) is None


V1 = "".join(
    f"{number}:{controllers}:/slurm/uid_1000/job_7/step_0/task_0\n"
    for number, controllers in enumerate(("cpuset", "cpu,cpuacct", "memory"), 2)
)


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_a_group_in_cgroup_v1(tmp_path, mount):
    accounting = "cpuacct" if mount == "cpu" else mount
    job = "/slurm/uid_1000/job_7"
    write(tmp_path, f"{mount}/slurm", cpu__cfs_quota_us="600000\n", cpu__cfs_period_us="100000\n")
    write(tmp_path, mount + job, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    write(tmp_path, accounting + job, cpuacct__usage="12500000000\n")
    write(tmp_path, "cpuset" + job, cpuset__cpus="0-15\n", cpuset__effective_cpus="0-7\n")
    assert CgroupFiles(tmp_path).read(JOB, parse(V1)) == HostReading(JOB, 12.5, 6.0)


def test_where_v2_is_beside_v1_each_group_is_read_in_its_own(tmp_path):
    write(tmp_path, "unified", cgroup__controllers="\n")
    write(tmp_path, "unified" + PATH, cpu__stat="usage_usec 3000000\n")
    write(tmp_path, "cpuacct/slurm/uid_1000/job_7", cpuacct__usage="4000000000\n")
    files = CgroupFiles(tmp_path)
    assert files.read(JOB, GROUP).cpu_seconds == 3.0
    assert files.read(JOB, parse(V1)).cpu_seconds == 4.0


def test_what_a_mirror_in_v2_lacks_is_in_v1(tmp_path):
    """systemd makes a pod's slice in a v2 beside v1, too; the kubelet's limits are where the controllers are."""
    pod = "/kubepods.slice/kubepods-pod1b_2c.slice"
    write(tmp_path, "unified", cgroup__controllers="\n")
    write(tmp_path, "unified" + pod, cpu__stat="usage_usec 3000000\n", io__pressure=PRESSURE.format(5000000))
    write(tmp_path, "cpu,cpuacct" + pod, cpu__cfs_quota_us="400000\n", cpu__cfs_period_us="100000\n")
    files, workload = CgroupFiles(tmp_path), Workload("k8s/a/b/1b-2c", "k8s")
    lines = f"4:cpu,cpuacct:{pod}/cri-containerd-x.scope\n0::{pod}/cri-containerd-x.scope\n"
    for group in (parse(lines), files.find_pod("1b-2c")):
        assert files.read(workload, group) == HostReading(workload, 3.0, 4.0, io_pressure=5.0)


def test_a_job_without_processes_is_found_where_jobs_are(root):
    files = CgroupFiles(root)
    assert files.find_slurm(["job_7"], 1000, ()) is None
    scope = "/jobs.slice/slurmstepd.scope"
    write(root, f"{scope}/job_7")
    assert files.find_slurm(["job_7"], 1000, ()) is None
    assert files.find_slurm(["job_7"], None, (scope,)) == Group("slurm", "7", (("", f"{scope}/job_7"),))
    write(root, "/system.slice/slurmstepd.scope/sEKNKTV3WPV500")
    sluid = files.find_slurm(["job_8", "sEKNKTV3WPV500"], 1000, ())
    assert sluid == Group("slurm", "sEKNKTV3WPV500", (("", "/system.slice/slurmstepd.scope/sEKNKTV3WPV500"),))


def test_a_job_without_processes_is_found_where_a_slurm_for_several_slurmd_puts_jobs(root):
    write(root, "/system.slice/n1_slurmstepd.scope/job_7")
    write(root, "/system.slice/n1_slurmd.service/job_8")
    files = CgroupFiles(root)
    found = files.find_slurm(["job_7"], 1000, ())
    assert found == Group("slurm", "7", (("", "/system.slice/n1_slurmstepd.scope/job_7"),))
    assert files.find_slurm(["job_8"], 1000, ()) is None


@pytest.mark.parametrize("top", ["slurm", "slurm_n1"])
def test_a_job_without_processes_is_found_in_v1(tmp_path, top):
    path = f"/{top}/uid_1000/job_7"
    for mount in ("cpu,cpuacct", "cpuset"):
        write(tmp_path, mount + path)
    group = CgroupFiles(tmp_path).find_slurm(["job_7"], 1000, ())
    assert group == Group("slurm", "7", (("cpu", path), ("cpuacct", path), ("cpuset", path)))
    assert CgroupFiles(tmp_path).find_slurm(["job_7"], 1001, ()) is None
    assert CgroupFiles(tmp_path).find_slurm(["job_7"], None, ()) is None


@pytest.mark.parametrize("name", ["cpu.stat", "cpu.max", "cpuset.cpus.effective", "io.pressure"])
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read(tmp_path_factory, name, content):
    root = tmp_path_factory.mktemp("cgroup")
    write(root, "/", cgroup__controllers="cpu\n")
    write(root, PATH)
    (root / PATH[1:] / name).write_bytes(content)
    reading = CgroupFiles(root).read(JOB, GROUP)
    assert reading is None or reading.workload == JOB


def test_a_directory_in_place_of_a_file_is_no_answer(root):
    write(root, PATH, cpu__stat="usage_usec 1\n")
    (root / PATH[1:] / "io.pressure").mkdir()
    assert CgroupFiles(root).read(JOB, GROUP).io_pressure is None


UID = "1b-2c"


@pytest.mark.parametrize(
    ("groups", "there"),
    [
        (["kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b_2c.slice"], True),
        (["kubepods.slice/kubepods-pod1b_2c.slice"], True),
        (["kubepods/besteffort/pod1b-2c"], True),
        (["cpu,cpuacct/kubepods/pod1b-2c"], True),
        (["kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod9_9.slice"], False),
        (["kubepods"], False),
        (["cpuset/kubepods.slice"], False),
        (["system.slice"], None),
        ([], None),
    ],
)
def test_whether_a_pod_has_a_group_is_known_only_where_a_kubelets_groups_are_seen(root, groups, there):
    for group in groups:
        write(root, group)
    assert CgroupFiles(root).has_pod(UID) is there
    assert CgroupFiles(root / "nowhere").has_pod(UID) is None


POD_V2 = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b_2c.slice"
POD_V1 = "cpu,cpuacct/kubepods/burstable/pod1b-2c"


@pytest.mark.parametrize(
    ("group", "files", "lives"),
    [
        (POD_V2, {"cgroup__events": "populated 1\nfrozen 0\n"}, True),
        (POD_V2, {"cgroup__events": "populated 0\nfrozen 0\n"}, False),
        (f"{POD_V1}/sandbox", {"cgroup__procs": "7\n"}, True),
        (f"{POD_V1}/sandbox", {"cgroup__procs": ""}, False),
        (POD_V1, {}, False),
        ("kubepods.slice", {}, False),
    ],
)
def test_a_pod_lives_while_there_is_a_process_in_its_group_or_below(root, group, files, lives):
    write(root, group, **files)
    assert CgroupFiles(root).pod_lives(UID) is lives
