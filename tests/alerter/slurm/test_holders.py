"""GPUs whose holder the metrics do not tell are those of Slurm's jobs, as far as it can be told which they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.model import Evidence, Gpu, Job
from dutycycle_alerter.slurm.holders import holders
from dutycycle_alerter.slurm.model import JobState, NodeGpus, SlurmJob, SlurmNode, Snapshot
from dutycycle_alerter.slurm.word import SlurmWord
from dutycycle_alerter.sources.claims import Claims, Held
from dutycycle_alerter.workloads import Nobody
from tests.alerter.cases import LATER, START, evidence

NODES = {
    "n1": SlurmNode("n1", hostname="host1", gpus=4),
    "n2": SlurmNode("n2", hostname="host2", gpus=1),
    "m1": SlurmNode("m1", gpus=4, gpu_types={"a100": 1, "a100_3g.20gb": 3}),
}


def running(number: int = 7, state: JobState = JobState.RUNNING, **gpus: tuple[int, ...] | int) -> SlurmJob:
    held = {
        node: (NodeGpus(of, "h200") if isinstance(of, int) else NodeGpus(len(of), "h200", of),)
        for node, of in gpus.items()
    }
    return SlurmJob(number, state, user="carol", account="lab", partition="gpu", start=START, gpus=held)


def found(job: SlurmJob, *nodes: str, ordered: bool = True) -> dict[str, Held] | None:
    told = holders(Snapshot(LATER, {job.id: job}, NODES), nodes, ordered=ordered)
    return dict(told.holdings[0].on) if told.holdings else None


@pytest.mark.parametrize(
    ("job", "nodes", "expected"),
    [
        pytest.param(
            running(n1=(2, 3), n2=(0,)),
            ("n1", "n2"),
            {"n1": Held(2, 4, ("2", "3")), "n2": Held(1, 1, ("0",))},
            id="by name",
        ),
        pytest.param(running(n1=(2,)), ("host1",), {"host1": Held(1, 4, ("2",))}, id="by the host's name"),
        pytest.param(running(n9=(1,)), ("n1",), {"n9": Held(1, 0)}, id="a node that Slurm does not know"),
        pytest.param(running(n1=4), ("n1",), {"n1": Held(4, 4)}, id="indexes are not known"),
        pytest.param(running(n1=(1, 1)), ("n1",), {"n1": Held(2, 4)}, id="nonsense"),
        pytest.param(running(m1=(0,)), ("m1",), {"m1": Held(1, 0)}, id="a node with MIG instances"),
        pytest.param(replace(running(n1=(1,)), start=None), ("n1",), {"n1": Held(1, 0)}, id="since when is not known"),
        pytest.param(running(), ("n1",), None, id="no GPUs"),
        pytest.param(running(state=JobState.COMPLETING, n1=(1,)), ("n1",), None, id="over"),
        pytest.param(running(state=JobState.PENDING, n1=(1,)), ("n1",), None, id="not begun"),
    ],
)
def test_the_gpus_of_a_job(job: SlurmJob, nodes: tuple[str, ...], expected: dict[str, Held] | None) -> None:
    assert found(job, *nodes) == expected


def test_slurms_indexes_mean_nothing_unless_a_setting_says_that_they_are_nvmls() -> None:
    assert found(running(n1=(2,)), "n1", ordered=False) == {"n1": Held(1, 4)}


def test_jobs_that_are_over_have_their_end() -> None:
    ended = replace(running(8, JobState.ENDED), end=LATER - 9)
    completing = replace(running(9, JobState.COMPLETING), end=LATER - 5)
    unknown = running(10, JobState.ENDED)
    told = holders(Snapshot(LATER, {job.id: job for job in (ended, completing, unknown)}, NODES), ["host1"], "north")
    assert told.ended == {"north/slurm/8": LATER - 9, "north/slurm/9": LATER - 5}
    assert set(told.nodes) == {"host1", "n2", "m1"}


def test_slurms_word_gives_jobs_their_gpus() -> None:
    gpu = Gpu("n2", "3", "GPU-3", model="H100")
    seen = Evidence(unowned=[evidence([0.5], the_job=Job(id="gpu/GPU-3", gpus=(gpu,), start=START))])
    word = SlurmWord(Snapshot(LATER, {7: running(n2=(0,))}, NODES))
    (item,) = word.claimed(seen).jobs
    assert (item.job.id, item.job.user, item.job.gpus, item.job.start) == ("slurm/7", "carol", (gpu,), START)
    assert item.window(900).gpus[0].utilization == 0.5
    assert SlurmWord(None).claimed(seen) is seen


def test_a_job_without_labels_ends_when_slurm_says_so() -> None:
    gpu = Gpu("n2", "3", "GPU-3", model="H100")
    seen = Evidence(unowned=[evidence([0.5], the_job=Job(id="gpu/GPU-3", gpus=(gpu,), start=START))])
    claims, over = Claims(), replace(running(state=JobState.ENDED), states=("COMPLETED",), end=LATER - 30)
    for known, ended in ((running(n2=(0,)), None), (over, LATER - 30)):
        word = SlurmWord(Snapshot(LATER, {7: known}, NODES), claims=claims)
        (item,) = word.completed(word.claimed(seen)).jobs
        assert (item.job.id, item.job.gpus, item.ended) == ("slurm/7", (gpu,), ended)


def test_without_a_scheduler_nobody_holds_what_the_metrics_do_not_tell() -> None:
    gpu = Gpu("n2", "3", "GPU-3")
    seen = Evidence(unowned=[evidence([0.5], the_job=Job(id="gpu/GPU-3", gpus=(gpu,), start=START))])
    assert Nobody().claimed(seen).unowned == ()
