"""Slurm's word ends jobs, and its silence does not: beside exporters that lost them, requeues and accounting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.model import EventKind, Resolution, State
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.model import FinalFigures, JobState
from dutycycle_alerter.slurm.watching import Watch
from dutycycle_alerter.slurm.word import SlurmWorkloads
from tests.alerter.slurm_site import HOUR, JOB, MINUTE, START, Site, slurm_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with slurm_site(tmp_path) as site:
        yield site


def open_incident(site: Site) -> None:
    site.live(50 * MINUTE)
    (item,) = site.incidents()
    assert (item.rule, item.state) == ("idle", State.OPEN)


def test_slurm_says_who_a_job_is(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, user="bob", account="biology", partition="long")}
    open_incident(site)
    (item,) = site.incidents()
    assert (item.user, item.account, item.partition) == ("bob", "biology", "long")


def test_the_end_is_the_schedulers_and_at_its_time(site: Site) -> None:
    open_incident(site)
    ended = site.end()
    site.live(2 * MINUTE)
    (item,) = site.incidents()
    assert (item.state, item.resolution, item.resolved_at) == (State.RESOLVED, Resolution.ENDED, ended)


def test_a_silent_slurm_ends_nothing_and_says_so(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_incident(site)
    # How long it was is by this clock, as wall time may be set.
    monkeypatch.setattr("dutycycle_alerter.engine.elapsed", lambda: 7.0)
    caplog.set_level("INFO", "dutycycle_alerter.source_log")
    site.slurm.down = True
    site.live(10 * MINUTE)
    assert site.incidents()[0].state is State.OPEN
    (target,) = [target for target in site.rig.reader.status().targets if target.url == "slurm"]
    assert target.error == "slurmrestd does not answer"
    assert target.last_success == pytest.approx(site.now - 10 * MINUTE)
    site.slurm.down = False
    site.live(2 * MINUTE)
    begins, ends = caplog.messages
    assert begins == "slurm: slurmrestd does not answer"
    assert ends == "slurm answers again, after 0 s; its last error: slurmrestd does not answer"


def test_an_empty_answer_of_slurm_ends_nothing(site: Site) -> None:
    """A controller that forgot its jobs, or does not show them to us, is no end of them."""
    open_incident(site)
    site.slurm.known = {}
    site.live(10 * MINUTE)
    assert site.incidents()[0].state is State.OPEN


def test_while_slurm_says_that_it_runs_a_job_that_exporters_lost_has_not_ended(site: Site) -> None:
    open_incident(site)
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].forget("slurm/1")
    site.live(30 * MINUTE)
    assert site.incidents()[0].state is State.OPEN
    site.end()
    site.live(MINUTE)
    assert site.incidents()[0].resolution is Resolution.ENDED


def test_without_slurms_word_three_answers_of_the_exporter_end_a_job(site: Site) -> None:
    open_incident(site)
    site.slurm.down = True
    site.rig.exporters[0].end("slurm/1")
    site.live(3 * MINUTE)
    assert site.incidents()[0].resolution is Resolution.ENDED


def test_final_figures_come_when_accounting_has_them(site: Site) -> None:
    open_incident(site)
    ended = site.end("TIMEOUT")
    site.slurm.accounting_down = True
    site.live(3 * MINUTE)
    assert "elapsed_seconds" not in site.incidents()[0].figures
    site.slurm.accounting_down = False
    site.account("TIMEOUT", end=ended, elapsed=ended - START, cpu_seconds=120.0)
    site.live(2 * MINUTE)
    (item,) = site.incidents()
    assert item.figures["elapsed_seconds"] == ended - START
    assert item.figures["cpu_seconds"] == 120.0
    assert item.resolved_at == ended
    assert site.kinds().count(EventKind.FINAL) == 1
    text = site.rig.reader.events(1)[-1].text
    assert text.startswith("TIMEOUT after 50 min, 0.83 GPU-hours allocated, 0.0 CPU cores busy")
    before, asked = site.incidents(), len(site.slurm.asked)
    site.live(3 * MINUTE)
    assert (site.incidents(), site.kinds().count(EventKind.FINAL)) == (before, 1)
    assert len(site.slurm.asked) == asked, "what is known is not asked for again"


def test_a_job_that_ended_while_nobody_looked_is_closed_by_accounting(site: Site) -> None:
    """slurmctld forgot the job, its exporter too, and the alerter was not there."""
    open_incident(site)
    site.account("COMPLETED")
    ended = site.now
    site.slurm.known = {}
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].forget("slurm/1")
    site.rig.source.close()
    site.rig.database.close()
    site.rig.clock.advance(25 * HOUR)
    restarted = site.rig.started()
    settings = site.rig.settings.model_copy(update={"slurm": Slurm()})
    workloads = SlurmWorkloads(Slurm(), Watch(site.slurm, Slurm()))
    Engine(settings, restarted, site.rig.database, site.rig.clock, workloads=workloads).run_pass()
    (item,) = site.incidents()
    assert (item.resolution, item.resolved_at) == (Resolution.ENDED, ended)
    assert item.figures["allocated_gpu_seconds"] == ended - START
    restarted.close()


def test_a_requeued_job_ends_and_may_idle_anew(site: Site) -> None:
    open_incident(site)
    again = site.now + 10 * MINUTE
    site.slurm.known = {1: replace(JOB, state=JobState.PENDING, states=("PENDING",), submit=site.now, restarts=1)}
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].forget("slurm/1")
    site.live(10 * MINUTE)
    (first,) = site.incidents()
    assert first.resolution is Resolution.ENDED
    site.slurm.known = {1: replace(JOB, start=again, restarts=1)}
    site.rig.exporters[0].allocate("slurm/1", 1, start=again)
    site.live(30 * MINUTE)
    assert [item.state for item in site.incidents()] == [State.RESOLVED], "its grace and window begin anew"
    site.live(20 * MINUTE)
    assert sorted(item.state for item in site.incidents()) == [State.OPEN, State.RESOLVED]


def test_another_jobs_figures_are_not_taken(site: Site) -> None:
    """Slurm's ids begin anew after a reset of its state: a run of long ago is not this one's."""
    open_incident(site)
    site.end()
    old = FinalFigures(1, "COMPLETED", start=START - 9000, end=START - 8000, elapsed=1000, gpus=64)
    site.slurm.accounted = [old]
    site.live(5 * MINUTE)
    assert "elapsed_seconds" not in site.incidents()[0].figures


def test_a_job_of_srun_is_interactive(site: Site) -> None:
    """It has an hour of grace, and is not underused."""
    site.slurm.known = {1: replace(JOB, batch=False)}
    site.live(80 * MINUTE)
    assert site.incidents() == []
    site.live(20 * MINUTE)
    assert [item.rule for item in site.incidents()] == ["idle"]


def test_a_report_waits_for_accounting_and_is_filed_once(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, limit=240 * HOUR)}
    site.live(2 * HOUR, 0.9)
    assert site.incidents() == []
    site.end("COMPLETED")
    site.rig.exporters[0].end("slurm/1")
    site.live(MINUTE, 0.9)
    assert site.incidents() == [], "slurmdbd learns of an end some seconds after it"
    site.account("COMPLETED", cpu_seconds=60.0, cpus=16)
    site.live(6 * MINUTE, 0.9)
    (item,) = site.incidents()
    assert (item.kind, item.rule, item.resolution) == ("report", "overallocated", Resolution.ENDED)


def test_a_report_does_not_wait_for_ever(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, limit=240 * HOUR)}
    site.live(2 * HOUR, 0.1)
    site.slurm.accounting_down = True
    site.end("COMPLETED")
    site.rig.exporters[0].end("slurm/1")
    site.live(6 * MINUTE)
    assert [item.kind for item in site.incidents() if item.kind == "report"] == ["report"]
