"""What /proc and the cgroup filesystem say: a process chooses its name, and a container its cgroups below its own."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from dutycycle_exporter.attribution.cgroup import Group, parse, slurm_scope
from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.hosts import CgroupFiles
from dutycycle_exporter.attribution.processes import ProcessReader, parse_command, parse_stat, parse_uid
from dutycycle_exporter.attribution.prolog_directory import read_boot_id
from dutycycle_exporter.attribution.text import is_name
from dutycycle_exporter.model import Workload
from dutycycle_exporter.release import _catches
from dutycycle_exporter.sysfs import expected_gpus
from tests.fuzz.hostile import documents, texts
from tests.fuzz.running import fuzz

UID = "4d01379a-a293-46f9-b558-a8de7db7816f"
SLICE = UID.replace("-", "_")
GROUPS = (
    "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n",
    "0::/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_batch\n",
    "12:cpu,cpuacct:/slurm/uid_1000/job_12/step_0\n3:cpuset:/slurm_n1/uid_1000/job_12\n0::/\n",
    f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-c0ffee.scope\n",
    f"0::/kubepods/besteffort/pod{UID}/c0ffee/system.slice/slurmstepd.scope/job_5\n",
    f"0::/kubepods-pod{SLICE}.slice:cri-containerd:c0ffee\n",
    f"0::/../pod{UID}/c\n",
    "0::/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_12\n",
)
TOKENS = (
    "job_",
    "job_1",
    "slurmstepd.scope",
    f"pod{UID}",
    "kubepods",
    "..",
    "user.slice",
    "uid_1",
    "slurm",
    "/" * 3000,
)


@fuzz(text=texts(GROUPS, tokens=TOKENS))
def test_any_cgroup_is_a_group_by_a_harmless_name_or_none(text: str) -> None:
    group = parse(text)
    if group is None:
        return
    assert group.scheduler in ("slurm", "k8s")
    assert group.id.isascii()
    assert is_name(group.id)
    assert is_name(group.pod_uid)
    for _, path in group.paths or ():
        assert path.startswith("/")
        assert path in text, "the group, or one above it"
        assert ".." not in path.split("/")
        assert "\0" not in path
    scope = slurm_scope(group)
    assert scope is None or group.scheduler == "slurm"


@fuzz(job=st.integers(1, 10**10 - 1), below=st.text("abc_-:", max_size=20))
def test_the_cgroup_of_a_job_is_the_jobs(job: int, below: str) -> None:
    path = f"/system.slice/slurmstepd.scope/job_{job}"
    assert parse(f"0::{path}/{below}\n") == Group("slurm", str(job), (("", path),))


STAT = (
    b"41 (python3) R 40 41 40 0 -1 4194304 1 0 0 0 7 3 0 0 20 0 9 0 123456 1 1 18446744073709551615 1 1 0 0 0 0 0\n",
    b"7 (a) b (c)) S 1 7 7 0 -1 0 1 0 0 0 7 3 0 0 20 0 9 0 18446744073709551615 1\n",
)
STATUS = (b"Name:\tpython3\nUmask:\t0022\nUid:\t1000\t1000\t1000\t1000\nGid:\t0\t0\t0\t0\n",)


@fuzz(stat=documents(STAT), status=documents(STATUS))
def test_a_process_is_read_or_malformed(stat: bytes, status: bytes) -> None:
    assert is_name(parse_command(stat))
    try:
        _, ticks = parse_stat(stat)
        assert 0 <= ticks < 2**64
    except UnusableError as error:
        assert error.reason == "malformed"
    try:
        assert 0 <= parse_uid(status) < 10**10
    except UnusableError as error:
        assert error.reason == "malformed"


CAUGHT = b"Name:\tdutycycle-expor\nSigIgn:\t0000000001001000\nSigCgt:\t0000000000004a02\nCapInh:\t0\n"


@fuzz(status=documents([CAUGHT]), name=st.binary(max_size=15).filter(lambda name: b"\n" not in name))
def test_a_signal_is_caught_only_where_a_process_says_so(status: bytes, name: bytes) -> None:
    if b"SigCgt:\t" not in status:
        assert not _catches(status, signal.SIGUSR1)
    _catches(status, signal.SIGUSR1)
    assert _catches(CAUGHT.replace(b"dutycycle-expor", name), signal.SIGUSR1), "whatever it is called"


@fuzz(command=st.binary(max_size=15), pgid=st.integers(0, 2**22), ticks=st.integers(0, 2**64 - 1))
def test_no_command_hides_the_fields_after_it(command: bytes, pgid: int, ticks: int) -> None:
    stat = b"7 (%s) S 1 %d 7 0 -1 0 1 0 0 0 7 3 0 0 20 0 9 0 %d 1\n" % (command, pgid, ticks)
    assert parse_stat(stat) == (pgid, ticks)
    told = parse_command(stat)
    assert told in ("", command.decode("utf-8", "replace"))


@fuzz(
    stat=documents(STAT),
    status=documents(STATUS),
    cgroup=documents([text.encode() for text in GROUPS]),
    node=documents([b"cpu  1 2 3\nbtime 1700000000\nprocesses 7\n"]),
)
def test_a_whole_process_is_read_or_refused(
    stat: bytes, status: bytes, cgroup: bytes, node: bytes, directory: Path
) -> None:
    process = directory / "41"
    process.mkdir(exist_ok=True)
    for name, content in (("stat", stat), ("status", status), ("cgroup", cgroup)):
        (process / name).write_bytes(content)
    (directory / "stat").write_bytes(node)
    reader = ProcessReader(directory)
    reader.begin(1_700_000_000.0)
    try:
        found = reader.read(41)
    except UnusableError as error:
        assert error.reason in ("malformed", "reused")
        return
    assert found.start is None or found.start <= 1_700_000_002.0
    assert is_name(found.command)


FILES: Mapping[str, tuple[bytes, ...]] = {
    "cpu.stat": (b"usage_usec 123456\nuser_usec 1\nsystem_usec 2\n",),
    "cpu.max": (b"400000 100000\n", b"max 100000\n"),
    "cpuset.cpus.effective": (b"0-3,8,10-11\n", b"\n", b"0-18446744073709551615\n"),
    "io.pressure": (b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0 total=1\n",),
    "cpuacct.usage": (b"123456789\n",),
}


@fuzz(contents=st.tuples(*(documents(sound, tokens=[b"100000", b"max", b"0-"]) for sound in FILES.values())))
def test_a_cgroup_tells_amounts_or_nothing(contents: tuple[bytes, ...], directory: Path) -> None:
    unified, v1 = directory / "unified/job", directory / "cpuacct/job"
    for group in (unified, v1):
        group.mkdir(parents=True, exist_ok=True)
    (directory / "unified/cgroup.controllers").write_bytes(b"cpu io")
    for name, content in zip(FILES, contents, strict=True):
        for group in (unified, v1):
            (group / name).write_bytes(content)
    workload = Workload("slurm/1", "slurm")
    for group in (Group("slurm", "1", (("", "/job"),)), Group("slurm", "1", (("cpuacct", "/job"),))):
        reading = CgroupFiles(directory).read(workload, group)
        assert reading is not None
        amounts = (reading.cpu_seconds, reading.cpu_limit, reading.io_pressure, reading.cpu_pressure)
        for amount in (*amounts, reading.memory_pressure):
            assert amount is None or (math.isfinite(amount) and amount >= 0)
        assert reading.cpu_limit != 0, "no limit is not a limit of nothing"


@fuzz(
    boot=documents([b"8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d\n"]),
    vendor=documents([b"0x10de\n"]),
    kind=documents([b"0x030200\n"]),
)
def test_the_kernels_own_files_are_understood_or_not_known(
    boot: bytes, vendor: bytes, kind: bytes, directory: Path
) -> None:
    place, device = directory / "sys/kernel/random", directory / "bus/pci/devices/0000:01:00.0"
    for folder in (place, device):
        folder.mkdir(parents=True, exist_ok=True)
    (place / "boot_id").write_bytes(boot)
    (device / "vendor").write_bytes(vendor)
    (device / "class").write_bytes(kind)
    told = read_boot_id(directory)
    assert told is None or len(told) == 36
    assert expected_gpus(directory) in (0, 1)
