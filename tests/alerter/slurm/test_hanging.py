"""A Slurm that takes questions and never answers holds a pass up for one `timeout`, whichever part of it hangs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

import pytest

from dutycycle_alerter.model import Job
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.rest import Slurmrestd
from dutycycle_alerter.slurm.watching import Watch
from dutycycle_alerter.slurm.word import SlurmWord, SlurmWorkloads
from tests.alerter.slurm.restd import TOKEN, Restd, restd
from tests.alerter.slurm.shapes import SHAPES, accounted, answer, job, node

SHAPE = SHAPES[0]
NOW, MINUTE = 1_700_000_000.0, 60.0
JOBS, NODES, ACCOUNTING = "slurm/jobs", "slurm/nodes", "slurmdb/jobs"
OVER = Job("slurm/7", (), NOW - 600, scheduler="slurm", job_id="7")
"""A job whose report waits for accounting."""


class Site:
    """A slurmrestd of which some paths hang, asked pass by pass."""

    def __init__(self, server: Restd) -> None:
        self.server = server
        self.over = threading.Event()
        self.hanging: Collection[str] = ()
        self.now = NOW
        for path, document in (
            (JOBS, answer(SHAPE, "jobs", [job(SHAPE, job_id=1)])),
            (NODES, answer(SHAPE, "nodes", [node(SHAPE, "IDLE")])),
            (ACCOUNTING, answer(SHAPE, "jobs", [accounted(SHAPE, job_id=7)])),
        ):
            self._serve(path, document)
        # Nodes are asked for in every pass.
        settings = Slurm(url=server.url, token=TOKEN, timeout=0.3, nodes_interval=1.0, full_interval=1.0)
        self.workloads = SlurmWorkloads(settings, Watch(Slurmrestd(settings), settings))

    def _serve(self, path: str, document: object) -> None:
        def reply(query: object) -> tuple[int, object]:
            if path in self.hanging:
                self.over.wait()
            return 200, document

        self.server.replies[path] = reply

    def look(self, *hanging: str) -> tuple[list[str], SlurmWord]:
        """What was asked in a pass, in order, of the version that answers; and what came of it."""
        self.hanging = hanging
        self.server.calls.clear()
        self.now += MINUTE
        word = self.workloads.ask(self.now, [], [OVER])
        asked = [call.partition("?")[0].lstrip("/").split("/") for call in self.server.calls]
        return [f"{one[0]}/{one[2]}" for one in asked if one[1] in self.server.versions], word


@pytest.fixture
def site() -> Iterator[Site]:
    with restd() as server:
        made = Site(server)
        try:
            made.look()
            yield made
        finally:
            made.over.set()
            made.workloads.close()


PASSES: dict[str, tuple[tuple[str, ...], list[list[str]]]] = {
    "nothing": ((), [[JOBS, NODES, ACCOUNTING], [JOBS, NODES, ACCOUNTING]]),
    # What accounting knows is told all the same, by the next pass and by each from then on.
    "slurmctld": ((JOBS, NODES), [[JOBS], [ACCOUNTING, JOBS], [ACCOUNTING, JOBS]]),
    "nodes": ((NODES,), [[JOBS, NODES], [ACCOUNTING, JOBS, NODES]]),
    "accounting": ((ACCOUNTING,), [[JOBS, NODES, ACCOUNTING], [JOBS, NODES, ACCOUNTING]]),
    "everything": ((JOBS, NODES, ACCOUNTING), [[JOBS], [ACCOUNTING], [JOBS], [ACCOUNTING]]),
}


@pytest.mark.parametrize("hangs", PASSES)
def test_after_an_answer_that_did_not_come_in_time_nothing_is_asked_in_that_pass(site: Site, hangs: str) -> None:
    hanging, expected = PASSES[hangs]
    for asked in expected:
        found, word = site.look(*hanging)
        assert found == asked
        assert sum(path in hanging for path in found) <= 1
        assert (word.snapshot is None) == (JOBS in hanging)
    site.look()
    back, word = site.look()
    assert (back, 7 in word.runs) == ([JOBS, NODES, ACCOUNTING], True)


def test_the_status_says_what_was_not_asked_and_why(site: Site) -> None:
    _, word = site.look(JOBS, ACCOUNTING)
    slurmctld, accounting = word.targets
    assert "no complete answer within 0.3 s" in slurmctld.error
    assert (accounting.error, accounting.note) == ("", "not asked in this pass: slurmctld did not answer in time")
    _, word = site.look(JOBS, ACCOUNTING)
    slurmctld, accounting = word.targets
    assert slurmctld.error == "not asked in this pass: accounting did not answer in time"
    assert "no complete answer within 0.3 s" in accounting.error
    site.look()
    _, word = site.look()
    assert [(target.error, target.note) for target in word.targets] == [("", ""), ("", "")]
