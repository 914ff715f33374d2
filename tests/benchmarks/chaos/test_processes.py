"""A program is stopped in the midst of its work, or nobody says that it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.chaos.faults.processes import stopped_while


class Stopped:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def pause(self) -> None:
        self.done.append("pause")

    def resume(self) -> None:
        self.done.append("resume")


def saying(*answers: bool) -> Callable[[], bool]:
    """These, one after another; the last one from then on."""
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize(
    ("working", "caught", "done"),
    [
        (saying(False, False, True), True, ["pause"]),
        # It had just finished when it stood: that was too late, and it is tried again.
        (saying(True, False, False, True), True, ["pause", "resume", "pause"]),
        (saying(True, False), False, ["pause", "resume"]),
        (saying(False), False, []),
    ],
)
def test_it_stands_where_it_works_still(working: Callable[[], bool], caught: bool, done: list[str]) -> None:
    program = Stopped()
    assert stopped_while(program, working, patience=0.1) is caught  # type: ignore[arg-type]
    assert program.done == done
