"""Prolog files in their directory: which are believed, and what becomes of those that are half there, or no files."""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from dutycycle_exporter.attribution.prolog_directory import PrologDirectory, read_boot_id
from dutycycle_exporter.attribution.slurm import PrologJob
from dutycycle_exporter.attribution.trusted_files import MAX_BYTES, MAX_FILES
from tests.fakes.slurm_prolog import PrologWriter

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
MINIMAL = {"job_id": 7, "uid": 1000}
BOOT, EARLIER = "8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d", "11111111-0d9b-4a53-8f39-0c1ac5be1e3d"
as_root = pytest.mark.usefixtures("root")


@pytest.fixture
def prolog(tmp_path):
    return PrologWriter(tmp_path / "slurm")


@pytest.fixture
def directory(prolog):
    return PrologDirectory(prolog.directory)


def names(files):
    return {gpu: [job.name for job in jobs] for gpu, jobs in files.jobs.items()}


def test_a_file_of_the_schema(prolog, directory):
    prolog.start(
        123,
        [A],
        array_job_id=120,
        array_task_id=3,
        sluid="sEKNKTV3WPV500",
        user="ada",
        account="physics",
        partition="gpu",
        nodes=["n1", "n2"],
        start=1_700_000_000,
        later={"version": [1]},
    )
    job = PrologJob(123, 1000, "120_3", "sEKNKTV3WPV500", "ada", "physics", "gpu", 1_700_000_000.0)
    assert directory.read().jobs == {A: (job,)}


@pytest.mark.parametrize(
    "name", ["0.json", "GPU-.json", "GPU-a b.json", f"{A}.8.json", f"{A}.x.json", f"{A}..json", "GPU-ä.json"]
)
def test_a_name_that_is_no_gpus_or_another_jobs_is_refused(prolog, directory, name):
    prolog.write(name, json.dumps(MINIMAL).encode())
    files = directory.read()
    assert (files.jobs, files.failures) == ({}, {"bad_name": 1})


def test_jobs_that_share_a_gpu_have_a_file_each(prolog, directory):
    prolog.start(8, [A], shared=True)
    prolog.start(7, [A, B], shared=True)
    assert names(directory.read()) == {A: ["7", "8"], B: ["7"]}


def test_a_job_with_two_files_for_a_gpu_holds_it_once(prolog, directory):
    prolog.start(7, [A])
    prolog.start(7, [A], shared=True)
    assert names(directory.read()) == {A: ["7"]}


def test_other_files_are_nobodys(prolog, directory):
    for name in ("README", f".{A}.json", f"{A}.json~", A, "0"):
        (prolog.directory / name).write_text("{}")
    files = directory.read()
    assert (files.jobs, files.failures) == ({}, {})


def test_a_missing_directory_means_no_jobs(tmp_path):
    files = PrologDirectory(tmp_path / "nowhere").read()
    assert (files.jobs, files.failures) == ({}, {})


def test_a_directory_that_goes_takes_its_jobs_with_it(prolog, directory):
    prolog.start(7, [A])
    directory.read()
    prolog.end(7, [A])
    prolog.directory.rmdir()
    assert directory.read().jobs == {}


def test_a_file_in_place_of_the_directory_is_a_failure(tmp_path):
    (tmp_path / "file").write_text("")
    assert PrologDirectory(tmp_path / "file").read().failures == {"directory_unreadable": 1}


def put(path, kind):
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o644)
        case "dangling":
            path.symlink_to("nowhere")
        case "loop":
            path.symlink_to(path.name)
        case "symlink":
            good = path.with_name("good")
            good.write_text(json.dumps(MINIMAL))
            path.symlink_to(good)


