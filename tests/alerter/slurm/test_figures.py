"""Final figures: from slurmdbd's JSON in four shapes, and from sacct's text."""

from typing import Any

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.slurm import sacct
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.figures import read_figures
from dutycycle_alerter.slurm.model import ExitCode, FinalFigures
from tests.alerter.slurm.shapes import PLAIN, SHAPES, accounted, answer, number, words

GIB, MIB = 2**30, 2**20

EXPECTED = FinalFigures(
    id=8,
    state="FAILED",
    shown_id="8",
    user="alice",
    account="research",
    partition="gpu",
    qos="normal",
    name="train",
    cluster="lab",
    submit=1700000000.0,
    start=1700000010.0,
    end=1700003610.0,
    elapsed=3600.0,
    limit=7200.0,
    nodes=("gpu02", "gpu03"),
    gpus=2,
    cpus=4,
    memory=GIB,
    memory_requested=512 * MIB,
    cpu_seconds=7200.5,
    max_rss=5 * GIB,
    exit_code=ExitCode(3),
)


def read(shape: str, *jobs: dict[str, Any]) -> tuple[list[FinalFigures], Nonsense]:
    nonsense = Nonsense()
    return read_figures(answer(shape, "jobs", list(jobs)), "slurmdbd", nonsense), nonsense


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_that_failed(shape: str) -> None:
    found, nonsense = read(shape, accounted(shape))
    assert found == [EXPECTED]
    assert not nonsense
    assert found[0].gpu_seconds == 7200


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "SUSPENDED"])
def test_what_is_not_over_has_no_final_figures(shape: str, state: str) -> None:
    assert read(shape, accounted(shape, state={"current": words(shape, state)}))[0] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_of_which_only_the_end_has_reached_the_database_is_not_told_yet(shape: str) -> None:
    assert read(shape, accounted(shape, partition="", name="allocation"))[0] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_that_slurm_never_looked_at_is_not_known(shape: str) -> None:
    unseen = {"tres": {"requested": {"max": [{"type": "mem", "count": 0}]}}}
    assert read(shape, accounted(shape, steps=[unseen]))[0][0].max_rss is None
    assert table(row(), step("8.0", MaxRSS="0"))[0][0].max_rss is None


@pytest.mark.parametrize("shape", SHAPES)
def test_each_run_of_a_requeued_job_has_its_own(shape: str) -> None:
    first = accounted(shape, state={"current": words(shape, "REQUEUED")}, exit_code=None)
    found, _ = read(shape, first, accounted(shape, state={"current": words(shape, "COMPLETED")}))
    assert [run.state for run in found] == ["REQUEUED", "COMPLETED"]


@pytest.mark.parametrize(
    ("time", "start"),
    [
        ({"start": 900, "end": 5000, "elapsed": 3600}, 1400),
        ({"start": 1400, "end": 5000, "elapsed": 3600}, 1400),
        ({"start": 1000, "end": 5000, "elapsed": 3600, "suspended": 400}, 1000),
        ({"start": 1000, "end": 5000}, 1000),
        ({"start": 0, "end": 5000, "elapsed": 0}, None),
        ({"start": 0, "end": 5000, "elapsed": 100}, 4900),
        ({"start": 1000, "end": 5000, "elapsed": 10**6}, 1000),
    ],
)
def test_a_start_that_does_not_fit_how_long_it_ran_is_the_eligible_time_of_old_releases(
    time: dict[str, int], start: float | None
) -> None:
    assert read(PLAIN, accounted(PLAIN, time=time))[0][0].start == start


@pytest.mark.parametrize("shape", SHAPES)
def test_ids_that_people_use(shape: str) -> None:
    task = {"job_id": 120, "task_id": number(shape, 3)}
    part = {"job_id": 130, "job_offset": number(shape, 1)}
    found, _ = read(shape, accounted(shape, array=task), accounted(shape, het=part))
    assert [run.shown_id for run in found] == ["120_3", "130+1"]


def test_a_failure_that_22_05_calls_a_success_has_no_known_status() -> None:
    found, _ = read(PLAIN, accounted(PLAIN, exit_code={"status": "SUCCESS", "return_code": 0}))
    assert found[0].exit_code == ExitCode()


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_found_is_no_error(shape: str) -> None:
    nothing = answer(shape, "jobs", [], errors=[{"error_number": 9003, "error": "Nothing found with query"}])
    assert read_figures(nothing, "slurmdbd", Nonsense()) == []
    with pytest.raises(SourceError, match="database down"):
        read_figures(answer(shape, "jobs", [], errors=[{"error": "database down"}]), "slurmdbd", Nonsense())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nonsense_value", [5, "x", [5], [[]], {"allocated": 5}, {"allocated": [{"type": 1}]}, None])
def test_nonsense_within_is_not_known(shape: str, nonsense_value: object) -> None:
    broken = accounted(shape, tres=nonsense_value, steps=nonsense_value, exit_code=nonsense_value)
    [found], _ = read(shape, broken)
    assert (found.gpus, found.memory, found.max_rss, found.gpu_seconds) == (None, None, None, None)
    assert (found.elapsed, found.user) == (3600, "alice")


COLUMNS = sacct.COLUMNS.split(",")


