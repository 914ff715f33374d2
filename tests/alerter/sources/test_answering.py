"""The log says when a source begins to fail and when it answers again, each once, in one line that can be read."""

from __future__ import annotations

import logging

import pytest

from dutycycle_alerter.sources.answering import Answering
from dutycycle_alerter.views import TargetStatus

WELL = {"http://gpu01:9836/metrics": "", "slurm": ""}


@pytest.mark.parametrize(
    ("passes", "told"),
    [
        ([{}], []),
        ([{"slurm": "timed out"}], ["WARNING slurm: timed out"]),
        ([{"slurm": "timed out"}] * 3, ["WARNING slurm: timed out"]),
        ([{"slurm": "timed out"}, {"slurm": "refused"}], ["WARNING slurm: timed out"]),
        ([{"slurm": "timed out"}, {}, {}], ["WARNING slurm: timed out", "INFO slurm answers again"]),
        ([{"slurm": "a"}, {}, {"slurm": "b"}], ["WARNING slurm: a", "INFO slurm answers again", "WARNING slurm: b"]),
        (
            [{"slurm": "a"}, {"slurm": "a", "http://gpu01:9836/metrics": "http://gpu01:9836/metrics: refused"}],
            ["WARNING slurm: a", "WARNING http://gpu01:9836/metrics: refused"],
        ),
        ([{"slurm": "a\nERROR all is\x1b[2J lost"}], ["WARNING slurm: a␊ERROR all is␛[2J lost"]),
    ],
)
def test_a_failure_is_told_when_it_begins_and_when_it_ends(
    passes: list[dict[str, str]], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dutycycle_alerter")
    answering = Answering()
    for errors in passes:
        answering.heed(TargetStatus(url, "", None, error) for url, error in sorted((WELL | errors).items()))
    assert [f"{entry.levelname} {entry.getMessage()}" for entry in caplog.records] == told


def test_an_exporter_whose_address_is_gone_does_not_answer_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dutycycle_alerter")
    answering = Answering()
    answering.heed([TargetStatus("http://10.0.0.7:9836/metrics", "", None, "refused")])
    answering.heed([])
    assert caplog.messages == ["http://10.0.0.7:9836/metrics: refused"]


def test_what_another_program_said_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    Answering().heed([TargetStatus("slurm", "", None, "x" * 10_000)])
    assert len(caplog.messages[0]) == 500
