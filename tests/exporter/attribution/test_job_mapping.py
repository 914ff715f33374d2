"""dcgm-exporter's job mapping directory: which files mean which device, and which lines are jobs."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.job_mapping import MAX_JOBS, JobMappingDirectory, parse
from dutycycle_exporter.attribution.trusted_files import TrustedFile
from dutycycle_exporter.model import GpuReading

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
M1, M2, M3 = "MIG-11111111-0000", "MIG-22222222-0000", "MIG-33333333-0000"
GPUS = (
    GpuReading(A, 0, "H100"),
    GpuReading(B, 1, "H100"),
    GpuReading(B, 1, "H100", mig=M1, gpu_instance=7, compute_instance=0),
    GpuReading(B, 1, "H100", mig=M2, gpu_instance=2, compute_instance=0),
    GpuReading(B, 1, "H100", mig=M3, gpu_instance=2, compute_instance=1),
)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "jobs"
    root.mkdir(mode=0o755)
    return root


def write(root, name, content, modified=None):
    path = root / name
    path.write_bytes(content)
    path.chmod(0o644)
    if modified is not None:
        os.utime(path, (modified, modified))


def read(root, gpus=GPUS):
    files = JobMappingDirectory(root).read(gpus)
    return {key: [job.name for job in jobs] for key, jobs in files.jobs.items()}, dict(files.failures)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("0", [A]),
        ("1", [B]),
        ("1.7", [M1]),
        ("1-7", [M1]),
        ("1.2", [M2, M3]),
        (A, [A]),
        (M1, [M1]),
        ("GPU-x", ["GPU-x"]),
    ],
)
def test_a_files_name_is_an_index_with_or_without_an_instance_or_a_uuid(root, name, keys):
    write(root, name, b"123\n")
    assert read(root) == ({key: ["123"] for key in keys}, {})


@pytest.mark.parametrize(
    "name", ["README", "0.txt", ".0", "0.7.1", "-1", "0x1", "0 1", "1e3", "99999", "0~", "٣", "gpu0"]
)
def test_other_files_are_somebody_elses(root, name):
    write(root, name, b"123\n")
    assert read(root) == ({}, {})


@pytest.mark.parametrize(
    ("content", "jobs"),
    [
        (b"123\n", ["123"]),
        (b"123", ["123"]),
        (b"123\n124\n", ["123", "124"]),
        (b"123\r\n\r\n 124 \n123\n", ["123", "124"]),
        (b"4294967295\n", ["4294967295"]),
    ],
)
def test_a_line_is_a_job(root, content, jobs):
    write(root, "0", content)
    assert read(root) == ({A: jobs}, {})


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n"])
def test_an_empty_file_is_a_free_gpu(root, content):
    write(root, "0", content)
    write(root, "9", content)
    assert read(root) == ({}, {})


@pytest.mark.parametrize(
    "content",
    [
        b"job\n",
        b"120_3\n",
        b"0\n",
        b"-1\n",
        b"4294967296\n",
        b"123 124\n",
        b"123\n$(touch x)\n",
        b'123"}\n',
        b"\xff\xfe1\n",
        b"1\0\n",
        "١\n".encode(),
        b"".join(b"%d\n" % number for number in range(1, MAX_JOBS + 2)),
    ],
)
def test_a_file_with_a_line_that_is_no_job_is_refused_whole(root, content):
    write(root, "0", content)
    assert read(root) == ({}, {"bad_field": 1})


def test_a_gpu_that_nvml_does_not_show_has_no_jobs(root):
    write(root, "5", b"123\n")
    write(root, "0.1", b"124\n")
    assert read(root) == ({}, {"unknown_gpu": 2})


def test_while_nvml_is_silent_indexes_mean_what_they_meant(root):
    write(root, "0", b"123\n")
    directory = JobMappingDirectory(root)
    directory.read(GPUS)
    assert [job.name for job in directory.read(()).jobs[A]] == ["123"]


def who(directory, gpus):
    files = directory.read(gpus)
    assert files.failures == {}
    return {key: [job.name for job in jobs] for key, jobs in files.jobs.items()}


def test_a_lost_gpu_keeps_its_job_while_the_others_are_shown(root):
    """Also of a file that is written meanwhile: nothing else has its number. It comes back with an instance more."""
    write(root, "1", b"123\n")
    write(root, "1.7", b"124\n")
    directory = JobMappingDirectory(root)
    directory.read(GPUS[:3])
    write(root, "1-2", b"125\n")
    assert directory.read(GPUS[:1]).failures == {"unknown_gpu": 1}
    directory.read(GPUS[:4])
    assert who(directory, GPUS[:1]) == {B: ["123"], M1: ["124"], M2: ["125"]}
    assert who(directory, GPUS) == {B: ["123"], M1: ["124"], M2: ["125"], M3: ["125"]}
    (root / "1").unlink()
    write(root, "0", b"126\n")
    write(root, "1.7", b"127\n")
    assert who(directory, GPUS[:1]) == {A: ["126"], M1: ["127"], M2: ["125"], M3: ["125"]}


def test_a_file_is_about_the_gpu_that_had_its_number_when_it_was_written(root):
    """One that is gone from NVML's count gives its number to the next one, with which its files have nothing to do."""
    uuids = [f"GPU-{letter}" for letter in "abcd"]
    four = [GpuReading(uuid, index, "H100") for index, uuid in enumerate(uuids)]
    a, b, c, d = uuids
    three = [GpuReading(uuid, index, "H100") for index, uuid in enumerate((a, c, d))]
    for index in range(4):
        write(root, str(index), b"1%d\n" % index, modified=1_700_000_000)
    directory = JobMappingDirectory(root)
    before = who(directory, four)
    assert before == {a: ["10"], b: ["11"], c: ["12"], d: ["13"]}
    assert who(directory, three) == before
    write(root, "2", b"22\n", modified=1_700_000_100)
    assert who(directory, three) == {a: ["10"], b: ["11"], d: ["22", "13"]}
    (root / "3").unlink()
    assert who(directory, three) == {a: ["10"], b: ["11"], d: ["22"]}
    write(root, "3", b"23\n")
    assert directory.read(three).failures == {"unknown_gpu": 1}
    assert who(directory, four) == {a: ["10"], b: ["11"], d: ["22", "23"]}


