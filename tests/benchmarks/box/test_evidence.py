"""The outcomes that are published: each can be read, counts, and makes one figure with those that lie beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.box.parameters import DEFAULT, load
from benchmarks.box.plan import plan
from benchmarks.box.played import file_name, read

EVIDENCE = Path(__file__).resolve().parents[3] / "benchmarks" / "evidence"
FILES = sorted(EVIDENCE.glob("*/seed-*.json.gz"))


def test_there_is_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_outcome_counts_and_its_truth_can_be_computed_again(path: Path) -> None:
    kept = read(path)
    beside = read(next(other for other in FILES if other.parent == path.parent))
    assert path.name == file_name(kept.seed)
    assert kept.spoilt() == ()
    assert kept.parameters == beside.parameters
    assert kept.unlike(beside, plan(load(DEFAULT.with_name(kept.parameters)), kept.seed)) == ""
    assert kept.made.commit
    assert not kept.made.commit.endswith("-dirty")


@pytest.mark.parametrize("path", sorted(EVIDENCE.glob("*/scores.txt")), ids=lambda path: path.parent.name)
def test_scores_are_those_of_the_outcomes_beside_them(path: Path) -> None:
    lines = path.read_text().split("Runs\n", 1)[0].split("\n")
    scored = [line.replace(" ", "").split("│")[1:3] for line in lines if line.startswith("│")]
    played = [read(other) for other in FILES if other.parent == path.parent]
    assert sorted(scored) == sorted([str(one.seed), f"{one.settings['time_scale']:g}"] for one in played)
