"""A job of pods in time: its bounds at any time scale, whose word on an end counts, and how young its GPUs are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.grouping import together
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.kubernetes.jobs import Surroundings, end_of, is_over, job_of, member
from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.model import Job, JobEvidence, JobKind
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings import KubernetesCluster
from tests.alerter.cases import LATER, SETTINGS, START
from tests.alerter.kubernetes.podcases import TRAIN, part, pod

CLUSTER = KubernetesCluster()
SCALE = 10.0
JOB = Job(id="k8s/ml/pytorchjob/bert/owner-1", gpus=(), start=0.0, scheduler="k8s")


def around(scale: float = 1.0) -> Surroundings:
    return Surroundings(CLUSTER, SETTINGS, LATER, scale, None)


def of(known: list[Pod], *items: JobEvidence, scale: float = 1.0) -> JobEvidence:
    by_name = {one.workload: one for one in known}
    members = [member(item, by_name[item.job.id], CLUSTER) for item in items]
    return job_of(TRAIN, members, known, around(scale))


@pytest.mark.parametrize(
    ("phase", "seconds", "over"),
    [("Failed", 359, False), ("Failed", 361, True), ("Succeeded", 59, False), ("Succeeded", 61, True)],
)
@pytest.mark.parametrize("scale", [1.0, SCALE])
def test_a_next_pod_is_waited_for_so_long_by_the_scaled_clock(
    phase: str, seconds: float, scale: float, *, over: bool
) -> None:
    last = pod(0, phase=phase, finished=LATER - seconds / scale)
    assert is_over(TRAIN, [last], around(scale)) is over


def test_a_pod_that_is_a_job_by_itself_is_followed_by_none() -> None:
    alone = pod(0, owner=None, phase="Failed", finished=LATER - 1)
    assert is_over(Owner("ml", "Pod", alone.name, alone.uid), [alone], around())


@pytest.mark.parametrize("scale", [1.0, SCALE])
def test_a_pod_is_young_by_the_scaled_clock(scale: float) -> None:
    shown = [pod(0), pod(1)]
    for seconds, visible, left_out in ((299, True, 4), (301, False, 0)):
        new = pod(2, gpus=4, started=LATER - seconds / scale)
        more = [pod(n) for n in range(3, 6)]
        items = [part(one, 0.9) for one in (*shown, *more)]
        found = of([*shown, *more, new], *items, scale=scale)
        assert (found.visible, found.left_out) == (visible, left_out)


def test_a_pod_with_a_claim_that_is_not_shown_yet_has_one_gpu_at_least() -> None:
    claims = {"gpus": 0, "claims": ("gpu",)}
    one, new = pod(0, **claims), pod(1, **claims, started=LATER - 10)
    assert of([one, new], part(one, 0.9)).left_out == 1


def test_a_pod_ended_when_its_containers_did_and_not_when_it_was_deleted_later() -> None:
    assert end_of(pod(0, finished=LATER - 50, deleted=LATER - 10, created=START)) == LATER - 50
    assert end_of(pod(0, deleted=LATER - 10, created=START)) == LATER - 10
    assert end_of(pod(0, created=START)) == START
    assert end_of(pod(0)) == 0.0


def test_no_end_lies_after_the_pass_whatever_the_clock_of_the_api_server() -> None:
    ahead = pod(0, phase="Succeeded", finished=LATER + 300)
    assert member(part(ahead, 0.9), ahead, CLUSTER).item.ended == LATER


def test_requests_and_troubles_are_those_of_the_pods_that_live() -> None:
    over, lives = pod(0, phase="Succeeded", finished=LATER - 99, cpus=64.0), pod(1, cpus=4.0)
    found = of([over, lives], part(over, 0.9), part(lives, 0.9))
    assert (found.job.cpus, found.job.pod) == (4.0, "bert-worker-1")


def test_a_job_has_been_watched_since_its_last_part_was_and_begun_since_its_first() -> None:
    early, late = LATER - 7 * 3600, LATER - 5 * 3600
    parts = [part(pod(n), 0.9, start=at, first_process=at) for n, at in enumerate((late, early))]
    parts[0] = replace(parts[0], watched_from=LATER - 4 * 3600)
    found = together(JOB, parts, SETTINGS)
    assert (found.job.start, found.watched_from) == (early, LATER - 4 * 3600)


@pytest.mark.parametrize(("kind", "left_out"), [(JobKind.BATCH, 0), (JobKind.INTERACTIVE, 1)])
def test_grace_is_that_of_the_jobs_kind(kind: JobKind, left_out: int) -> None:
    """80 minutes are enough for a batch job, and not for a notebook."""
    at = LATER - 80 * 60
    parts = [part(pod(0), 0.9), part(pod(1), 0.9, start=at, first_process=at)]
    assert together(replace(JOB, kind=kind), parts, SETTINGS).left_out == left_out


def test_a_part_that_was_not_watched_long_enough_is_young() -> None:
    parts = [part(pod(0), 0.9), replace(part(pod(1), 0.9), watched_from=LATER - 60)]
    assert together(JOB, parts, SETTINGS).left_out == 1


def test_an_old_part_that_hardly_moves_does_not_pass_for_one_that_works() -> None:
    """Between idle and clear: the youngest may be what it waits for."""
    at = LATER - 80 * 60
    parts = [part(pod(n), 0.01, start=at, first_process=at) for n in range(3)]
    parts.append(part(pod(3), None, start=LATER - 60, first_process=None))
    assert together(JOB, parts, SETTINGS).left_out == 0


def test_an_incident_counts_all_gpus_of_its_job() -> None:
    parts = [part(pod(n), value) for n, value in enumerate((0.9, 0.9, 0.1))]
    found = together(JOB, parts, SETTINGS, to_come=2)
    incident = advance(None, judge(found, SETTINGS), SETTINGS).incident
    assert incident is not None
    assert (len(found.job.gpus), incident.job_gpus) == (3, 5)