def row(**cells: str) -> str:
    made = {
        "JobIDRaw": "8",
        "JobID": "8",
        "State": "FAILED",
        "User": "alice",
        "Account": "research",
        "Partition": "gpu",
        "QOS": "normal",
        "Cluster": "lab",
        "Submit": "1700000000",
        "Start": "1700000010",
        "End": "1700003610",
        "ElapsedRaw": "3600",
        "TimelimitRaw": "120",
        "NodeList": "gpu[02-03]",
        "AllocTRES": "billing=4,cpu=4,gres/gpu=2,mem=1G,node=2",
        "ReqMem": "512M",
        "ReqCPUS": "4",
        "ReqNodes": "2",
        "UserCPU": "01:59:30",
        "SystemCPU": "00:30.500",
        "ExitCode": "3:0",
    }
    return sacct.DELIMITER.join((made | cells).get(name, "") for name in COLUMNS)


def step(number: str, **cells: str) -> str:
    made = {"JobIDRaw": number, "JobID": number, "State": "FAILED", "AllocTRES": "cpu=4", **cells}
    return sacct.DELIMITER.join(made.get(name, "") for name in COLUMNS)


def table(*rows: str) -> tuple[list[FinalFigures], Nonsense]:
    nonsense = Nonsense()
    text = "\n".join((sacct.DELIMITER.join(COLUMNS), *rows)) + "\n"
    return sacct.final_figures(sacct.columns(text, sacct.DELIMITER), nonsense), nonsense


def test_sacct_tells_the_same_but_for_what_users_may_write() -> None:
    steps = step("8.batch", MaxRSS=f"{3 * 2**20}K"), step("8.extern"), step("8.0", MaxRSS="5G")
    found, nonsense = table(row(), *steps)
    assert found == [
        FinalFigures(**{name: getattr(EXPECTED, name) for name in EXPECTED.__slots__ if name != "name"}, name="")
    ]
    assert not nonsense


@pytest.mark.parametrize(
    ("cells", "attribute", "found"),
    [
        ({"State": "CANCELLED by 1000"}, "state", "CANCELLED"),
        ({"ExitCode": "0:15"}, "exit_code", ExitCode(0, 15)),
        ({"TimelimitRaw": "UNLIMITED"}, "limit", None),
        ({"TimelimitRaw": "Partition_Limit"}, "limit", None),
        ({"ReqMem": "4000Mn"}, "memory_requested", 8000 * MIB),
        ({"ReqMem": "2Gc"}, "memory_requested", 8 * GIB),
        ({"ReqMem": "0"}, "memory_requested", 0),
        ({"NodeList": "None assigned", "AllocTRES": ""}, "nodes", ()),
        ({"AllocTRES": ""}, "gpus", None),
        ({"UserCPU": "1-18:14:10", "SystemCPU": "04:47:09"}, "cpu_seconds", (42 * 60 + 14) * 60 + 10 + 17229),
        ({"UserCPU": "00:00.029", "SystemCPU": "00:00:00"}, "cpu_seconds", 0.029),
        ({"UserCPU": ""}, "cpu_seconds", None),
        ({"End": "2025-05-03T14:10:05+02:00"}, "end", 1746274205.0),
        ({"Start": "2025-05-03T14:10:05"}, "start", None),
        ({"JobID": "120_3"}, "shown_id", "120_3"),
        ({"AllocTRES": "gres/gpu:a100=1,gres/gpu:h100=1"}, "gpu_types", {"a100": 1, "h100": 1}),
    ],
)
def test_how_sacct_writes_it(cells: dict[str, str], attribute: str, found: object) -> None:
    [figures], _ = table(row(**cells))
    assert getattr(figures, attribute) == found


@pytest.mark.parametrize(
    "cells", [{"End": "Unknown"}, {"State": "RUNNING", "End": "Unknown"}, {"State": "PENDING"}, {"Partition": ""}]
)
def test_runs_that_are_not_over(cells: dict[str, str]) -> None:
    assert table(row(**cells))[0] == []


def test_the_steps_of_each_run_are_its_own() -> None:
    found, _ = table(
        row(State="REQUEUED"), step("8.batch", MaxRSS="1G"), row(State="COMPLETED"), step("8.batch", MaxRSS="2G")
    )
    assert [(run.state, run.max_rss) for run in found] == [("REQUEUED", GIB), ("COMPLETED", 2 * GIB)]


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        ({"ElapsedRaw": "-5"}, "ElapsedRaw"),
        ({"AllocTRES": "gpu"}, "AllocTRES"),
        ({"NodeList": "gpu[0-999999999]"}, "NodeList"),
        ({"UserCPU": "yesterday"}, "UserCPU"),
        ({"ReqMem": "lots"}, "ReqMem"),
        ({"Submit": "12-12-12T99:99"}, "Submit"),
        ({"Submit": "9" * 30}, "Submit"),
    ],
)
def test_a_cell_of_nonsense_is_not_known_and_counted(cells: dict[str, str], field: str) -> None:
    found, nonsense = table(row(**cells))
    assert len(found) == 1
    assert nonsense == {f"sacct.{field}": 1}


def test_rows_that_are_torn_belong_to_nobody() -> None:
    found, nonsense = table("8" + sacct.DELIMITER + "torn", row(), "", "more text", step("99.batch", MaxRSS="9G"))
    assert [run.id for run in found] == [8]
    assert found[0].max_rss is None
    assert nonsense == {"sacct.JobIDRaw": 2}


@pytest.mark.parametrize("text", ["", "\n", "error: slurmdbd is down\n", "JobID|State\n1|FAILED\n"])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match="columns"):
        list(sacct.columns(text))
