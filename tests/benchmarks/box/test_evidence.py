"""The outcomes that are published: each can be read, counts, and is of today's plan and mechanisms."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.box.parameters import DEFAULT, load
from benchmarks.box.plan import plan
from benchmarks.box.played import Played, file_name, read

EVIDENCE = Path(__file__).resolve().parents[3] / "benchmarks" / "evidence"
FILES = sorted(EVIDENCE.glob("*/seed-*.json.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_outcome_is_of_a_plan_that_can_be_made_again(path: Path) -> None:
    kept = read(path)
    assert path.name == file_name(kept.seed)
    assert kept.spoilt() == ()
    assert kept.unlike(None, plan(load(DEFAULT.with_name(kept.parameters)), kept.seed)) == ""
    assert not kept.commit.endswith("-dirty")


def test_outcomes_that_lie_together_make_one_figure() -> None:
    made: dict[Path, set[tuple[object, ...]]] = defaultdict(set)
    for path in FILES:
        kept: Played = read(path)
        made[path.parent].add((kept.parameters, kept.chain, kept.jobs, tuple(sorted(kept.settings.items()))))
    assert all(len(each) == 1 for each in made.values()), made