@pytest.mark.parametrize("kind", ["directory", "fifo", "socket", "dangling", "loop", "symlink"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(prolog, directory, kind):
    put(prolog.directory / f"{A}.json", kind)
    for _ in range(2):
        files = directory.read()
        assert (files.jobs, files.failures) == ({}, {"not_a_file": 1})


@pytest.mark.parametrize(("size", "failures"), [(MAX_BYTES, {}), (MAX_BYTES + 1, {"too_large": 1})])
def test_a_file_has_a_largest_size(prolog, directory, size, failures):
    prolog.write(f"{A}.json", json.dumps(MINIMAL).encode().ljust(size))
    assert directory.read().failures == failures


def test_a_directory_has_a_largest_number_of_files(prolog, directory):
    for number in range(MAX_FILES + 1):
        (prolog.directory / f"GPU-{number}.json").touch()
    assert directory.read().failures == {"too_many_files": 1}


def test_while_there_are_too_many_files_those_that_were_known_go_on_being_read(prolog, directory):
    """Leftovers that nobody removes end no job."""
    prolog.start(7, [A])
    prolog.start(8, [B])
    assert names(directory.read()) == {A: ["7"], B: ["8"]}
    for number in range(MAX_FILES + 1):
        (prolog.directory / f"GPU-{number}.json").touch()
    for _ in range(3):
        files = directory.read()
        assert (names(files), files.failures) == ({A: ["7"], B: ["8"]}, {"too_many_files": 1})
    prolog.end(8, [B])
    assert names(directory.read()) == {A: ["7"]}


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(prolog, directory, mode):
    prolog.start(7, [A])
    (prolog.directory / f"{A}.json").chmod(mode)
    assert directory.read().failures == {"file_writable_by_others": 1}


@as_root
def test_a_file_of_another_user_is_refused(prolog, directory):
    prolog.start(7, [A])
    os.chown(prolog.directory / f"{A}.json", 1000, 1000)
    files = directory.read()
    assert (files.jobs, files.failures) == ({}, {"file_of_another_user": 1})


@as_root
def test_a_directory_of_another_user_is_refused(prolog, directory):
    prolog.start(7, [A])
    os.chown(prolog.directory, 1000, 1000)
    assert directory.read().failures == {"directory_of_another_user": 1}


@pytest.mark.parametrize(("mode", "trusted"), [(0o775, False), (0o757, False), (0o1777, True), (0o755, True)])
def test_a_directory_where_others_may_rename_files_is_refused(prolog, directory, mode, trusted):
    prolog.start(7, [A])
    prolog.directory.chmod(mode)
    files = directory.read()
    assert (names(files), files.failures) == (
        ({A: ["7"]}, {}) if trusted else ({}, {"directory_writable_by_others": 1})
    )


def test_a_file_that_cannot_be_used_this_once_keeps_its_previous_answer_once(prolog, directory):
    prolog.start(7, [A])
    directory.read()
    (prolog.directory / f"{A}.json").write_text('{"job_id": 7,')
    files = directory.read()
    assert (names(files), files.failures) == ({A: ["7"]}, {"not_json": 1})
    files = directory.read()
    assert (names(files), files.failures) == ({}, {"not_json": 1})
    prolog.start(7, [A])
    assert names(directory.read()) == {A: ["7"]}


def test_a_directory_that_cannot_be_read_this_once_keeps_its_jobs_once(prolog, directory):
    prolog.start(7, [A])
    directory.read()
    aside = prolog.directory.rename(prolog.directory.with_name("aside"))
    prolog.directory.write_text("")
    assert names(directory.read()) == {A: ["7"]}
    assert names(directory.read()) == {}
    prolog.directory.unlink()
    aside.rename(prolog.directory)
    assert names(directory.read()) == {A: ["7"]}


def test_a_replaced_file_is_the_next_jobs(prolog, directory):
    prolog.start(7, [A])
    assert names(directory.read()) == {A: ["7"]}
    prolog.start(8, [A])
    assert names(directory.read()) == {A: ["8"]}


def test_a_file_is_read_again_only_when_it_has_changed(prolog, directory, monkeypatch):
    prolog.start(7, [A])
    prolog.write(f"{B}.json", b"{")
    directory.read()
    opened = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or plain(path, *rest, **more))
    files = directory.read()
    assert (names(files), files.failures) == ({A: ["7"]}, {"not_json": 1})
    assert opened == [prolog.directory]


def test_a_file_that_could_not_be_opened_is_tried_again(prolog, directory, monkeypatch):
    prolog.start(7, [A])
    plain = os.open

    def full(path, *rest, **more):
        if path == f"{A}.json":
            raise OSError(23, "Too many open files in system")
        return plain(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        assert directory.read().failures == {"unreadable": 1}
    assert names(directory.read()) == {A: ["7"]}


def test_reading_leaves_nothing_open(prolog, directory):
    prolog.start(7, [A])
    os.mkfifo(prolog.directory / f"{B}.json")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        directory.read()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_writers_files_can_be_read_by_all_and_written_by_one(prolog):
    prolog.start(7, [A])
    assert stat.S_IMODE((prolog.directory / f"{A}.json").stat().st_mode) == 0o644


def test_a_file_from_before_the_node_was_booted_is_stale(prolog):
    prolog.start(7, [A], boot_id=EARLIER)
    prolog.start(8, [B], boot_id=BOOT)
    files = PrologDirectory(prolog.directory, BOOT).read()
    assert (names(files), files.failures) == ({B: ["8"]}, {"earlier_boot": 1})


@pytest.mark.parametrize(("written", "running"), [(None, BOOT), (BOOT, None), ("", BOOT)])
def test_where_a_boot_is_not_known_a_file_is_believed(prolog, written, running):
    prolog.start(7, [A], boot_id=written)
    assert names(PrologDirectory(prolog.directory, running).read()) == {A: ["7"]}


@pytest.mark.parametrize("written", [7, ["x"], "\n", "x" * 300])
def test_a_boot_id_that_is_no_name_is_refused(prolog, written):
    prolog.start(7, [A], boot_id=written)
    assert PrologDirectory(prolog.directory, BOOT).read().failures == {"bad_field": 1}


@pytest.mark.parametrize(
    ("content", "boot_id"), [(f"{BOOT}\n", BOOT), ("", None), ("x" * 100, None), ("\xff" * 36, None)]
)
def test_the_running_kernels_boot_id(tmp_path, content, boot_id):
    path = tmp_path / "sys/kernel/random/boot_id"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert read_boot_id(tmp_path) == boot_id
    assert read_boot_id(tmp_path / "nowhere") is None


@as_root
def test_a_user_without_privileges_believes_what_root_wrote():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        PrologWriter(Path(folder) / "slurm").start(7, [A])
        os.seteuid(65534)
        try:
            files = PrologDirectory(Path(folder) / "slurm").read()
        finally:
            os.seteuid(0)
    assert (names(files), files.failures) == ({A: ["7"]}, {})
