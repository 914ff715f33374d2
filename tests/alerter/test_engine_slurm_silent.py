"""While Slurm is silent its jobs stay what they were, and nobody is accused of what only Slurm could explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from dutycycle_alerter.incidents.model import Resolution, State
from dutycycle_alerter.model import Job
from dutycycle_alerter.settings.policies import Policies
from dutycycle_alerter.slurm.facts import JobFacts
from dutycycle_alerter.slurm.memory import NOTHING
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob
from dutycycle_alerter.slurm.unheard import Unheard
from dutycycle_alerter.store.schema import usage_hour
from tests.alerter.cases import START as CASES_START
from tests.alerter.cases import evidence
from tests.alerter.exporters import Allocation
from tests.alerter.slurm_site import HOUR, JOB, MINUTE, START, Site, slurm_site

SILENCE = 50 * MINUTE


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with slurm_site(tmp_path) as site:
        yield site


def charged(site: Site) -> float:
    """Allocated GPU-seconds in the ledger."""
    with site.rig.database.read() as connection:
        return float(connection.execute(sa.select(sa.func.sum(usage_hour.c.allocated))).scalar_one())


class Slow(Allocation):
    """A GPU that does a third of the work."""

    def work(self, seconds: float, utilization: float | None, gaps: object) -> None:
        super().work(seconds, (utilization or 0.0) / 3, {})


@pytest.mark.parametrize(("comment", "rules"), [("", ["uneven"]), ("dutycycle:expect-uneven", [])])
def test_what_a_job_declared_counts_while_slurm_is_silent(tmp_path: Path, comment: str, rules: list[str]) -> None:
    with slurm_site(tmp_path, "slurm/1", 0, 1) as site:
        one = site.rig.exporters[0].allocations["slurm/1", 1]
        slow = Slow(one.workload, one.gpu, one.labels, one.start, one.first_process)
        site.rig.exporters[0].allocations["slurm/1", 1] = slow
        site.slurm.known = {1: replace(JOB, comment=comment)}
        site.live(MINUTE, 0.9)
        site.slurm.down = True
        site.live(SILENCE, 0.9)
        assert [item.rule for item in site.incidents()] == rules


def test_a_policy_by_qos_holds_while_slurm_is_silent(site: Site) -> None:
    entry = {"name": "test", "reason": "short tests", "exclude": True, "qos": "debug"}
    site.configure(policies=Policies.model_validate({"exceptions": [entry]}))
    site.slurm.known = {1: replace(JOB, qos="debug")}
    site.live(MINUTE)
    site.slurm.down = True
    site.live(SILENCE)
    assert site.incidents() == []


def test_a_shell_of_salloc_is_not_underused_while_slurm_is_silent(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, batch=False)}
    site.live(MINUTE, 0.1)
    site.slurm.down = True
    site.live(100 * MINUTE, 0.1)
    assert site.incidents() == []


def test_a_job_that_slurm_hides_for_a_while_stays_what_it_was(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, batch=False)}
    site.live(MINUTE, 0.1)
    site.slurm.known = {}
    site.live(SILENCE, 0.1)
    assert site.incidents() == []


def test_a_job_of_which_a_silent_slurm_never_told_is_unknown(site: Site) -> None:
    site.slurm.down = True
    site.live(SILENCE)
    assert site.incidents() == []
    site.slurm.down = False
    site.live(MINUTE)
    assert [item.rule for item in site.incidents()] == ["idle"]


def test_an_incident_of_a_job_of_which_a_silent_slurm_never_told_stays(site: Site) -> None:
    site.live(SILENCE)
    site.configure()
    site.slurm.down = True
    site.live(SILENCE, 0.9)
    assert [item.state for item in site.incidents()] == [State.OPEN]


def test_a_job_that_was_over_is_not_accused_anew(site: Site) -> None:
    """Its exporter still shows it, and Slurm, which said that it ended, no longer answers, or forgot it."""
    site.slurm.known = {1: replace(JOB, gpus_allocated=1)}
    site.live(SILENCE)
    site.slurm.known = {1: replace(JOB, state=JobState.ENDED, states=("FAILED",), end=site.now, gpus_allocated=1)}
    site.live(MINUTE)
    site.slurm.down = True
    site.live(5 * MINUTE)
    site.slurm.down, site.slurm.known = False, {}
    site.live(5 * MINUTE)
    assert [item.resolution for item in site.incidents()] == [Resolution.ENDED]


def test_a_job_that_was_over_is_never_accused_while_its_exporter_shows_it(site: Site) -> None:
    """Its epilog never ran, and slurmctld forgot it long ago."""
    site.slurm.known = {1: replace(JOB, gpus_allocated=1)}
    site.live(5 * MINUTE, 0.9)
    site.slurm.known = {1: replace(JOB, state=JobState.ENDED, states=("FAILED",), end=site.now, gpus_allocated=1)}
    site.live(MINUTE)
    site.slurm.known = {}
    site.live(3 * HOUR)
    assert site.incidents() == []


def test_accounting_ends_a_job_that_slurmctld_forgot_while_nobody_asked(site: Site) -> None:
    """Its epilog never ran: exporters show it on. The alerter is another one, and has heard of no end."""
    site.live(SILENCE)
    assert [item.state for item in site.incidents()] == [State.OPEN]
    site.account("NODE_FAIL")
    before, site.slurm.known = charged(site), {}
    site.configure()
    site.live(10 * MINUTE)
    assert [item.resolution for item in site.incidents()] == [Resolution.ENDED]
    site.live(3 * HOUR)
    assert len(site.incidents()) == 1
    assert charged(site) <= before + 3 * MINUTE


def test_an_alerter_that_never_heard_of_a_job_asks_accounting_before_it_accuses_it(site: Site) -> None:
    """It ended, and slurmctld forgot it, while no alerter ran; exporters show it on."""
    site.live(10 * MINUTE, 0.9)
    site.account("NODE_FAIL")
    site.slurm.known = {}
    site.rig.step(round(SILENCE / MINUTE), 0.0)
    site.configure()
    site.live(3 * HOUR)
    assert site.incidents() == []
    assert len(site.slurm.asked) == 1, "what is known is not asked for again"


def test_a_job_of_which_accounting_tells_nothing_is_judged_by_what_exporters_show(site: Site) -> None:
    """`PrivateData` hides it, and it runs: accounting is asked at growing intervals."""
    site.live(10 * MINUTE, 0.9)
    site.slurm.known = {}
    site.rig.step(round(SILENCE / MINUTE), 0.0)
    site.configure()
    site.live(2 * MINUTE)
    assert [item.state for item in site.incidents()] == [State.OPEN]
    site.slurm.asked.clear()
    site.live(HOUR)
    assert [item.state for item in site.incidents()] == [State.OPEN]


def test_what_a_job_that_was_over_is_said_to_hold_is_not_charged_to_it(site: Site) -> None:
    """Of the pass in which it ended all is: that began before."""

    site.slurm.known = {1: replace(JOB, gpus_allocated=1)}
    site.live(10 * MINUTE, 0.9)
    before = charged(site)
    site.slurm.known = {1: replace(JOB, state=JobState.ENDED, states=("FAILED",), end=site.now + 30, gpus_allocated=1)}
    site.live(MINUTE)
    assert charged(site) == pytest.approx(before + MINUTE)
    site.live(10 * MINUTE)
    site.slurm.down = True
    site.live(10 * MINUTE)
    site.slurm.down, site.slurm.known = False, {}
    site.live(2 * HOUR)
    assert charged(site) == pytest.approx(before + 2 * MINUTE), "whose clocks may differ by half a minute"


def test_a_requeued_job_is_charged_with_what_its_next_run_holds(site: Site) -> None:
    site.slurm.known = {1: replace(JOB, gpus_allocated=1)}
    site.live(10 * MINUTE, 0.9)
    waits = replace(JOB, state=JobState.PENDING, states=("PENDING",), submit=site.now, restarts=1)
    site.slurm.known = {1: waits}
    site.live(5 * MINUTE)
    before = charged(site)
    exporter = site.rig.exporters[0]
    exporter.end("slurm/1")
    exporter.forget("slurm/1")
    exporter.allocate("slurm/1", 0, start=site.now)
    site.slurm.known = {1: replace(JOB, start=site.now, submit=waits.submit, restarts=1, gpus_allocated=1)}
    site.live(10 * MINUTE, 0.9)
    assert charged(site) == pytest.approx(before + 10 * MINUTE)


def test_a_job_that_was_over_is_forgotten_once_its_exporter_shows_it_no_more(site: Site) -> None:
    over = replace(JOB, state=JobState.ENDED, states=("FAILED",), end=site.now, gpus_allocated=1)
    site.slurm.known = {1: over}
    site.live(MINUTE, 0.9)
    site.slurm.known = {}
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].forget("slurm/1")
    site.live(50 * MINUTE)
    assert 1 in site.workloads.ask(site.now, [], []).memory.jobs
    site.live(20 * MINUTE)
    assert 1 not in site.workloads.ask(site.now, [], []).memory.jobs


def test_drained_nodes_stay_drained_and_the_queue_is_not_known(site: Site) -> None:
    site.slurm.node = replace(site.slurm.node, states=frozenset({"IDLE", "DRAIN"}))
    site.live(MINUTE)
    workloads = site.workloads
    assert [part.gpus is not None for part in workloads.ask(site.now, [], []).fleet()] == [True]
    site.slurm.down = True
    word = workloads.ask(site.now, [], [])
    assert [part.gpus for part in word.fleet()] == [None]
    assert (word.out_of_service(), word.partitions()) == ({"gpu01": "drained"}, {"gpu01": ("gpu",)})


# Accounting


def test_accounting_is_asked_little_while_slurmctld_is_silent(site: Site) -> None:
    """Hundreds of incidents, each of which might be over: a call a pass, and of each at growing intervals."""
    site.live(SILENCE)
    (one,) = site.incidents()
    many = [replace(one, id=number, subject=f"slurm/{number}") for number in range(1, 501)]
    site.slurm.down, site.slurm.asked = True, []
    for minute in range(60):
        site.workloads.ask(site.now + minute * MINUTE, many, [])
        assert len(site.slurm.asked) <= minute + 1
    asked = [number for call in site.slurm.asked for number in call]
    assert set(asked) == set(range(1, 501))
    assert max(map(len, site.slurm.asked)) == 200
    assert len(asked) < 500 * 8


def test_one_failure_of_accounting_ends_the_asking_of_a_pass(site: Site) -> None:
    site.live(SILENCE)
    (one,) = site.incidents()
    site.slurm.known, site.slurm.accounting_down, site.slurm.asked = {}, True, []
    many = [replace(one, id=number, subject=f"slurm/{number}") for number in range(1, 501)]
    word = site.workloads.ask(site.now, many, [])
    assert len(site.slurm.asked) == 1
    assert "does not answer" in word.targets[1].error


def test_an_orphan_is_closed_by_accounting_though_slurmctld_is_silent(site: Site) -> None:
    site.live(SILENCE)
    site.account("COMPLETED")
    ended = site.now
    site.slurm.down = True
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].forget("slurm/1")
    site.rig.source.close()
    site.rig.clock.advance(25 * HOUR)
    site.rig.source = site.rig.started()
    site.configure()
    site.engine.run_pass()
    assert [(item.resolution, item.resolved_at) for item in site.incidents()] == [(Resolution.ENDED, ended)]


# What is not understood


def test_values_that_are_not_understood_are_said_and_are_no_error(site: Site) -> None:
    site.slurm.odd = {"jobs.time_limit": 3, "jobs.a": 1, "jobs.b": 1, "jobs.c": 1}
    site.live(MINUTE)
    site.account()
    site.slurm.known = {}
    over = Job("slurm/1", (), START, scheduler="slurm", job_id="1")
    slurm, accounting = site.workloads.ask(site.now, [], [over]).targets
    assert slurm.note == "not understood and taken as unknown: jobs.time_limit (3), jobs.a (1), jobs.b (1), ..."
    assert accounting.note.endswith("sacct.End (1)")
    assert (slurm.error, accounting.error) == ("", "")
    site.slurm.odd = {}
    assert [target.note for target in site.workloads.ask(site.now, [], [over]).targets] == ["", ""]


def note_of_slurm(site: Site) -> str:
    return site.workloads.ask(site.now, [], []).targets[0].note


def test_jobs_that_slurm_hides_are_told_of(site: Site) -> None:
    """Where `PrivateData` hides them, Slurm answers without them, and without an error."""
    site.slurm.known = {}
    site.live(4 * MINUTE, 0.9)
    assert note_of_slurm(site) == "", "Slurm may name it yet"
    site.live(3 * MINUTE, 0.9)
    assert note_of_slurm(site).startswith("1 of 1 running jobs that exporters show are not in Slurm's list")
    site.slurm.known = {1: JOB}
    site.live(MINUTE, 0.9)
    assert note_of_slurm(site) == ""


def test_a_task_of_an_array_that_slurm_hides_is_told_of(site: Site) -> None:
    """Its number is known from Slurm alone."""
    site.slurm.known = {}
    site.rig.exporters[0].end("slurm/1")
    site.rig.exporters[0].allocate("slurm/120_3", 1, start=site.now)
    site.live(12 * MINUTE, 0.9)
    assert note_of_slurm(site).startswith("1 of 1 running jobs")


def test_a_job_whose_exporter_is_silent_is_not_said_to_run() -> None:
    """Its node is down, and Slurm has ended it and forgotten it."""
    item = evidence([0.0], at=CASES_START + HOUR)
    facts, unheard = {item.job.id: JobFacts(1, absent=True)}, Unheard()
    unheard.look([item], facts, NOTHING, "")
    assert unheard.told().startswith("1 of 1 running jobs")
    unheard.look([replace(item, visible=False)], facts, NOTHING, "")
    assert unheard.told() == ""


def test_a_job_that_slurm_has_named_and_forgotten_is_not_hidden(site: Site) -> None:
    """slurmctld forgets a job minutes after its end, whose exporter may show it for longer."""
    site.live(MINUTE, 0.9)
    site.slurm.known = {}
    site.live(10 * MINUTE, 0.9)
    assert note_of_slurm(site) == ""


# Suspended jobs, and epilogs


@pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.COMPLETING])
def test_a_job_that_cannot_work_is_not_accused(site: Site, state: JobState) -> None:
    site.live(5 * MINUTE, 0.9)
    site.slurm.known = {1: replace(JOB, state=state, states=(state.upper(),))}
    site.live(2 * HOUR)
    assert site.incidents() == []
    site.slurm.down = True
    site.live(SILENCE)
    assert site.incidents() == [], "nor while a silent Slurm may still hold it"


@pytest.mark.parametrize("told", [None, START + 45 * MINUTE])
def test_after_a_suspension_no_window_shows_it(site: Site, told: float | None) -> None:
    """`told` is Slurm's own time of the change, where a release tells it."""
    site.live(15 * MINUTE, 0.9)
    site.slurm.known = {1: replace(JOB, state=JobState.SUSPENDED, states=("SUSPENDED",))}
    site.live(30 * MINUTE)
    site.slurm.known = {1: replace(JOB, suspended=told)}
    if told is not None:
        site.configure()
    site.live(28 * MINUTE)
    assert site.incidents() == []
    site.live(10 * MINUTE)
    assert [item.rule for item in site.incidents()] == ["idle"]


