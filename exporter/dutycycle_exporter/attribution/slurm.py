"""The files that a Slurm prolog writes and the epilog removes: which job a GPU is allocated to, from start to end.

One JSON object per file, one file per job and GPU, in a directory that only root (or the exporter's own user) can
write:

    <GPU uuid>.json              for the only job on the GPU
    <GPU uuid>.<job id>.json     for one of several jobs that share it

    {"job_id": 123, "sluid": "sEKNKTV3WPV500", "array_job_id": 120, "array_task_id": 3,
     "uid": 1000, "user": "ada", "account": "physics", "partition": "gpu", "nodelist": "n[1-2]", "start": 1700000000,
     "boot_id": "8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d", "pod_uid": "4d01379a-a293-46f9-b558-a8de7db7816f"}

`job_id` and `uid` are required. `job_id` is SLURM_JOB_ID, also for a task of an array, which has both array fields
besides; `sluid` is SLURM_JOB_SLUID (Slurm 26.05 and later), which names the job's cgroup there; `start` is in Unix
seconds; `boot_id` is that of the kernel, with which every job of a node ends; `pod_uid` is that of the Kubernetes pod
in which slurmd runs, where it does. Optional fields may be absent or null, and other fields are for people and later
versions (`nodelist` is one). Strings are printable and at most 256 characters. Write a file under a name that begins
with a dot, then rename it.

Pure: name and bytes in, job out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from . import strict_json
from .cgroup import is_sluid
from .errors import UnusableError
from .text import is_name

_MAX_UINT32 = 2**32 - 1
_NO_VALUE = 2**32 - 2
"""Slurm's NO_VAL: what its interfaces say for the array task of a job that is none."""

_NAME = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z-]{1,80})(?:\.([0-9]{1,10}))?\.json", re.ASCII)
_POD_UID = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PrologJob:
    """A job, as its prolog file says. `name` is what people type into scancel: `123`, or `120_3` in an array.

    `uid` is None where a job mapping file names the job, and nothing else of it. `pod_uid` is "" where slurmd runs in
    no pod, or nobody says in which.
    """

    job_id: int
    uid: int | None
    name: str
    sluid: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    start: float | None = None
    pod_uid: str = ""


def parse(name: str, content: bytes, boot_id: str | None = None) -> PrologJob:
    """A prolog file's job. Raises UnusableError: not_json, bad_name, bad_field, earlier_boot.

    With the `boot_id` of the running kernel, a file that tells of another is a job's that ended with that one.
    """
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise UnusableError("bad_name")
    try:
        fields = strict_json.parse(content.decode())
    except (ValueError, RecursionError) as error:
        raise UnusableError("not_json") from error
    if not isinstance(fields, dict):
        raise UnusableError("bad_field")
    job_id = _integer(fields, "job_id", least=1)
    uid = _integer(fields, "uid")
    if job_id is None or uid is None:
        raise UnusableError("bad_field")
    if matched[2] is not None and int(matched[2]) != job_id:
        raise UnusableError("bad_name")
    if boot_id is not None and (_text(fields, "boot_id") or boot_id) != boot_id:
        raise UnusableError("earlier_boot")
    sluid = _text(fields, "sluid")
    if sluid and not is_sluid(sluid):
        raise UnusableError("bad_field")
    pod_uid = _text(fields, "pod_uid")
    if pod_uid and _POD_UID.fullmatch(pod_uid) is None:
        raise UnusableError("bad_field")
    return PrologJob(
        job_id=job_id,
        uid=uid,
        name=_job_name(job_id, _integer(fields, "array_job_id"), _integer(fields, "array_task_id")),
        sluid=sluid,
        user=_text(fields, "user"),
        account=_text(fields, "account"),
        partition=_text(fields, "partition"),
        start=_time(fields, "start"),
        pod_uid=pod_uid,
    )


def _job_name(job_id: int, array: int | None, task: int | None) -> str:
    array = array or None
    task = None if task == _NO_VALUE else task
    if (array is None) != (task is None):
        raise UnusableError("bad_field")
    return str(job_id) if array is None else f"{array}_{task}"


def _integer(fields: Mapping[str, object], key: str, least: int = 0) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MAX_UINT32:
        raise UnusableError("bad_field")
    return value


def _time(fields: Mapping[str, object], key: str) -> float | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MAX_UINT32:
        raise UnusableError("bad_field")
    return float(value)


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or not is_name(value):
        raise UnusableError("bad_field")
    return value


def gpu_uuid(name: str) -> str:
    """The GPU that a file is about, by its name."""
    return name.split(".", 1)[0]