@pytest.mark.parametrize("silent", [False, True])
def test_files_from_before_the_start_are_read_anew_when_a_gpu_is_back_that_was_lost_then(root, silent):
    """Also where NVML shows nothing at first. With fewer GPUs they keep their meaning, as those written since do."""
    uuids = a, b, c, d = [f"GPU-{letter}" for letter in "abcd"]
    four = [GpuReading(uuid, index, "H100") for index, uuid in enumerate(uuids)]
    three = [GpuReading(uuid, index, "H100") for index, uuid in enumerate((a, c, d))]
    for number in (0, 2, 3):
        write(root, str(number), b"1%d\n" % number)
    directory = JobMappingDirectory(root)
    if silent:
        directory.read(())
    assert directory.read(three).failures == {"unknown_gpu": 1}
    write(root, "1", b"21\n")
    assert directory.read(three).jobs.keys() == {a, c, d}
    back = {a: ["10"], c: ["21", "12"], d: ["13"]}
    assert who(directory, four) == back
    assert who(directory, three) == back
    two = [GpuReading(uuid, index, "H100") for index, uuid in enumerate((b, d))]
    assert who(directory, two) == back
    assert who(directory, three) == back
    assert who(directory, four) == back


def test_a_job_has_begun_when_the_file_that_names_it_alone_was_written(root):
    write(root, "0", b"123\n", modified=1_700_000_000)
    write(root, "1", b"124\n125\n", modified=1_700_000_000)
    jobs = JobMappingDirectory(root).read(GPUS).jobs
    assert [job.start for job in jobs[A]] == [1_700_000_000]
    assert [job.start for job in jobs[B]] == [None, None]


def test_a_list_that_is_written_for_another_job_moves_no_start(root):
    """Else every arrival and departure would look as if all the others had been requeued."""
    directory, began = JobMappingDirectory(root), []
    for content, modified in (
        (b"11\n", 100),
        (b"11\n12\n", 200),
        (b"11\n12\n", 300),
        (b"12\n", 400),
        (b"", 500),
        (b"12\n11\n", 600),
        (b"11\n", 700),
    ):
        write(root, "0", content, modified)
        began.append({job.name: job.start for job in directory.read(GPUS).jobs.get(A, ())})
    assert began == [
        {"11": 100},
        {"11": 100, "12": 200},
        {"11": 100, "12": 200},
        {"12": 200},
        {},
        {"12": 600, "11": 600},
        {"11": 600},
    ]


def test_of_several_that_were_there_before_the_start_stays_unknown(root):
    directory = JobMappingDirectory(root)
    for content in (b"11\n12\n", b"11\n"):
        write(root, "0", content, modified=1_700_000_000 + len(content))
        assert {job.start for job in directory.read(GPUS).jobs[A]} == {None}


def test_files_that_others_may_write_are_refused(root):
    write(root, "0", b"123\n")
    (root / "0").chmod(0o666)
    (root / "1").symlink_to("0")
    assert read(root) == ({}, {"file_writable_by_others": 1, "not_a_file": 1})


def test_a_missing_directory_means_no_jobs(root):
    assert read(root / "nowhere") == ({}, {})


@given(st.binary(max_size=200))
def test_any_bytes_are_jobs_or_refused(content):
    try:
        jobs = parse(TrustedFile("0", content, 1.0))
    except UnusableError:
        return
    assert all(job.name == str(job.job_id) and job.uid is None for job in jobs)
    assert len({job.name for job in jobs}) == len(jobs)
