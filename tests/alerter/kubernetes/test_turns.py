"""Whose turn it is: what matters more comes first, and no namespace waits for another's thousands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes.turns import Rank, Turn, Turns


def turn(uid: str, namespace: str = "ml", rank: Rank = Rank.PLACED) -> Turn:
    return Turn(uid, namespace, rank, 1.0)


def taken(turns: Turns, now: float = 0.0) -> list[str]:
    found = []
    while (one := turns.take(now)) is not None:
        found.append(one.uid)
    return found


def test_ranks() -> None:
    turns = Turns()
    for rank in (Rank.RENEWAL, Rank.OVER, Rank.PENDING, Rank.PLACED):
        turns.add(turn(rank.name, rank=rank), 0.0)
    assert (turns.waiting, turns.renewals) == (3, 1)
    assert taken(turns) == ["PLACED", "PENDING", "OVER", "RENEWAL"]
    assert (turns.waiting, turns.renewals) == (0, 0)


def test_ten_thousand_of_one_namespace_delay_nobody() -> None:
    turns = Turns()
    for number in range(10_000):
        turns.add(turn(f"many-{number}", "many"), 0.0)
    for uid in ("a", "b"):
        turns.add(turn(uid, "few"), 1.0)
    turns.add(turn("c", "other"), 1.0)
    assert turns.take(0.5) == turn("many-0", "many")
    assert taken(turns, 1.0)[:6] == ["many-1", "a", "c", "many-2", "b", "many-3"]


def test_nobody_comes_before_his_time() -> None:
    turns = Turns()
    turns.add(turn("late"), 7.0)
    turns.add(turn("soon"), 5.0)
    assert (turns.take(4.9), turns.due(), turns.waiting) == (None, 5.0, 2)
    assert taken(turns, 5.0) == ["soon"]
    assert taken(turns, 7.0) == ["late"]
    assert turns.due() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(Rank), st.floats(0, 10)), max_size=50))
def test_each_comes_once(told: list[tuple[str, Rank, float]]) -> None:
    turns = Turns()
    for number, (namespace, rank, due) in enumerate(told):
        turns.add(Turn(str(number), namespace, rank, 1.0), due)
    early = taken(turns, 5.0)
    assert {int(uid) for uid in early} == {number for number, (_, _, due) in enumerate(told) if due <= 5.0}
    assert sorted(early + taken(turns, 10.0), key=int) == [str(number) for number in range(len(told))]
