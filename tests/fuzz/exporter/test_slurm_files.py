"""What a prolog or a job mapping hook leaves on a node, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from dutycycle_exporter.attribution import job_mapping
from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.job_mapping import JobMappingDirectory
from dutycycle_exporter.attribution.prolog_directory import PrologDirectory
from dutycycle_exporter.attribution.slurm import PrologJob, parse
from dutycycle_exporter.attribution.text import is_name
from dutycycle_exporter.attribution.trusted_files import TrustedFile, TrustedFiles
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

BOOT = "8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d"
PROLOGS = (
    {
        "job_id": 123,
        "sluid": "sEKNKTV3WPV500",
        "array_job_id": 120,
        "array_task_id": 3,
        "uid": 1000,
        "user": "ada",
        "account": "physics",
        "partition": "gpu",
        "nodelist": "n[1-2]",
        "start": 1700000000,
        "boot_id": BOOT,
        "pod_uid": "4d01379a-a293-46f9-b558-a8de7db7816f",
    },
    {"job_id": 7, "uid": 0, "array_task_id": 4294967294},
)
NAMES = ("GPU-1.json", "GPU-1.123.json", "MIG-7d1bfc74-4f2f-5b3a.7.json")
REASONS = {"not_json", "bad_name", "bad_field", "earlier_boot"}
PROLOG = jsons(PROLOGS)


def check_job(job: PrologJob) -> None:
    assert 1 <= job.job_id < 2**32
    assert job.uid is None or 0 <= job.uid < 2**32
    assert job.start is None or 0 < job.start < 2**32
    assert all(map(is_name, (job.name, job.sluid, job.user, job.account, job.partition, job.pod_uid)))


@fuzz(name=texts(NAMES), content=PROLOG, boot=st.sampled_from([None, BOOT]))
def test_a_prolog_file_is_a_job_or_refused_for_one_of_the_reasons(name: str, content: bytes, boot: str | None) -> None:
    try:
        check_job(parse(name, content, boot))
    except UnusableError as error:
        assert error.reason in REASONS


@fuzz(
    job=st.integers(1, 2**32 - 1),
    uid=st.integers(0, 2**32 - 1),
    user=st.text(st.characters(codec="utf-8"), max_size=300),
)
def test_what_a_prolog_writes_is_read_as_it_was_or_refused(job: int, uid: int, user: str) -> None:
    content = json.dumps({"job_id": job, "uid": uid, "user": user}).encode()
    if is_name(user):
        assert parse("GPU-1.json", content) == PrologJob(job_id=job, uid=uid, name=str(job), user=user)
    else:
        try:
            raise AssertionError(parse("GPU-1.json", content))
        except UnusableError as error:
            assert error.reason == "bad_field"


@fuzz(contents=st.lists(PROLOG, max_size=4))
def test_every_file_of_the_prolog_directory_is_a_job_or_counted(contents: Sequence[bytes], directory: Path) -> None:
    for place in range(4):
        path = directory / f"GPU-{place % 2}{f'.{place}' if place > 1 else ''}.json"
        path.unlink(missing_ok=True)
        if place < len(contents):
            path.write_bytes(contents[place])
    answers = TrustedFiles(
        directory, concerns=lambda name: name.endswith(".json"), parse=lambda file: parse(file.name, file.content)
    ).read()
    assert len(answers.answers) + sum(answers.failures.values()) == len(contents)
    found = PrologDirectory(directory).read()
    assert found.failures == answers.failures
    assert {job for held in found.jobs.values() for job in held} <= set(answers.answers.values())


MAPPING = documents([b"123\n", b"1\n2\n\n3", b" 4294967295\r\n", b""], tokens=[b"4294967296", b"0", b"7\n7\n"])


@fuzz(content=MAPPING, modified=st.floats(allow_nan=False))
def test_a_job_mapping_file_is_jobs_or_refused(content: bytes, modified: float) -> None:
    try:
        jobs = job_mapping.parse(TrustedFile("0", content, modified))
    except UnusableError as error:
        assert error.reason == "bad_field"
        return
    assert len({job.name for job in jobs}) == len(jobs) <= job_mapping.MAX_JOBS
    for job in jobs:
        assert job.uid is None
        assert 1 <= job.job_id < 2**32
    assert {str(job.job_id).encode() for job in jobs} == {line.strip() for line in content.splitlines() if line.strip()}


@fuzz(contents=st.lists(MAPPING, max_size=3))
def test_every_job_mapping_file_is_jobs_or_counted(contents: Sequence[bytes], directory: Path) -> None:
    for place in range(3):
        path = directory / f"GPU-{place}"
        path.unlink(missing_ok=True)
        if place < len(contents):
            path.write_bytes(contents[place])
    found = JobMappingDirectory(directory).read(())
    holding = sum(bool(content.split()) for content in contents)
    assert holding - sum(found.failures.values()) <= len(found.jobs) <= holding
