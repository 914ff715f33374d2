"""Slurm over time: what is asked when, what is kept, and what is said when it does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.commands import Commands
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, SlurmNode
from dutycycle_alerter.slurm.rest import Slurmrestd
from dutycycle_alerter.slurm.watching import CLOCKS_APART, Watch, connect

NOW = 1_700_000_000.0
T = TypeVar("T")


class Script:
    """A Slurm that answers what it is told to, and writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.table: Table | Exception | None = table(1)
        self.known: Mapping[str, SlurmNode] | Exception = {"n1": SlurmNode("n1", gpus=8)}
        self.over: list[FinalFigures] | Exception = []

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table | None:
        self.asked.append(since)
        nonsense["jobs.x"] += 1
        return told(self.table)

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        self.asked.append("nodes")
        return told(self.known)

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        self.asked.append((list(jobs), since))
        return told(self.over)

    def close(self) -> None:
        self.asked.append("close")


def told(what: T | Exception) -> T:
    if isinstance(what, Exception):
        raise what
    return what


def table(*jobs: int, updated: int | None = None) -> Table:
    return Table({number: SlurmJob(number, JobState.RUNNING) for number in jobs}, updated)


@pytest.fixture
def slurm() -> Script:
    return Script()


@pytest.fixture
def watch(slurm: Script) -> Watch:
    return Watch(slurm, Slurm(full_interval=300, nodes_interval=90))


def test_one_call_a_pass_for_jobs_and_nodes_now_and_then(slurm: Script, watch: Watch) -> None:
    for passed in range(0, 300, 60):
        snapshot = watch.snapshot(NOW + passed)
        assert list(snapshot.jobs) == [1]
        assert snapshot.at == NOW + passed
    assert sum(asked == "nodes" for asked in slurm.asked) == 3
    assert sum(asked != "nodes" for asked in slurm.asked) == 5


def test_only_changes_since_the_servers_own_time_are_asked_for(slurm: Script, watch: Watch) -> None:
    slurm.table = table(1, updated=1234)
    watch.snapshot(NOW)
    watch.snapshot(NOW + 60)
    assert [asked for asked in slurm.asked if asked != "nodes"] == [None, 1234]


def test_where_the_server_tells_no_time_ours_is_taken_with_room_for_its_clock(slurm: Script, watch: Watch) -> None:
    watch.snapshot(NOW)
    watch.snapshot(NOW + 60)
    slurm.table = None
    watch.snapshot(NOW + 120)
    watch.snapshot(NOW + 180)
    since = [asked for asked in slurm.asked if asked != "nodes"]
    assert since == [None, NOW - CLOCKS_APART, NOW + 60 - CLOCKS_APART, NOW + 60 - CLOCKS_APART]


def test_a_clock_that_was_ahead_hides_nothing_for_long(slurm: Script, watch: Watch) -> None:
    watch.snapshot(NOW)
    watch.snapshot(NOW + 290)
    watch.snapshot(NOW + 10)
    assert [asked for asked in slurm.asked if asked != "nodes"][-1] == NOW + 10 - CLOCKS_APART


def test_what_has_not_changed_is_what_was_known(slurm: Script, watch: Watch) -> None:
    known = watch.snapshot(NOW).jobs
    slurm.table = None
    later = watch.snapshot(NOW + 60)
    assert later.jobs == known
    assert later.at == NOW + 60, "Slurm has confirmed it now"


def test_all_is_read_at_intervals_so_that_purged_jobs_vanish(slurm: Script, watch: Watch) -> None:
    slurm.table = table(1, 2, updated=5)
    watch.snapshot(NOW)
    slurm.table = table(2, updated=5)
    assert list(watch.snapshot(NOW + 300).jobs) == [2]
    assert [asked for asked in slurm.asked if asked != "nodes"] == [None, None]


def test_a_clock_that_goes_back_asks_for_all(slurm: Script, watch: Watch) -> None:
    watch.snapshot(NOW)
    watch.snapshot(NOW - 1000)
    assert [asked for asked in slurm.asked if asked != "nodes"] == [None, None]
    assert sum(asked == "nodes" for asked in slurm.asked) == 2


def test_an_empty_list_of_changes_is_asked_about_again(slurm: Script, watch: Watch) -> None:
    """It may mean that nothing has changed, or that there are no jobs any more."""
    watch.snapshot(NOW)
    slurm.table = table()
    assert not watch.snapshot(NOW + 60).jobs
    assert [asked for asked in slurm.asked if asked != "nodes"] == [None, NOW - CLOCKS_APART, None]


def test_when_slurm_does_not_answer_there_is_no_snapshot_and_afterwards_all_is_as_before(
    slurm: Script, watch: Watch
) -> None:
    watch.snapshot(NOW)
    slurm.table = SourceError("slurmctld is down")
    with pytest.raises(SourceError, match="slurmctld is down"):
        watch.snapshot(NOW + 60)
    slurm.table = table(1, 2)
    assert list(watch.snapshot(NOW + 120).jobs) == [1, 2]


def test_nodes_that_cannot_be_read_are_those_of_before_and_it_is_said(slurm: Script, watch: Watch) -> None:
    slurm.known = SourceError("no nodes")
    first = watch.snapshot(NOW)
    assert (first.nodes, first.nodes_at, first.nodes_error) == ({}, None, "no nodes")
    slurm.known = {"n1": SlurmNode("n1")}
    watch.snapshot(NOW + 60)
    slurm.known = SourceError("no nodes")
    later = watch.snapshot(NOW + 150)
    assert (list(later.nodes), later.nodes_at, later.nodes_error) == (["n1"], NOW + 60, "no nodes")


def test_nonsense_is_counted_for_each_snapshot(slurm: Script, watch: Watch) -> None:
    watch.snapshot(NOW)
    assert watch.snapshot(NOW + 60).nonsense == {"jobs.x": 1}


def run(number: int, start: float, end: float | None = NOW) -> FinalFigures:
    return FinalFigures(number, "COMPLETED", start=start, end=end)


def test_final_figures_by_job_oldest_run_first_and_of_nobody_else(slurm: Script, watch: Watch) -> None:
    slurm.over = [run(2, NOW - 10), run(1, NOW - 50), run(2, NOW - 90), run(3, NOW), run(1, 5.0, 9.0)]
    found = watch.ended([1, 2, 2, 4], NOW - 100)
    assert {number: [one.start for one in runs] for number, runs in found.items()} == {
        1: [NOW - 50],
        2: [NOW - 90, NOW - 10],
    }
    assert slurm.asked == [([1, 2, 4], NOW - 100)]


def test_many_jobs_are_asked_for_in_parts(slurm: Script, watch: Watch) -> None:
    watch.ended(range(1, 501), NOW)
    assert [len(jobs) for jobs, _ in slurm.asked] == [200, 200, 100]


def test_without_jobs_or_without_accounting_nothing_is_asked(slurm: Script, watch: Watch) -> None:
    assert watch.ended([], NOW) == {}
    assert Watch(slurm, Slurm(accounting=False)).ended([1], NOW) == {}
    assert slurm.asked == []


def test_accounting_that_does_not_answer_is_an_error(slurm: Script, watch: Watch) -> None:
    slurm.over = SourceError("slurmdbd is down")
    with pytest.raises(SourceError, match="slurmdbd is down"):
        watch.ended([1], NOW)


def test_the_way_is_slurmrestd_where_there_is_a_url() -> None:
    for settings, way in ((Slurm(url="http://127.0.0.1:1"), Slurmrestd), (Slurm(), Commands)):
        made = connect(settings)
        assert isinstance(made._way, way)
        made.close()
