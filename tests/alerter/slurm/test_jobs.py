"""Jobs in the shapes of four releases: the same facts from all of them, and never a wrong number."""

from typing import Any

import pytest

from dutycycle_alerter.slurm.fields import Fields, Nonsense
from dutycycle_alerter.slurm.jobs import read_job
from dutycycle_alerter.slurm.model import ExitCode, JobState, NodeGpus, SlurmJob
from tests.alerter.slurm.shapes import (
    COMPLEX,
    MINUTES_UNLIMITED,
    MIXED,
    OBJECTS,
    PLAIN,
    SHAPES,
    exit_code,
    instant,
    job,
    number,
    resources,
    words,
)

GIB = 2**30


def read(document: dict[str, Any]) -> tuple[SlurmJob, Nonsense]:
    nonsense = Nonsense()
    found = read_job(Fields(document, nonsense, "jobs"))
    assert found is not None
    return found, nonsense


@pytest.mark.parametrize("shape", SHAPES)
def test_a_running_job_on_two_nodes(shape: str) -> None:
    found, nonsense = read(job(shape))
    assert found == SlurmJob(
        id=3,
        state=JobState.RUNNING,
        states=("RUNNING",),
        cluster="lab",
        user="alice",
        account="research",
        partition="gpu",
        qos="normal",
        name="train",
        comment="dutycycle:expect-uneven",
        reason="None",
        submit=1700000000.0,
        eligible=1700000001.0,
        start=1700000010.0,
        end=None,  # Slurm tells the time at which its limit would end it
        limit=86400.0,
        nodes=("gpu02", "gpu03"),
        gpus={"gpu02": (NodeGpus(4, "h200", (0, 1, 2, 3)),), "gpu03": (NodeGpus(4, "h200", (4, 6, 7, 5)),)},
        gpus_allocated=8,
        gpus_requested=8,
        gpu_types={"h200": 8},
        cpus_requested=8,
        cpus_allocated=16,
        memory_requested=200 * GIB,
        memory_allocated=200 * GIB,
        batch=True,
        restarts=0,
    )
    assert not nonsense
    assert found.shown_id == "3"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_of_an_array_is_named_by_its_raw_id(shape: str) -> None:
    found, _ = read(job(shape, job_id=124, array_job_id=number(shape, 120), array_task_id=number(shape, 0)))
    assert (found.id, found.array_job_id, found.array_task_id, found.shown_id) == (124, 120, 0, "120_0")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_part_of_a_heterogeneous_job(shape: str) -> None:
    found, _ = read(job(shape, job_id=131, het_job_id=number(shape, 130), het_job_offset=number(shape, 1)))
    assert (found.id, found.het_job_id, found.shown_id) == (131, 130, "130+1")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("listed", "tasks"), [("0-9%2", 10), ("2-9,12%2", 9), ("0-8:4", 3), ("5", 1), ("", 1), ("1,3,5-7,...", 5)]
)
def test_the_tasks_that_wait_in_one_record(shape: str, listed: str, tasks: int) -> None:
    waiting = waits(shape) | {"array_job_id": number(shape, 3), "array_task_string": listed}
    found, nonsense = read(job(shape, **waiting))
    assert (found.tasks, found.shown_id) == (tasks, "3_*")
    assert not nonsense


def waits(shape: str) -> dict[str, Any]:
    """What is different of a job that waits: an expected start, and nothing allocated."""
    return {
        "job_state": words(shape, "PENDING"),
        "start_time": instant(shape, 1800000000),
        "end_time": instant(shape, 1800086400),
        "nodes": "",
        "allocated_nodes": [],
        "gres_detail": [],
        "tres_alloc_str": "",
        "state_reason": "Resources",
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_a_waiting_job_has_no_start_and_holds_nothing(shape: str) -> None:
    found, nonsense = read(job(shape, **waits(shape)))
    assert (found.state, found.start, found.end, found.nodes) == (JobState.PENDING, None, None, ())
    assert (found.gpus, found.gpus_allocated, found.gpus_requested) == ({}, None, 8)
    assert not nonsense


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("state", "status", "signal"), [("COMPLETED", 0, 0), ("FAILED", 3, 0), ("CANCELLED", 0, 15), ("TIMEOUT", 0, 1)]
)
def test_how_and_when_a_job_ended(shape: str, state: str, status: int, signal: int) -> None:
    over = {"job_state": words(shape, state), "exit_code": exit_code(shape, status, signal), "gres_detail": []}
    found, nonsense = read(job(shape, **over))
    assert (found.state, found.end) == (JobState.ENDED, 1700086400.0)
    assert found.exit_code == ExitCode(status, signal or None)
    assert found.gpus_allocated == 8, "from the TRES, because the indexes are gone"
    assert not nonsense


