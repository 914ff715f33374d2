"""The same run seen twice: what agrees, and how it is told that something does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.real.comparison import Seen, Usage, bin_of, hours_by_bin, moved, pairs, users_by_bin

IDLE, LATER = Seen("idle", 2400.0), Seen("idle", 9000.0)


@pytest.mark.parametrize(
    ("analyzed", "chain", "differences"),
    [
        ([IDLE], [Seen("idle", 2519.0)], [""]),
        ([IDLE], [Seen("idle", 2521.0)], ["idle +2.0 min in the chain"]),
        ([IDLE], [], ["analyze alone: idle at 0:40"]),
        ([], [IDLE], ["the chain alone: idle at 0:40"]),
        ([IDLE, LATER], [LATER, IDLE], ["", ""]),
        ([IDLE], [Seen("underused", 2400.0)], ["idle at 0:40 is underused in the end for the chain"]),
        (
            [IDLE],
            [Seen("underused", 5000.0)],
            ["analyze alone: idle at 0:40", "the chain alone: underused at 1:23"],
        ),
        ([IDLE], [Seen("underused", 2400.0), Seen("idle", 2430.0)], ["the chain alone: underused at 0:40", ""]),
    ],
)
def test_incidents_are_paired_by_rule_and_time(analyzed: list[Seen], chain: list[Seen], differences: list[str]) -> None:
    assert sorted(pair.difference for pair in pairs(analyzed, chain)) == sorted(differences)


SEEN = st.lists(st.builds(Seen, st.sampled_from(["idle", "uneven", "underused"]), st.floats(0, 9000)), max_size=5)


@given(SEEN, SEEN)
def test_every_incident_is_in_one_pair(analyzed: list[Seen], chain: list[Seen]) -> None:
    found = pairs(analyzed, chain)
    assert sorted(map(repr, filter(None, (p.analyzed for p in found)))) == sorted(map(repr, analyzed))
    assert sorted(map(repr, filter(None, (p.chain for p in found)))) == sorted(map(repr, chain))
    assert all(pair.agrees == (pair.difference == "") for pair in found)


@given(SEEN)
def test_what_is_the_same_agrees(seen: list[Seen]) -> None:
    assert all(pair.agrees for pair in pairs(seen, seen))


def test_users_are_in_bins_of_five_points() -> None:
    users = {"a": Usage(3600, 0), "b": Usage(7200, 359.9), "c": Usage(100, 5), "d": Usage(100, 100), "e": Usage(0, 0)}
    assert users_by_bin(users) == (2, 1, *[0] * 17, 1)
    assert hours_by_bin(users)[0] == 3
    assert [bin_of(n / 20) for n in range(20)] == list(range(20))
    assert moved(users, {**users, "a": Usage(3600, 180)}) == ["a"]
    assert moved(users, {"b": users["b"]}) == ["a", "c", "d"]
