"""What Slurm's word adds to our jobs, and when a run is over: requeues, stale answers, clocks, and silence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.model import Gpu, Job, JobKind
from dutycycle_alerter.slurm.facts import JobFacts, facts_of, raw_id, settled
from dutycycle_alerter.slurm.model import ExitCode, FinalFigures, JobState, SlurmJob, Snapshot

START = 1_700_000_000.0
NOW = START + 3600


def ours(job_id: str = "8", start: float = START, **changed: Any) -> Job:
    return Job(
        id=f"slurm/{job_id}", gpus=(Gpu("host2", "0"),), start=start, scheduler="slurm", job_id=job_id, **changed
    )


def theirs(state: JobState = JobState.RUNNING, **changed: Any) -> SlurmJob:
    return SlurmJob(**{"id": 8, "state": state, "states": (state.upper(),), "start": START, "restarts": 0, **changed})


def snapshot(*jobs: SlurmJob) -> Snapshot:
    return Snapshot(NOW, {job.id: job for job in jobs}, {}, NOW)


def fact(known: SlurmJob | None, job: Job | None = None) -> JobFacts:
    job = job or ours()
    return facts_of(snapshot(*([known] if known else [])), [job])[job.id]


def test_a_running_job_is_completed() -> None:
    known = theirs(
        user="alice",
        account="research",
        partition="gpu",
        qos="high",
        name="train",
        comment="see ticket 5; dutycycle:expect-uneven,ignore=stalled,serving",
        limit=7200.0,
        cpus_requested=2,
        cpus_allocated=4,
        memory_requested=2**30,
        batch=False,
    )
    found = facts_of(snapshot(known), [ours()])["slurm/8"]
    assert (found.user, found.account, found.partition, found.qos, found.name) == (
        "alice",
        "research",
        "gpu",
        "high",
        "train",
    )
    assert (found.time_limit, found.cpus, found.memory) == (7200, 4, 2**30)
    assert found.interactive
    assert found.declarations.expect_uneven
    assert found.declarations.ignore == {"stalled"}
    assert found.declarations.kind is JobKind.SERVING
    assert (found.ended, found.absent, found.state) == (False, False, JobState.RUNNING)


def test_without_a_snapshot_nothing_is_known_and_nothing_has_ended() -> None:
    assert facts_of(None, [ours()]) == {}


def test_a_job_that_slurm_no_longer_knows_is_absent_and_not_ended() -> None:
    found = fact(None)
    assert (found.absent, found.ended, found.state) == (True, False, None)


@pytest.mark.parametrize(
    ("known", "ended", "at", "outcome"),
    [
        pytest.param(theirs(), False, None, "", id="it runs"),
        pytest.param(theirs(JobState.SUSPENDED), False, None, "", id="suspended"),
        pytest.param(theirs(JobState.COMPLETING), False, None, "", id="its epilog runs"),
        pytest.param(theirs(JobState.UNKNOWN, states=("NEW",)), False, None, "", id="a state that we do not know"),
        pytest.param(
            theirs(JobState.ENDED, states=("TIMEOUT",), end=NOW - 5), True, NOW - 5, "TIMEOUT", id="it has ended"
        ),
        pytest.param(
            theirs(JobState.ENDED, states=("FAILED",)), True, None, "FAILED", id="it has ended, and nobody says when"
        ),
        pytest.param(
            theirs(JobState.PENDING, start=None, submit=NOW - 60, restarts=1),
            True,
            NOW - 60,
            "REQUEUED",
            id="requeued, it waits",
        ),
        pytest.param(
            theirs(start=NOW - 40, submit=NOW - 170, restarts=1), True, None, "REQUEUED", id="requeued, it runs again"
        ),
        pytest.param(
            theirs(JobState.ENDED, states=("COMPLETED",), start=NOW - 40, end=NOW, restarts=1),
            True,
            None,
            "REQUEUED",
            id="requeued, and that run is over too: ours ended earlier",
        ),
        pytest.param(
            theirs(JobState.PENDING, start=None, submit=START - 5),
            False,
            None,
            "",
            id="older than the start of our run",
        ),
        pytest.param(
            theirs(JobState.PENDING, start=None, submit=START + 5),
            False,
            None,
            "",
            id="never requeued: a node's clock is behind",
        ),
        pytest.param(
            theirs(JobState.PENDING, start=None, submit=START - 120, restarts=1),
            False,
            None,
            "",
            id="ours is the run after the requeue, which Slurm's answer does not show yet",
        ),
        pytest.param(
            theirs(JobState.ENDED, states=("FAILED",), start=START - 900, end=START - 300, restarts=0),
            False,
            None,
            "",
            id="ours is the run after the end that the answer tells of",
        ),
        pytest.param(theirs(start=START + 20, restarts=1), False, None, "", id="a prolog took 20 s less: the same run"),
        pytest.param(theirs(start=START + 900), False, None, "", id="never restarted: a node's clock is wrong"),
        pytest.param(theirs(start=START - 900, restarts=2), False, None, "", id="a node's clock is far ahead"),
        pytest.param(theirs(start=None), False, None, "", id="no start told"),
    ],
)
def test_when_the_run_that_we_see_is_over(known: SlurmJob, ended: bool, at: float | None, outcome: str) -> None:
    found = fact(known)
    assert (found.ended, found.ended_at, found.outcome) == (ended, at, outcome)


@pytest.mark.parametrize(
    ("job", "cluster", "number"),
    [
        (ours("8"), "", 8),
        (ours("8", cluster="a"), "a", 8),
        (ours("8", cluster="b"), "a", None),
        (ours("8", cluster="b"), "", 8),
        (ours("sEKNKTV3WPV500"), "", None),
        (ours("8_3"), "", None),
        (ours(""), "", None),
        (ours("٣"), "", None),
        (ours("9" * 30), "", None),
        (Job("k8s/a", (), START, scheduler="kubernetes", job_id="8"), "", None),
        (Job("x", (), START), "", None),
    ],
)
def test_which_jobs_are_slurms(job: Job, cluster: str, number: int | None) -> None:
    assert raw_id(job, cluster) == number
    assert set(facts_of(snapshot(), [job], cluster=cluster)) == (set() if number is None else {job.id})


def run(start: float | None = START + 2, end: float | None = NOW, **changed: Any) -> FinalFigures:
    return FinalFigures(**{"id": 8, "state": "COMPLETED", "start": start, "end": end, "user": "alice", **changed})


def test_final_figures_settle_a_job_that_slurm_no_longer_knows() -> None:
    absent = fact(None)
    final = run(limit=60.0, cpus=4, memory=5, nodes=("gpu02",), exit_code=ExitCode(0), max_rss=3)
    found = settled(absent, ours(), [final])
    assert (found.ended, found.ended_at, found.outcome, found.absent) == (True, NOW, "COMPLETED", True)
    assert found.over_at == NOW
    assert (found.user, found.time_limit, found.cpus, found.memory) == ("alice", 60, 4, 5)
    assert found.final is final


@pytest.mark.parametrize(
    ("runs", "chosen"),
    [
        ([], None),
        ([run(START - 5000, START - 1000)], None),
        ([run(START + 500, NOW)], None),
        ([run(None)], None),
        ([run(START - 5000, START - 1000), run(START), run(START + 500)], 1),
        ([run(START + 20)], 0),
        ([run(START - 500, START + 5)], 0),
    ],
)
def test_figures_of_another_run_are_not_ours(runs: list[FinalFigures], chosen: int | None) -> None:
    found = settled(fact(None), ours(), runs)
    assert found.final == (None if chosen is None else runs[chosen])
    assert found.ended == (chosen is not None)


def test_what_slurmctld_said_is_kept_where_accounting_says_less() -> None:
    known = theirs(JobState.ENDED, states=("FAILED",), end=NOW, user="bob", limit=60.0)
    found = settled(fact(known), ours(), [run(user="", qos="low", state="FAILED")])
    assert (found.user, found.qos, found.time_limit) == ("bob", "low", 60)


states = st.sampled_from(list(JobState))
times = st.one_of(st.none(), st.floats(START - 1e4, START + 1e4))


@given(states, times, times, times, st.one_of(st.none(), st.integers(0, 3)))
def test_only_an_end_or_a_restart_ends_a_run(
    state: JobState, start: float | None, submit: float | None, end: float | None, restarts: int | None
) -> None:
    """A job that was never restarted and has not ended is never taken to be over, whatever the clocks say."""
    found = fact(theirs(state, start=start, submit=submit, end=end, restarts=restarts))
    if found.ended:
        assert state is JobState.ENDED or restarts
    if found.ended_at is not None:
        assert found.ended
