"""Jobs on nodes with an exporter's process are judged beside those of the crowd."""

from __future__ import annotations

import pytest

from benchmarks.box.scoring import figures, rows, score, tables
from benchmarks.box.scoring.jobs import case_of
from tests.benchmarks.box.scored import condition, incident, job, observed, scenario, truth

MINE, CROWD = job(1), job(2, gpus=(("n1", 0), ("n1", 1)))


@pytest.mark.parametrize(
    ("gpus", "shown_by"),
    [
        ((("n0", 0), ("n0", 1)), "processes"),
        ((("n1", 0), ("n2", 0)), "crowd"),
        ((("n1", 0), ("n0", 0)), "both"),
    ],
)
def test_a_job_is_shown_by_the_exporters_of_its_nodes(gpus: tuple[tuple[str, int], ...], shown_by: str) -> None:
    assert case_of(job(gpus=gpus), 7, ("n0",)).shown_by == shown_by
    assert case_of(job(gpus=gpus), 7).shown_by == "crowd"


def test_each_has_figures_of_its_own() -> None:
    jobs = [MINE, CROWD]
    seen = observed([incident(MINE.start + 2400, MINE.end, job=MINE)])
    found = score(scenario(jobs), {one.number: truth(one, condition()) for one in jobs}, seen, processes=1)
    assert figures.recall(figures.shown_by(found, "processes")).value == 1
    assert figures.recall(figures.shown_by(found, "crowd")).value == 0
    assert [len(figures.shown_by(found, name).accounts) for name in ("processes", "crowd", "both")] == [1, 1, 0]
    by_title = {table.title.partition(":")[0]: table.rows for table in tables(found)}
    assert [line[0] for line in by_title["By what showed the job"]] == ["processes", "crowd", "all"]
    assert [line[0] for line in by_title["Accounts by what showed the job"]][::4] == [
        "allocated, processes",
        "allocated, crowd",
    ]
    (row,) = (row for row in rows(found, "theirs.toml") if "exporter's process" in row.what)
    assert "processes, 1 jobs: precision 1.000 [0.207, 1.000] of 1, recall 1.000 [0.207, 1.000] of 1" in row.figure
    assert "crowd, 1 jobs: precision -, recall 0.000 [0.000, 0.793] of 1" in row.figure


def test_where_all_are_shown_by_the_same_accounts_are_not_told_twice() -> None:
    found = score(scenario([MINE, CROWD]), {1: truth(MINE), 2: truth(CROWD)}, observed())
    assert not any(table.title.startswith("Accounts by what showed") for table in tables(found))
