"""Recorded runs: which can be played by themselves, and what is made where rows are missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.real.runs import Row, filled, overlapping, read, write

HEADER = "t,node,gpu,model,workload,user,utilization_ratio,memory_used_bytes,memory_total_bytes,power_watts,processes\n"


def _file(path: Path, *lines: str) -> Path:
    path.write_bytes(gzip.compress((HEADER + "\n".join(lines) + "\n").encode()))
    return path


def _lines(workload: str, times: range, gpu: int = 0, level: float = 0.5) -> list[str]:
    return [f"{t},n1,{gpu},T4,{workload},ada,{level},1000,4000,50,0" for t in times]


def test_runs_that_share_a_gpu_at_the_time_are_left_out(tmp_path: Path) -> None:
    lines = [
        *_lines("a", range(30, 300, 30)),
        *_lines("b", range(270, 600, 30)),
        *_lines("c", range(30, 300, 30), gpu=1),
        *_lines("d", range(330, 600, 30), gpu=1),
    ]
    found = read(_file(tmp_path / "r.csv.gz", *lines))
    assert [run.workload for run in found.runs] == ["c", "d"]
    assert list(found.apart.values()) == [("a", "b")]


def test_a_run_that_begins_where_another_ends_overlaps_nothing(tmp_path: Path) -> None:
    found = read(_file(tmp_path / "r.csv.gz", *_lines("a", range(30, 300, 30)), *_lines("b", range(300, 600, 30))))
    assert [(run.start, run.end) for run in found.runs] == [(0, 270), (270, 570)]
    assert overlapping(found.runs) == []


def test_a_single_row_stands_for_no_time(tmp_path: Path) -> None:
    found = read(_file(tmp_path / "r.csv.gz", *_lines("a", range(30, 31))))
    assert (found.runs, len(found.apart)) == ((), 1)


def _row(t: float, utilization: float) -> Row:
    return Row(t, utilization, None, None, 100 * utilization, None)


@pytest.mark.parametrize(
    ("times", "made"),
    [([30, 60, 90], []), ([30, 60, 120], [90]), ([30, 60, 104], []), ([30, 60, 180], [90, 120, 150])],
)
def test_holes_are_filled_with_rows_that_say_so(times: list[float], made: list[float]) -> None:
    rows = [*filled([_row(t, 0.2 if t <= 60 else 0.6) for t in times], 30)]
    assert [row.t for row in rows if row.made] == made
    assert all(row.utilization == pytest.approx(0.4) and row.power == pytest.approx(40) for row in rows if row.made)
    assert [row.t for row in rows if not row.made] == times


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (run,) = read(_file(tmp_path / "r.csv.gz", *_lines("a", range(30, 90, 30)), *_lines("a", range(120, 300, 30)))).runs
    assert (run.made_hours, run.longest_hole) == (pytest.approx(30 / 3600), 30)
    for made in (True, False):
        write(tmp_path / "w.csv.gz", [run], made=made)
        (again,) = read(tmp_path / "w.csv.gz").runs
        assert (again.start, again.end) == (run.start, run.end)
        assert again.gpu_hours == pytest.approx(run.gpu_hours + (run.made_hours if made else 0))