@pytest.mark.parametrize(
    ("shape", "states", "state"),
    [
        (PLAIN, "COMPLETING", JobState.COMPLETING),
        (PLAIN, "CONFIGURING", JobState.RUNNING),
        (OBJECTS, ["RUNNING", "COMPLETING"], JobState.COMPLETING),
        (OBJECTS, ["CANCELLED", "COMPLETING"], JobState.COMPLETING),
        (OBJECTS, ["RUNNING", "CONFIGURING"], JobState.RUNNING),
        (OBJECTS, ["PENDING", "REQUEUED"], JobState.PENDING),
        (OBJECTS, ["PENDING", "SPECIAL_EXIT"], JobState.PENDING),
        (OBJECTS, ["SUSPENDED"], JobState.SUSPENDED),
        (OBJECTS, ["NODE_FAIL"], JobState.ENDED),
        (OBJECTS, ["OUT_OF_MEMORY"], JobState.ENDED),
        (OBJECTS, ["A_STATE_OF_2030"], JobState.UNKNOWN),
    ],
)
def test_states(shape: str, states: Any, state: JobState) -> None:
    assert read(job(shape, job_state=states))[0].state is state


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_without_a_limit(shape: str) -> None:
    found, nonsense = read(job(shape, time_limit=number(shape, MINUTES_UNLIMITED)))
    assert found.limit is None
    assert not nonsense


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({}, 0),
        ({"tres_per_node": "gres:gpu:4"}, 8),
        ({"tres_per_node": "gres/gpu:h200:4"}, 8),
        ({"tres_per_job": "gres:gpu:3"}, 3),
        ({"tres_per_task": "gres/gpu:1"}, 2),
        ({"tres_per_node": "gres:gpu:2,gres:shard:1"}, 4),
        ({"tres_per_node": "gres:gpu:2", "node_count": None}, None),
        ({"tres_per_node": "gres:gpu:x:y:2"}, None),
        ({"tres_per_task": "cpu=8,gres/gpu:h100=3"}, 6),
        ({"tres_per_task": "cpu=4"}, 0),
        ({"tres_per_socket": "gres/gpu:2", "sockets_per_node": 2}, 8),
        ({"tres_per_socket": "gres/gpu:2", "sockets_per_node": 65534}, None),
    ],
)
def test_requested_gpus_where_a_site_does_not_count_them(shape: str, asked: dict[str, Any], gpus: int | None) -> None:
    nothing = {"tres_per_node": "", "tres_req_str": "cpu=8,mem=1G,node=2", "tres_alloc_str": "cpu=8,mem=1G,node=2"}
    assert read(job(shape, **{**nothing, **asked}))[0].gpus_requested == gpus


@pytest.mark.parametrize("shape", SHAPES)
def test_allocated_gpus_are_those_of_the_nodes_where_a_site_does_not_count_them(shape: str) -> None:
    assert read(job(shape, tres_alloc_str="cpu=16,node=2"))[0].gpus_allocated == 8


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_are_told_one_by_one_or_in_a_list(shape: str) -> None:
    found, nonsense = read(job(shape, job_resources=None))
    assert set(found.gpus) == {"gpu02", "gpu03"}
    found, nonsense = read(job(shape, job_resources=resources(shape, ["gpu03", "gpu02"])))
    assert found.gpus["gpu03"] == (NodeGpus(4, "h200", (0, 1, 2, 3)),)
    assert not nonsense


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "detail", [["gpu:h200:4(IDX:0-3)"], ["gpu:h200:4(IDX:0-3)"] * 3, ["gpu:h200:4(IDX:0-3)", "gpu:h200:4(IDX:"]]
)
def test_indexes_that_do_not_fit_the_nodes_are_not_known(shape: str, detail: list[str]) -> None:
    found, nonsense = read(job(shape, gres_detail=detail))
    assert (found.gpus, found.gpus_allocated) == ({}, 8)
    assert nonsense == {"jobs.gres_detail": 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_types_and_mig_and_nodes_without_gpus(shape: str) -> None:
    mixed = ["gpu:h200:1(IDX:0),gpu:nvidia_h200_1g.18gb:2(IDX:8-9),shard:h200:1", ""]
    found, _ = read(job(shape, gres_detail=mixed))
    assert found.gpus == {"gpu02": (NodeGpus(1, "h200", (0,)), NodeGpus(2, "nvidia_h200_1g.18gb", (8, 9)))}
    assert found.gpu_types == {"h200": 1, "nvidia_h200_1g.18gb": 2}
    assert found.gpus_allocated == 3


@pytest.mark.parametrize("shape", [MIXED, OBJECTS, COMPLEX])
def test_srun_and_salloc_have_no_script(shape: str) -> None:
    assert read(job(shape, batch_flag=False))[0].batch is False


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("field", "attribute", "unknown"),
    [
        ("user_name", "user", ""),
        ("comment", "comment", ""),
        ("time_limit", "limit", None),
        ("start_time", "start", None),
        ("restart_cnt", "restarts", None),
        ("batch_flag", "batch", None),
        ("array_job_id", "array_job_id", None),
        ("tres_alloc_str", "cpus_allocated", None),
        ("tres_req_str", "memory_requested", None),
        ("nodes", "nodes", ()),
    ],
)
def test_a_field_of_a_wrong_type_is_not_known_and_a_missing_one_neither(
    shape: str, field: str, attribute: str, unknown: Any
) -> None:
    for value in (["nonsense"], {"nonsense": 1}, "nonsense=[" if field not in ("user_name", "comment") else 5):
        found, nonsense = read(job(shape, **{field: value}))
        assert getattr(found, attribute) == unknown
        assert nonsense[f"jobs.{field}"] == 1
    document = job(shape)
    del document[field]
    found, nonsense = read(document)
    assert getattr(found, attribute) == unknown
    assert not nonsense


@pytest.mark.parametrize(
    "document", [{}, {"job_id": 5}, {"job_state": "RUNNING"}, {"job_id": 0, "job_state": "RUNNING"}, [], None, "job", 5]
)
def test_a_job_without_id_or_state_is_none(document: object) -> None:
    nonsense = Nonsense()
    assert read_job(Fields(document, nonsense, "jobs")) is None
    assert nonsense["jobs"] >= 1
