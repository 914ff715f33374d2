"""Whole answers: what is an answer, what an error, and what waiting jobs ask for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.slurm import documents
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.figures import read_figures
from dutycycle_alerter.slurm.model import JobState, PendingRequest, SlurmJob
from tests.alerter.slurm.shapes import COMPLEX, OBJECTS, SHAPES, accounted, answer, job, node


@pytest.mark.parametrize("shape", SHAPES)
def test_all_jobs_by_their_raw_ids(shape: str) -> None:
    listed = [job(shape, job_id=5), job(shape, job_id=7)]
    table = documents.read_jobs(answer(shape, "jobs", listed), "here", Nonsense())
    assert list(table.jobs) == [5, 7]
    assert table.updated == (1700000500 if shape in (OBJECTS, COMPLEX) else None)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_nodes_by_their_names(shape: str) -> None:
    listed = [node(shape, "IDLE", name="a"), node(shape, "IDLE", name="b")]
    assert list(documents.read_nodes(answer(shape, "nodes", listed), "here", Nonsense())) == ["a", "b"]


def test_a_job_among_others_that_cannot_be_read_is_counted_and_left_out() -> None:
    nonsense = Nonsense()
    listed: list[Any] = [job(OBJECTS), None, 5, {"job_id": "x"}]
    assert len(documents.read_jobs(answer(OBJECTS, "jobs", listed), "here", nonsense).jobs) == 1
    assert nonsense == {"jobs": 4, "jobs.job_id": 1}


def test_an_answer_in_which_nothing_can_be_read_is_none() -> None:
    with pytest.raises(SourceError, match="none of 2 jobs"):
        documents.read_jobs(answer(OBJECTS, "jobs", [{"id": 1}, {"id": 2}]), "here", Nonsense())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"jobs": [', "not JSON"),
        (b"<html>", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"jobs": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b"\x00" * 100, "not JSON"),
    ],
)
def test_what_is_no_answer(content: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why) as error:
        documents.parse(content, "squeue --json")
    assert str(error.value).startswith("squeue --json: ")


def test_a_name_that_is_no_utf_8_hides_no_job() -> None:
    """sbatch takes any bytes as a name, and Slurm writes them into its JSON as they are."""
    listed = [job(OBJECTS, job_id=5, name="NAME"), job(OBJECTS, job_id=6)]
    content = json.dumps(answer(OBJECTS, "jobs", listed)).encode().replace(b"NAME", b"caf\xe9\xff")
    jobs = documents.read_jobs(documents.parse(content, "squeue --json"), "here", Nonsense()).jobs
    assert sorted(jobs) == [5, 6]
    assert jobs[5].name == "caf\ufffd\ufffd"


@pytest.mark.parametrize("document", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": "x"}, {"nodes": []}])
def test_an_answer_without_the_list(document: dict[str, object]) -> None:
    with pytest.raises(SourceError, match="no list of jobs"):
        documents.read_jobs(document, "here", Nonsense())


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        ([{"description": "Failed while looking for jobs", "error": "Unspecified error"}], "Failed while looking"),
        ([{"error": "x\x1b[31m\n"}], "x␛[31m␊"),
        (["text"], "text"),
        ([{}], "unknown error"),
        ([{"error": "x" * 10**6}], "x" * 200),
        ([{"error": 5}], "unknown error"),
    ],
)
def test_the_errors_in_an_answer_are_shown_harmlessly(errors: list[object], shown: str) -> None:
    with pytest.raises(SourceError) as error:
        documents.read_jobs({"jobs": [], "errors": errors}, "here", Nonsense())
    assert shown in str(error.value)
    assert len(str(error.value)) < 400


def test_what_waiting_jobs_ask_for_by_partition_and_reason() -> None:
    def waiting(number: int, partition: str, reason: str, gpus: int | None, tasks: int = 1) -> SlurmJob:
        return SlurmJob(number, JobState.PENDING, partition=partition, reason=reason, gpus_requested=gpus, tasks=tasks)

    jobs = [
        waiting(1, "gpu", "Resources", 8),
        waiting(2, "gpu", "Resources", 1, tasks=10),
        waiting(3, "gpu", "JobHeldUser", 4),
        waiting(4, "long", "Resources", 2),
        waiting(5, "gpu", "Resources", 0),
        waiting(6, "gpu", "Resources", None),
        SlurmJob(7, JobState.RUNNING, partition="gpu", gpus_requested=8),
    ]
    assert documents.pending(jobs) == (
        PendingRequest("gpu", "JobHeldUser", 1, 4),
        PendingRequest("gpu", "Resources", 11, 18),
        PendingRequest("long", "Resources", 1, 2),
    )


KEYS = st.sampled_from(
    [*job(OBJECTS), *node(OBJECTS, "IDLE"), *accounted(OBJECTS), "set", "number", "infinite", "list"]
)
WORDS = st.sampled_from(
    ["RUNNING", "gpu[0-9]", "gpu:h200:4(IDX:0-3)", "cpu=1,mem=5G,gres/gpu=2", "1-5%2", "", "(null)"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6))
CHANGES = st.dictionaries(KEYS, ANYTHING, max_size=8)


@given(st.sampled_from(SHAPES), CHANGES)
def test_whatever_is_in_an_answer_it_is_read_or_refused(shape: str, changes: dict[str, Any]) -> None:
    """One good job or node beside it is always there afterwards, and numbers are never negative."""
    jobs = answer(shape, "jobs", [job(shape), {**job(shape, job_id=4), **changes}])
    for found in documents.read_jobs(jobs, "here", Nonsense()).jobs.values():
        assert found.id > 0
        counts = found.gpus_allocated, found.gpus_requested, found.cpus_allocated, found.memory_allocated, found.limit
        assert all(count is None or count >= 0 for count in counts)
    nodes = answer(shape, "nodes", [node(shape, "IDLE"), {**node(shape, "IDLE", name="other"), **changes}])
    assert "gpu02" in documents.read_nodes(nodes, "here", Nonsense())
    figures = answer(shape, "jobs", [accounted(shape), {**accounted(shape, job_id=9), **changes}])
    for run in read_figures(figures, "here", Nonsense()):
        assert run.gpu_seconds is None or run.gpu_seconds >= 0


def test_a_large_answer_is_read() -> None:
    content = json.dumps(answer(OBJECTS, "jobs", [job(OBJECTS, job_id=i + 1) for i in range(2000)])).encode()
    assert len(documents.read_jobs(documents.parse(content, "here"), "here", Nonsense()).jobs) == 2000
