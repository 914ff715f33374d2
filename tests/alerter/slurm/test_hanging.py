"""A Slurm that takes questions and never answers holds a pass up for one `timeout`, whichever part of it hangs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import pytest

from dutycycle_alerter.errors import LateError
from dutycycle_alerter.model import Job
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, SlurmNode
from dutycycle_alerter.slurm.rest import Slurmrestd
from dutycycle_alerter.slurm.watching import Watch
from dutycycle_alerter.slurm.word import SlurmWord, SlurmWorkloads
from tests.alerter.slurm.restd import TOKEN, restd

NOW, MINUTE = 1_700_000_000.0, 60.0
JOBS, NODES, ACCOUNTING = "jobs", "nodes", "accounting"
OVER = Job("slurm/7", (), NOW - 600, scheduler="slurm", job_id="7")
"""A job whose report waits for accounting."""
SETTINGS = Slurm(nodes_interval=1.0, full_interval=1.0)
"""Nodes are asked for in every pass."""


class Site:
    """A Slurm of which some parts hang, asked pass by pass."""

    def __init__(self) -> None:
        self.hanging: Collection[str] = ()
        self.asked: list[str] = []
        self.now = NOW
        self.workloads = SlurmWorkloads(SETTINGS, Watch(self, SETTINGS))

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table:
        self._take(JOBS)
        return Table({1: SlurmJob(1, JobState.RUNNING)})

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        self._take(NODES)
        return {"n1": SlurmNode("n1", gpus=8)}

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        self._take(ACCOUNTING)
        return [FinalFigures(7, "COMPLETED", start=NOW - 600, end=NOW - 60)]

    def close(self) -> None:
        pass

    def _take(self, part: str) -> None:
        self.asked.append(part)
        if part in self.hanging:
            raise LateError(f"{part}: no answer")

    def look(self, *hanging: str) -> tuple[list[str], SlurmWord]:
        """What was asked in a pass, in order, and what came of it."""
        self.hanging, self.asked = hanging, []
        self.now += MINUTE
        word = self.workloads.ask(self.now, [], [OVER])
        return self.asked, word


PASSES: dict[str, tuple[tuple[str, ...], list[list[str]]]] = {
    "nothing": ((), [[JOBS, NODES, ACCOUNTING], [JOBS, NODES, ACCOUNTING]]),
    # What accounting knows is told all the same, by the next pass and by each from then on.
    "slurmctld": ((JOBS, NODES), [[JOBS], [ACCOUNTING, JOBS], [ACCOUNTING, JOBS]]),
    "nodes": ((NODES,), [[JOBS, NODES], [ACCOUNTING, JOBS, NODES]]),
    "accounting": ((ACCOUNTING,), [[JOBS, NODES, ACCOUNTING], [JOBS, NODES, ACCOUNTING]]),
    "everything": ((JOBS, NODES, ACCOUNTING), [[JOBS], [ACCOUNTING], [JOBS]]),
}


@pytest.mark.parametrize("hangs", PASSES)
def test_after_an_answer_that_did_not_come_in_time_nothing_is_asked_in_that_pass(hangs: str) -> None:
    site, (hanging, expected) = Site(), PASSES[hangs]
    for passed, asked in enumerate(expected):
        found, word = site.look(*hanging)
        assert found == asked
        assert (word.snapshot is None) == (JOBS in hanging)
        assert (7 in word.runs) == (ACCOUNTING in asked and ACCOUNTING not in hanging), passed
    # It answers again: at the second pass all is as before.
    site.look()
    back, word = site.look()
    assert (back, word.snapshot is None, 7 in word.runs) == ([JOBS, NODES, ACCOUNTING], False, True)


def test_the_status_says_what_was_not_asked_and_why() -> None:
    site = Site()
    said = []
    for hanging in ((JOBS, ACCOUNTING), (JOBS, ACCOUNTING), (), ()):
        _, word = site.look(*hanging)
        said.append([(target.error, target.note) for target in word.targets])
    assert said == [
        [("jobs: no answer", ""), ("", "not asked in this pass: slurmctld did not answer in time")],
        [("not asked in this pass: accounting did not answer in time", ""), ("accounting: no answer", "")],
        [("", ""), ("", "")],
        [("", ""), ("", "")],
    ]


def test_a_real_server_that_hangs_is_asked_once_in_a_pass() -> None:
    over = threading.Event()
    with restd() as server:
        for path in ("slurm/jobs", "slurm/nodes", "slurmdb/jobs"):
            server.replies[path] = lambda _: (200, {}) if over.wait() else (500, {})
        settings = Slurm(url=server.url, token=TOKEN, timeout=1.0)
        workloads = SlurmWorkloads(settings, Watch(Slurmrestd(settings), settings))
        try:
            word = workloads.ask(NOW, [], [OVER])
            assert "no complete answer within 1 s" in word.targets[0].error
            # Other versions' refusals come first.
            assert {call.partition("?")[0].rpartition("/")[2] for call in server.calls} == {"jobs"}
            assert not any("slurmdb" in call for call in server.calls)
        finally:
            over.set()
            workloads.close()
