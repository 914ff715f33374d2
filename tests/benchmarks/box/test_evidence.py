"""The outcomes that are published: each can be read, counts, and makes one figure with those that lie beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.box.parameters import DEFAULT, load
from benchmarks.box.plan import plan
from benchmarks.box.played import file_name, read
from benchmarks.box.report import by_kind

EVIDENCE = Path(__file__).resolve().parents[3] / "benchmarks" / "evidence"
FILES = sorted(EVIDENCE.glob("*/seed-*.json.gz"))
COSTS = by_kind(read(FILES[0]).cores).keys() if FILES else frozenset()


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
    """By what each kind of process cost in them, which no two runs share."""
    table = [
        [cell.strip() for cell in line.replace("┃", "│").split("│")]
        for line in path.read_text().split("\nRuns\n", 1)[0].split("\n")
        if line.startswith(("┃", "│"))
    ]
    names, lines = table[0], table[1:]
    scored = {}
    for line in lines:
        cells = dict(zip(names, line, strict=True))
        costs = {name: cost for name, cost in cells.items() if name in COSTS}
        scored[int(cells["seed"])] = (float(cells["time scale"]), costs)
    played = [read(other) for other in FILES if other.parent == path.parent]
    assert scored == {
        one.seed: (one.settings["time_scale"], {name: f"{cost:.2f}" for name, cost in by_kind(one.cores).items()})
        for one in played
    }
