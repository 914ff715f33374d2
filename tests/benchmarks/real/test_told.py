"""The figures that are kept of a comparison."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.real.analyzed import Analyzed
from benchmarks.real.chain import Chain
from benchmarks.real.comparison import Seen, Usage, users_by_bin
from benchmarks.real.runs import Recorded, Row, Run, Track
from benchmarks.real.told import compared, disagreements, rows, users_moved

ROWS = tuple(Row(30.0 * (n + 1), 0.0, None, None, None, None) for n in range(120))
RUNS = [Run(name, "ada", name, (Track("0", "T4", 30.0, ROWS),)) for name in ("a", "b")]
RECORDED = Recorded(tuple(RUNS), {"on several nodes": ("c", "d")})


def _analyzed(users: dict[str, Usage], **incidents: tuple[Seen, ...]) -> Analyzed:
    return Analyzed(incidents, users, users_by_bin(users), sum(usage.observed for usage in users.values()))


def _chain(users: dict[str, Usage], **incidents: tuple[Seen, ...]) -> Chain:
    hours = (sum(usage.observed for usage in users.values()) / 3600, *[0.0] * 19)
    return Chain(incidents, users, {}, users_by_bin(users), hours, 7200.0)


def test_what_is_the_same_has_no_disagreement() -> None:
    users = {"ada": Usage(7200, 0)}
    analyzed, chain = _analyzed(users, a=(Seen("idle", 2400),)), _chain(users, a=(Seen("idle", 2460),))
    found = compared(RUNS, analyzed, chain)
    assert disagreements(found) == {}
    figures = [row.figure for row in rows(RECORDED, RUNS, found, analyzed, chain)]
    assert figures[1] == "1 of analyze's 1 (1 idle); 0 of the chain alone; 0 of 2 runs differ"
    assert figures[2] == "median 60, 90 % 60, worst 60"
    assert figures[3].startswith("from the ledger the same, by the dashboard's query from Prometheus the same")


def test_runs_that_were_not_played_are_counted_with_the_reason() -> None:
    analyzed, chain = _analyzed({"ada": Usage(7200, 0)}), _chain({"ada": Usage(7200, 0)})
    played = rows(RECORDED, RUNS[:1], compared(RUNS[:1], analyzed, chain), analyzed, chain)[0].figure
    assert "; 3 runs left out: 2 (on several nodes), 1 (not asked for)" in played


def test_passes_that_failed_are_told_with_what_was_played() -> None:
    analyzed, chain = _analyzed({"ada": Usage(7200, 0)}), _chain({"ada": Usage(7200, 0)})
    found = compared(RUNS, analyzed, chain)
    assert "failed" not in rows(RECORDED, RUNS, found, analyzed, chain)[0].figure
    played = rows(RECORDED, RUNS, found, analyzed, replace(chain, failed=3))[0].figure
    assert played.endswith("; **3 passes of the alerter failed**")


def test_what_differs_is_counted() -> None:
    analyzed = _analyzed({"ada": Usage(7200, 0)}, a=(Seen("idle", 2400),))
    chain = _chain({"ada": Usage(7200, 720)}, b=(Seen("uneven", 2400),))
    found = compared(RUNS, analyzed, chain)
    assert sorted(disagreements(found)) == ["a", "b"]
    figures = [row.figure for row in rows(RECORDED, RUNS, found, analyzed, chain)]
    assert figures[1] == "0 of analyze's 1 (1 idle); 1 of the chain alone; 2 of 2 runs differ"
    assert figures[2] == "-"
    assert "not the same" in figures[3]
    assert "a user's mean by 10.00 points" in figures[3]


def test_two_users_who_change_places_are_not_the_same_histogram() -> None:
    one, other = Usage(7200, 0), Usage(7200, 7200)
    analyzed, chain = _analyzed({"ada": one, "bob": other}), _chain({"ada": other, "bob": one})
    assert users_by_bin(analyzed.users) == chain.histogram
    assert users_moved(analyzed, chain) == ["ada", "bob"]
    assert users_moved(analyzed, _chain({"ada": one, "bob": other})) == []


def test_subjects_are_the_same_however_many_runs_were_played() -> None:
    def subjects(runs: list[Run]) -> list[str]:
        analyzed, chain = _analyzed({"ada": Usage(7200, 0)}), _chain({"ada": Usage(7200, 0)})
        return [row.what for row in rows(RECORDED, runs, compared(runs, analyzed, chain), analyzed, chain)]

    assert subjects(RUNS) == subjects(RUNS[:1])
