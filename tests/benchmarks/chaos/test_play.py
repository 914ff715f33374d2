"""Whatever goes wrong in a run, no fault is left in force, and what there was until then is handed back."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from benchmarks.chaos import play as playing
from benchmarks.chaos.faults import Fault
from benchmarks.chaos.happened import Happened
from benchmarks.chaos.schedule import Plan, Planned


class Noted(Fault):
    """One that notes what is done to it, and may fail at it."""

    name = "noted"

    def __init__(self, part: str, fails: str = "") -> None:
        self.touches = frozenset({part})
        self.done: list[str] = []
        self._fails = fails

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls("part")

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self._fails:
            raise AssertionError(f"{what} failed")

    def begin(self, site: object) -> None:
        self._do("begin")

    def in_force(self, site: object) -> bool:
        return True

    def end(self, site: object) -> None:
        self._do("end")


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch):
    """Plays faults, of which each begins a little after the one before and all end late; returns what happened to each
    part, whether it took, and why the run broke off.
    """
    workload = SimpleNamespace(check=lambda: None, truths=tuple)
    site = SimpleNamespace(start=lambda: None, workload=workload)
    monkeypatch.setattr(playing, "Site", lambda *_: nullcontext(site))
    watcher = SimpleNamespace(failures=[])
    monkeypatch.setattr(playing, "Watcher", lambda _: nullcontext(watcher))
    monkeypatch.setattr(playing, "read", lambda *given: (given[2], given[-1]))

    def with_faults(*faults: Fault, check=None, unseen: str = "") -> tuple[list[tuple[str, bool | None]], str]:
        workload.check = check or workload.check
        watcher.failures += [unseen] if unseen else []
        planned = tuple(Planned(0.01 * number, 0.1, fault) for number, fault in enumerate(faults))
        happened: tuple[Happened, ...]
        happened, broke = playing.play(Plan(0.3, 0.1, planned), Path(), 60.0, lambda _: None)  # type: ignore[misc]
        return sorted((one.what, one.took) for one in happened), broke

    return with_faults


def test_all_goes_well(play) -> None:
    one, other = Noted("one"), Noted("other")
    assert play(one, other) == ([("one", True), ("other", True)], "")
    assert one.done == other.done == ["begin", "end"]


def test_a_fault_that_cannot_begin_ends_the_run_and_every_fault(play) -> None:
    one, other, later = Noted("one"), Noted("other", fails="begin"), Noted("later")
    assert play(one, other, later) == ([("one", None), ("other", None)], "AssertionError: begin failed")
    assert one.done == other.done == ["begin", "end"]
    assert later.done == []


def test_a_fault_that_cannot_end_ends_the_run_and_every_other_fault(play) -> None:
    one, other = Noted("one", fails="end"), Noted("other")
    assert play(one, other) == ([("one", True), ("other", None)], "AssertionError: end failed")
    assert one.done == other.done == ["begin", "end"]


def test_a_workload_that_fails_ends_the_run_and_every_fault(play) -> None:
    one = Noted("one")

    def fails() -> None:
        if one.done:
            raise OSError("no such node")

    assert play(one, check=fails) == ([("one", None)], "OSError: no such node")
    assert one.done == ["begin", "end"]


def test_a_run_that_nobody_watched_has_broken_off(play) -> None:
    assert play(Noted("one"), unseen="KeyError: 'n9'") == (
        [("one", True)],
        """the watcher failed: ["KeyError: 'n9'"]""",
    )


def test_whoever_interrupts_it_leaves_no_fault_in_force(play) -> None:
    one = Noted("one")

    def interrupted() -> None:
        if one.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(one, check=interrupted)
    assert one.done == ["begin", "end"]


class Slow(Noted):
    """One whose beginning and end take a while, as that of a program does which has to answer again."""

    def _do(self, what: str) -> None:
        super()._do(what)
        time.sleep(0.15)


@pytest.mark.parametrize("fails", ["", "begin"])
def test_a_fault_stands_from_when_its_beginning_was_done_until_its_end_is_set_about(
    fails: str, play, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Happened] = []
    monkeypatch.setattr(Slow, "happened", lambda *given: found.append(Fault.happened(*given)) or found[-1])
    play(Slow("one", fails))
    [one] = found
    assert one.stood_from - one.began >= (0.15 if not fails else 0.0)
    assert one.began <= one.stood_from <= one.stood_until
    assert one.ended - one.stood_until >= 0.15
