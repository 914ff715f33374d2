"""What a prolog file says, and what becomes of one that does not keep to the schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.slurm import PrologJob, parse

A = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
MINIMAL = {"job_id": 7, "uid": 1000}


def parsed(name=f"{A}.json", **fields):
    return parse(name, json.dumps(MINIMAL | fields).encode())


def test_what_is_optional_may_be_absent_or_null():
    assert parsed() == PrologJob(7, 1000, "7")
    nulls = dict.fromkeys(("sluid", "array_job_id", "array_task_id", "user", "account", "partition", "start"))
    assert parsed(**nulls) == parsed()


@pytest.mark.parametrize(
    ("array", "task", "name"), [(120, 0, "120_0"), (120, 3, "120_3"), (0, 2**32 - 2, "7"), (None, 2**32 - 2, "7")]
)
def test_a_task_of_an_array_is_named_as_people_name_it(array, task, name):
    assert parsed(array_job_id=array, array_task_id=task).name == name


@pytest.mark.parametrize(
    "fields",
    [
        {"job_id": None},
        {"job_id": 0},
        {"job_id": -1},
        {"job_id": 2**32},
        {"job_id": "7"},
        {"job_id": 7.0},
        {"job_id": True},
        {"job_id": [7]},
        {"uid": None},
        {"uid": -1},
        {"uid": "root"},
        {"uid": False},
        {"array_job_id": 120},
        {"array_task_id": 3},
        {"array_job_id": {}, "array_task_id": 3},
        {"start": "yesterday"},
        {"start": 0},
        {"start": -5},
        {"start": 1e300},
        {"start": 10**400},
        {"start": True},
        {"user": 1000},
        {"user": "a\nb"},
        {"user": "a\0b"},
        {"user": "\x1b[31mada"},
        {"user": "\ud800"},
        {"user": "\u202eada"},
        {"user": "\u2028"},
        {"user": "a" * 10_000},
        {"account": ["physics"]},
        {"partition": "x" * 257},
        {"sluid": "../../job_8"},
        {"sluid": "sEKNKTV3WPV50"},
    ],
    ids=str,
)
def test_a_field_of_the_wrong_kind_is_refused(fields):
    with pytest.raises(UnusableError) as caught:
        parsed(**fields)
    assert caught.value.reason == "bad_field"


@pytest.mark.parametrize("text", ["Ünïcode", "a b", "", "x" * 256, '<script>"{}\\', "名前"])
def test_printable_names_are_kept_as_they_are(text):
    assert parsed(user=text, account=text, partition=text).account == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not_json"),
        (b'{"job_id": 7, "uid"', "not_json"),
        (b'{"job_id": 7, "uid": 1000}}', "not_json"),
        (b'{"job_id": 7, "uid": 1000, "start": NaN}', "not_json"),
        (b'{"job_id": 7, "uid": 1000, "start": Infinity}', "not_json"),
        (b'{"job_id": 7, "uid": 1000, "start": 1e999}', "bad_field"),
        (b'{"job_id": ' + b"9" * 5000 + b', "uid": 1000}', "not_json"),
        (b'{"job_id": 7, "uid": 1000, "user": "\xff"}', "not_json"),
        (b"\xff\xfe{\0}\0", "not_json"),
        (b"[" * 60_000, "not_json"),
        (b"[]", "bad_field"),
        (b"7", "bad_field"),
        (b"null", "bad_field"),
        (b"{}", "bad_field"),
    ],
)
def test_what_is_no_object_of_json_is_refused(content, reason):
    with pytest.raises(UnusableError) as caught:
        parse(f"{A}.json", content)
    assert caught.value.reason == reason


@given(st.binary(max_size=400))
def test_any_bytes_are_a_job_or_refused(content):
    try:
        job = parse(f"{A}.json", content)
    except UnusableError:
        return
    assert job.job_id > 0


FIELDS = ["job_id", "uid", "user", "account", "partition", "start", "sluid", "array_job_id", "array_task_id"]
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20), st.lists)


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_whatever_the_fields_hold_names_can_be_shown(fields):
    try:
        job = parsed(**fields)
    except UnusableError:
        return
    assert all(text.isprintable() and text.encode() is not None for text in (job.name, job.user, job.account))
    assert job.start is None or 0 < job.start < float("inf")
