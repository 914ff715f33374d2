"""The rows that a run of a fleet in a box leaves in RESULTS.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.box import report, scoring
from benchmarks.box.pace import Pace
from benchmarks.box.play import BoxSettings
from benchmarks.box.played import NOT_ALL, UNSETTLED, Played
from benchmarks.box.seeds import Seed, counting, ranges, summary
from benchmarks.results import Provenance, record
from tests.benchmarks.box.scored import fleet, observed, perfect

PAGE = """# Measured figures

Machine A: a big one
"""


def written(file: Path, *seeds: int, told: bool = True, commit: str = "") -> None:
    """As a run of these seeds writes them."""
    found: list[Seed] = []
    whole = scoring.Score()
    for seed in seeds:
        plan, truths = fleet()
        plan = replace(plan, seed=seed)
        seen = perfect() if told else observed(ledger=perfect().ledger)
        made = Provenance(commit=commit, parts="Prometheus 3.5.0")
        kept = Played(seed, "", "", BoxSettings().numbers, seen, made=made)
        found.append(Seed(plan).with_outcome(kept, late_counts=False))
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


def _seed(number: int, **changes: object) -> Seed:
    scenario = replace(fleet()[0], seed=number)
    played = Played(number, "", "", BoxSettings().numbers, **{"observed": observed(), **changes})
    return Seed(scenario).with_outcome(played, late_counts=False)


def test_the_row_tells_which_seeds_were_left_out_and_why() -> None:
    late, unplayed = _seed(2, pace=Pace(passes_made=0.5)), [Seed(replace(fleet()[0], seed=n)) for n in (3, 4, 6)]
    seeds = [_seed(1), late, *unplayed]
    assert summary(seeds, 20) == (
        "1 of the usual 20 seeds, 5 asked for; 50% of the passes were made: 2; not played: 3-4, 6"
    )
    assert summary(seeds, 5).startswith("1 of the usual 5 seeds; ")
    rows = report.rows(scoring.score(*fleet(), perfect()), seeds)
    assert rows[0].figure.startswith("1 of the usual 20 seeds, 5 asked for; ")
    assert [played.seed for _, played in counting(seeds)] == [1]
    assert ranges([]) == ""


@pytest.mark.parametrize(
    ("note", "counts"),
    [
        ("crowd-1: job 10001: ValueError('no')", False),
        ("Prometheus has 31 of 32 nodes", False),
        ("the store could not be read 3 times", False),
        (NOT_ALL, False),
        (UNSETTLED, True),
    ],
)
def test_a_run_in_which_the_harness_had_trouble_does_not_count_and_says_so(note: str, counts: bool) -> None:
    seed = _seed(1, observed=replace(observed(), notes=(note,)))
    assert seed.why == ("" if counts else note)
    assert (seed.played.spoilt(late_counts=True) == ()) == counts


def test_rows_name_the_commit_that_scored_where_another_one_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.results, "ours", lambda: "dutycycle f00d")
    score = scoring.score(*fleet(), perfect())
    played = {
        commit: report.rows(score, [_seed(1, made=Provenance(commit=commit))])[0].ours
        for commit in ("dutycycle c0ffee", "dutycycle f00d")
    }
    assert played == {
        "dutycycle c0ffee": "dutycycle c0ffee, scored by f00d",
        "dutycycle f00d": "dutycycle f00d",
    }


def test_what_differs_in_a_number_is_one_kind_of_process(capsys: pytest.CaptureFixture[str]) -> None:
    cores = {"doubles-1": 0.25, "doubles-2": 0.5, "crowd-1": 0.125, "alerter-a": 0.03, "alerter-b": 0.01}
    played = Played(1, "", "", BoxSettings().numbers, observed(), cores=cores)
    former = replace(played, seed=2, cores={"doubles": 0.5})
    report.show_runs([played, former])
    said = [[cell.strip() for cell in line.split("│")[1:]] for line in capsys.readouterr().out.splitlines()]
    first, second = (line for line in said if line and line[0] in "12")
    assert first[2:6] == ["0.03", "0.01", "0.12", "0.75"]
    assert second[2:6] == ["-", "-", "-", "0.50"]
