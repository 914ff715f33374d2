"""A small scenario on a site of real processes: what was wrong is seen, and of what was not nothing is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.box import played
from benchmarks.box.model import Job, Observed, Phase, Scenario
from benchmarks.box.play import BoxSettings, play
from tests.fakes.cgroup import Use
from tests.fakes.nvml import IDLE, GpuProcess, Level, Load, Steps, find_gcc
from tests.required import lacking

LENGTH, END = 4500.0, 4200.0
SETTINGS = BoxSettings(time_scale=300, processes=1, pass_interval=180, read_interval=30)
EMPTY, FED, STARVED, POD = 11, 12, 13, 14


def job(number: int, gpu: tuple[str, int], scheduler: str = "slurm") -> Job:
    return Job(
        number, f"user{number}", "lab", "batch", "by hand", {}, False, number, 0.0, END, (gpu,), scheduler=scheduler
    )


SCENARIO = Scenario(
    1,
    ("gpu01", "gpu02"),
    2,
    LENGTH,
    (
        job(EMPTY, ("gpu01", 0)),
        job(FED, ("gpu01", 1)),
        job(STARVED, ("gpu02", 0)),
        job(POD, ("gpu02", 1), scheduler="k8s"),
    ),
)


def courses(of: Job) -> tuple[Phase, ...]:
    working = [GpuProcess(1, 40 * 2**30)]
    if of.number == EMPTY:
        return (Phase(0.0, (Load(IDLE),), (Use(cpu_cores=0.01),)),)
    if of.number == STARVED:
        return (Phase(0.0, (Load(Steps(2.0, 0.17), working),), (Use(cpu_cores=7.9, io_pressure=0.4),)),)
    return (
        Phase(0.0, (Load(Level(0.02), working),), (Use(cpu_cores=1.0),)),
        Phase(120.0, (Load(Level(0.95), working),), (Use(cpu_cores=2.0),)),
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("box")


@pytest.fixture(scope="module")
def observed(directory: Path) -> Observed:
    if find_gcc() is None:
        lacking("gcc")
    return play(SCENARIO, courses=courses, directory=directory, settings=SETTINGS)


def about(observed: Observed, number: int) -> list[tuple[str, tuple[str, ...]]]:
    workload = next(one.workload for one in SCENARIO.jobs if one.number == number)
    return [
        (one.rule, one.causes)
        for one in observed.incidents
        if one.kind == "efficiency" and one.workload == workload and one.resolution == "ended"
    ]


@pytest.mark.timeout(180)
def test_what_was_wrong_is_seen_and_nothing_else(observed: Observed) -> None:
    assert about(observed, EMPTY) == [("idle", ("no process",))], observed
    assert about(observed, STARVED) == [("stalled", ("data loading",))], observed
    assert about(observed, FED) == about(observed, POD) == []


def test_a_story_has_what_was_said_at_its_time(observed: Observed) -> None:
    idle = next(one for one in observed.incidents if one.rule == "idle")
    assert [told.kind for told in idle.told if told.kind != "told"] == ["opened", "resolved"]
    assert (idle.told[0].rule, idle.told[0].causes, idle.told[0].severity) == ("idle", ("no process",), "warning")
    assert idle.told[0].at == idle.opened
    assert idle.started is not None
    assert 1500 <= idle.opened - idle.started <= 2700
    # A grace of ten minutes and a window of thirty; and a job's end is when it was.
    assert 2400 <= idle.opened < END
    assert idle.resolved == pytest.approx(END, abs=300)


def test_owners_are_told_of_their_own_jobs(observed: Observed) -> None:
    mails = {(one.to, one.workloads) for one in observed.messages if one.sink == "mail" and one.to.startswith("user")}
    assert mails == {
        (f"user{EMPTY}@example.org", (f"slurm/{EMPTY}",)),
        (f"user{STARVED}@example.org", (f"slurm/{STARVED}",)),
    }
    told = {one.workloads for one in observed.messages if one.sink == "slack"}
    assert {(f"slurm/{EMPTY}",), (f"slurm/{STARVED}",)} <= told


def test_the_ledger_is_in_seconds_of_the_full_length_run(observed: Observed) -> None:
    rows = observed.ledger
    assert set(rows) == {one.workload for one in SCENARIO.jobs}
    for row in rows.values():
        # What is seen too late at the end is lost: a reading or two, and more where the machine is busy. A tenth of a
        # second is half a minute here.
        assert END - 600 < row.allocated < END + 60
        assert END - 600 < row.observed < END + 60
    assert rows[f"slurm/{EMPTY}"].busy == 0
    assert rows[f"slurm/{STARVED}"].busy / rows[f"slurm/{STARVED}"].observed == pytest.approx(0.17, abs=0.01)
    fed = rows[f"slurm/{FED}"]
    assert fed.busy / fed.observed == pytest.approx((120 * 0.02 + (END - 120) * 0.95) / END, abs=0.02)


def test_a_run_says_what_it_took(observed: Observed, directory: Path) -> None:
    costs = json.loads((directory / "costs.json").read_text())
    assert {"crowd-1", "doubles", "prometheus", "postgres", "alerter-a", "alerter-b"} <= set(costs["cores"])
    assert costs["pace"]["passes_made"] > 0
    assert observed.passes > 5
    assert observed.failures == 0


def test_an_outcome_comes_back_from_its_file(observed: Observed, tmp_path: Path) -> None:
    path = tmp_path / "seed-1.json"
    kept = played.Played(1, played.digest(SCENARIO), "by hand", SETTINGS.numbers, observed, {"crowd-1": 0.1})
    played.write(path, kept)
    assert played.read(path) == kept
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match="seed-1"):
        played.read(path)


def test_another_plan_is_another_scenario() -> None:
    assert played.digest(SCENARIO) != played.digest(replace(SCENARIO, jobs=SCENARIO.jobs[1:]))
