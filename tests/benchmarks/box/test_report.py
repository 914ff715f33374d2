"""The rows that a run of a fleet in a box leaves in RESULTS.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.box import report, scoring
from benchmarks.box.model import Scenario
from benchmarks.box.play import BoxSettings
from benchmarks.box.played import Played
from benchmarks.results import record
from tests.benchmarks.box.scored import fleet, observed, perfect

PAGE = """# Measured figures

Machine A: a big one
"""


def written(file: Path, *seeds: int, told: bool = True, commit: str = "") -> None:
    """As a run of these seeds writes them."""
    found: list[tuple[Scenario, Played]] = []
    whole = scoring.Score()
    for seed in seeds:
        plan, truths = fleet()
        plan = replace(plan, seed=seed)
        seen = perfect() if told else observed(ledger=perfect().ledger)
        kept = Played(seed, "", "", BoxSettings().numbers, seen, commit=commit, parts="Prometheus 3.5.0")
        found.append((plan, kept))
        whole += scoring.score(plan, truths, seen, processes=1)
    rows = [replace(row, by="`python -m benchmarks.box`") for row in report.rows(whole, found)]
    record(rows, section="Fleet in a box", file=file, machine="a big one")


def subjects(file: Path, commit: str = "") -> list[str]:
    lines = [line for line in file.read_text().splitlines() if "fleet in a box" in line and commit in line]
    return sorted(line.split(" | ")[3] for line in lines)


def test_a_later_run_s_rows_take_the_place_of_the_former_one_s(tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    file.write_text(PAGE)
    written(file, 1)
    first = subjects(file)
    assert len(set(first)) == len(first) > 5
    # Another number of seeds, and one of which nothing was told.
    for told, commit in ((True, "c0ffee"), (False, "f00d")):
        written(file, 2, 3, 4, told=told, commit=commit)
        assert subjects(file) == subjects(file, commit) == first
