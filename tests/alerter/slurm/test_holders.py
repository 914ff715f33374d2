"""GPUs of which the metrics do not tell the holder are those of Slurm's jobs, by node and index."""

from __future__ import annotations

import pytest

from dutycycle_alerter.model import Evidence, Gpu, Job
from dutycycle_alerter.slurm.holders import holders
from dutycycle_alerter.slurm.model import JobState, NodeGpus, SlurmJob, SlurmNode, Snapshot
from dutycycle_alerter.workloads import SlurmWord
from tests.alerter.cases import LATER, START, evidence

NODES = {"n1": SlurmNode("n1", hostname="host1"), "n2": SlurmNode("n2", hostname="host2")}


def running(number: int = 7, state: JobState = JobState.RUNNING, **gpus: tuple[int, ...] | None) -> SlurmJob:
    held = {node: (NodeGpus(len(indexes or ()), "h200", indexes),) for node, indexes in gpus.items()}
    return SlurmJob(number, state, user="carol", account="lab", partition="gpu", start=START, gpus=held)


def found(job: SlurmJob, *nodes: str) -> list[tuple[str, str]] | None:
    jobs = list(holders(Snapshot(LATER, {job.id: job}, NODES), nodes))
    return [(gpu.node, gpu.index) for gpu in jobs[0].gpus] if jobs else None


@pytest.mark.parametrize(
    ("job", "nodes", "expected"),
    [
        pytest.param(running(n1=(2, 3), n2=(0,)), ("n1", "n2"), [("n1", "2"), ("n1", "3"), ("n2", "0")], id="by name"),
        pytest.param(running(n1=(2,)), ("host1",), [("host1", "2")], id="by the host's name"),
        pytest.param(running(n1=(2,), n9=(1,)), ("n1",), [("n1", "2"), ("n9", "1")], id="a node that nobody knows"),
        pytest.param(running(n1=None), ("n1",), None, id="indexes are not known"),
        pytest.param(running(n1=(1,), n2=None), ("n1",), None, id="some are not"),
        pytest.param(running(), ("n1",), None, id="no GPUs"),
        pytest.param(running(state=JobState.COMPLETING, n1=(1,)), ("n1",), None, id="over"),
        pytest.param(running(state=JobState.PENDING, n1=(1,)), ("n1",), None, id="not begun"),
    ],
)
def test_the_gpus_of_a_job(job: SlurmJob, nodes: tuple[str, ...], expected: list[tuple[str, str]] | None) -> None:
    assert found(job, *nodes) == expected


def test_slurms_word_gives_jobs_their_gpus() -> None:
    gpu = Gpu("n1", "2", "GPU-2", model="H100")
    seen = Evidence(unowned=[evidence([0.5], the_job=Job(id="gpu/GPU-2", gpus=(gpu,), start=START))])
    word = SlurmWord(Snapshot(LATER, {7: running(n1=(2,))}, NODES))
    (item,) = word.claimed(seen).jobs
    assert (item.job.id, item.job.user, item.job.gpus, item.job.start) == ("slurm/7", "carol", (gpu,), START)
    assert item.window(900).gpus[0].utilization == 0.5
    assert SlurmWord(None).claimed(seen) is seen