# Arrays and heterogeneous jobs


TASK = replace(JOB, id=124, array_job_id=120, array_task_id=3, user="bob", name="sweep")
PART = replace(JOB, id=131, het_job_id=130, het_job_offset=1, user="bob", name="sweep")


@pytest.mark.parametrize(("workload", "job"), [("slurm/120_3", TASK), ("slurm/130+1", PART)])
def test_jobs_by_the_ids_that_people_use_meet_slurm(tmp_path: Path, workload: str, job: SlurmJob) -> None:
    with slurm_site(tmp_path, workload) as site:
        site.slurm.known = {job.id: job, 1: JOB}
        site.live(SILENCE)
        (item,) = site.incidents()
        assert (item.subject, item.user) == (workload, "bob")
        ended = site.now
        site.slurm.known = {job.id: replace(job, state=JobState.ENDED, states=("TIMEOUT",), end=ended)}
        site.live(MINUTE)
        (item,) = site.incidents()
        assert (item.resolution, item.resolved_at) == (Resolution.ENDED, ended)
        site.slurm.known = {}
        site.rig.exporters[0].end(workload)
        run = FinalFigures(job.id, "TIMEOUT", start=START, end=ended, elapsed=ended - START, gpus=1)
        site.slurm.accounted = [run]
        site.live(4 * MINUTE)
        assert site.incidents()[0].figures["elapsed_seconds"] == ended - START


@pytest.mark.parametrize("workload", ["slurm/120_4", "slurm/120_*", "slurm/sEKNKTV3WPV500", "slurm/130+"])
def test_other_names_are_nobody(tmp_path: Path, workload: str) -> None:
    with slurm_site(tmp_path, workload) as site:
        site.slurm.known = {124: TASK, 120: replace(TASK, id=120, array_task_id=None, state=JobState.PENDING)}
        site.live(SILENCE)
        (item,) = site.incidents()
        assert item.user == "alice"
