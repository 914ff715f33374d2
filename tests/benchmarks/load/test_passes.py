"""A pass of the alerter has figures where it had the work of one: where nothing could be read it is done in no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cluster.fleet import Fleet
from benchmarks.cluster.measured import PASSES, Pass, _passes, over_canned, proven
from tests.ports import free_port


def one(error: str = "", opened: int = 1) -> Pass:
    return Pass(1, 1, 0, 0, 0, 70, 0, 0, 90, 90, error, opened)


def test_a_pass_that_read_nothing_is_none() -> None:
    with pytest.raises(RuntimeError, match="pass 2 read nothing, so its figures are of no pass: connection refused"):
        proven(2, one("connection refused"), 1)


@pytest.mark.parametrize("opened", [0, 2])
def test_a_first_pass_that_does_not_open_what_it_had_to_is_none(opened: int) -> None:
    with pytest.raises(RuntimeError, match=f"pass 1 opened {opened} incidents, and 3 jobs are worth one"):
        proven(1, one(opened=opened), 3)


@pytest.mark.parametrize(("number", "opened", "due"), [(1, 3, 3), (2, 0, 3), (1, 0, 0)])
def test_any_other_is_one(number: int, opened: int, due: int) -> None:
    assert proven(number, one(opened=opened), due) == one(opened=opened)


def test_an_engine_that_is_not_there_ends_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="pass 1 read nothing"):
        list(_passes(tmp_path / "store.sqlite3", f"http://127.0.0.1:{free_port()}", 30, 1))


def test_passes_over_canned_answers_open_what_is_there(tmp_path: Path) -> None:
    found = over_canned(tmp_path, 160)
    assert len(found) == PASSES
    assert {one.open for one in found} == {len(Fleet(160).troubled)}
