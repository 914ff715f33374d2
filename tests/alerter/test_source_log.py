"""The log says when a source begins to fail and when it answers again, each once, in one line that can be read."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from dutycycle_alerter.source_log import SourceLog
from dutycycle_alerter.views import TargetStatus

GPU01 = "http://gpu01:9836/metrics"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "dutycycle_alerter")
    return caplog


def state(error: str = "", at: float | None = None, url: str = "slurm") -> TargetStatus:
    return TargetStatus(url, "", at, error)


def passes(*each: Iterable[TargetStatus], time_scale: float = 1.0) -> None:
    """A pass a minute, with these states of all sources."""
    told = SourceLog()
    for number, targets in enumerate(each):
        told.tell(targets, 60.0 * number / time_scale, time_scale=time_scale)


def said(log: pytest.LogCaptureFixture) -> list[str]:
    return [f"{entry.levelname} {entry.getMessage()}" for entry in log.records]


WELL, BAD = [state(at=1.0)], [state("refused", 1.0)]
AGAIN = [state(at=2.0)]
BEGINS = "WARNING slurm: refused"


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        ([[]], []),
        ([WELL, WELL], []),
        ([BAD], [BEGINS]),
        ([WELL, BAD, BAD, BAD], [BEGINS]),
        ([WELL, BAD, BAD, AGAIN, AGAIN], [BEGINS, "INFO slurm answers again, after 2 min; its last error: refused"]),
        (
            [BAD, [state("answered 401", 1.0)], AGAIN],
            [BEGINS, "INFO slurm answers again, after 2 min; its last error: answered 401"],
        ),
        (
            [BAD, AGAIN, [state("refused", 2.0)]],
            [BEGINS, "INFO slurm answers again, after 1 min; its last error: refused", BEGINS],
        ),
    ],
)
def test_a_failure_is_told_when_it_begins_and_when_it_is_over(
    course: list[list[TargetStatus]], expected: list[str], log: pytest.LogCaptureFixture
) -> None:
    passes(*course)
    assert said(log) == expected


def test_what_was_not_asked_again_has_not_answered(log: pytest.LogCaptureFixture) -> None:
    """Slurm's accounting is asked only for what has ended: between two questions there is no error."""
    passes(BAD, WELL, BAD, WELL, AGAIN)
    assert said(log) == [BEGINS, "INFO slurm answers again, after 4 min; its last error: refused"]


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_that_have_one_address_the_one_that_fails_counts(order: int, log: pytest.LogCaptureFixture) -> None:
    """Though the other answers meanwhile, and the one is not asked for a while."""
    course = [[*BAD, state(at=5.0)], [*BAD, state(at=6.0)], [*WELL, state(at=7.0)], [*BAD, state(at=8.0)]]
    passes(*(targets[::order] for targets in course))
    assert said(log) == [BEGINS]
    passes(*(targets[::order] for targets in [*course, [*AGAIN, state(at=9.0)]]))
    assert said(log)[1:] == [BEGINS, "INFO slurm answers again, after 4 min; its last error: refused"]


def test_one_that_never_answered_and_is_not_asked_does_not_answer_again(log: pytest.LogCaptureFixture) -> None:
    passes([state("refused"), state(at=5.0)], [state(), state(at=6.0)])
    assert said(log) == [BEGINS]


def test_how_long_it_was_is_told_in_the_time_of_the_site(log: pytest.LogCaptureFixture) -> None:
    passes(BAD, AGAIN, time_scale=60.0)
    assert said(log)[1].startswith("INFO slurm answers again, after 1 min;")


def test_a_source_that_is_gone_does_not_answer_again(log: pytest.LogCaptureFixture) -> None:
    passes([state("refused", url=GPU01)], [])
    assert len(said(log)) == 1


@pytest.mark.parametrize(
    "error", [f"{GPU01}: answered 503", f"{GPU01}/api/v1/query: answered 503 unavailable", "cut off within a line"]
)
def test_a_line_names_its_source_once(error: str, log: pytest.LogCaptureFixture) -> None:
    passes([state(error, url=GPU01)])
    assert log.messages[0].count(GPU01) == 1


def test_many_at_once_are_a_few_lines(log: pytest.LogCaptureFixture) -> None:
    def fleet(error: str, at: float) -> list[TargetStatus]:
        return [state(error, at, f"http://gpu{number:04}:9836/metrics") for number in range(5000)]

    passes(fleet("refused", 1.0), fleet("", 2.0))
    assert len(log.messages) == 12
    assert log.messages[5] == "and 4995 more sources do not answer: /api/v1/status has each"
    assert log.messages[11] == "and 4995 more sources answer again: /api/v1/status has each"


def test_what_another_program_said_is_one_line_and_cut(log: pytest.LogCaptureFixture) -> None:
    passes([state("a\nERROR all is\x1b[2J lost" + "x" * 10_000)])
    assert log.messages[0].startswith("slurm: a␊ERROR all is␛[2J lostxxx")
    assert len(log.messages[0]) == 500
