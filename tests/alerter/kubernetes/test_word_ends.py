"""Kubernetes' word on when a job is over: silence and what is not known end nothing, and one pod may follow another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.kubernetes.model import Pod, Snapshot
from dutycycle_alerter.kubernetes.workloads import KubernetesWorkloads
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.report import report
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.workloads import End
from tests.alerter.cases import LATER, SETTINGS, START
from tests.alerter.kubernetes.podcases import known, part, pod
from tests.alerter.kubernetes.words import JOB, Told, incident, jobs, word


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"phase": "Succeeded", "finished": LATER - 90}, LATER - 90),
        ({"phase": "Failed", "reason": "Evicted", "finished": LATER - 400}, LATER - 400),
        ({"phase": "Failed", "finished": LATER - 300}, None),
        ({"gone": True, "deleted": LATER - 70}, LATER - 70),
        ({"gone": True, "deleted": LATER - 20}, None),
        ({"deleted": LATER - 5}, None),
        ({"waiting": "CrashLoopBackOff"}, None),
    ],
)
def test_a_pod_ends_when_the_api_server_says_so(fields: dict[str, Any], ended: float | None) -> None:
    one = pod(0, **fields)
    [found] = jobs(known(one), part(one, 0.5))
    assert found.ended == ended


def test_a_pod_that_lost_the_label_by_which_pods_are_watched_ends_by_its_exporters_word() -> None:
    one = pod(0, gone=True, deleted=LATER - 90)
    assert [item.ended for item in jobs(known(one), part(one, 0.5), label_selector="gpu=true")] == [None]
    [over] = jobs(known(one), part(one, 0.5, ended=LATER - 10), label_selector="gpu=true")
    assert over.ended == LATER - 10
    done = pod(0, phase="Succeeded", finished=LATER - 80)
    assert [item.ended for item in jobs(known(done), part(done, 0.5), label_selector="gpu=true")] == [LATER - 80]


def test_exporters_that_lost_a_pod_which_runs_do_not_end_it() -> None:
    one = pod(0)
    [found] = jobs(known(one), part(one, 0.5, ended=LATER - 60))
    assert (found.ended, found.visible) == (None, False)


def test_a_job_whose_last_pod_is_being_deleted_ends_when_that_is_gone_or_should_be() -> None:
    going, stuck = pod(0, deleted=LATER - 60), pod(0, deleted=LATER - 301)
    assert [item.ended for item in jobs(known(going), part(going, 0.5, ended=LATER - 30))] == [None]
    assert [item.ended for item in jobs(known(stuck), part(stuck, 0.5, ended=LATER - 30))] == [LATER - 30]


def test_a_pod_that_a_lost_node_keeps_does_not_hide_those_that_took_its_place() -> None:
    lost, anew = pod(0, deleted=LATER - 400), pod(1, node="node1")
    [found] = jobs(known(lost, anew), part(lost, 0.0, visible=False), part(anew, 0.9))
    assert (found.visible, [gpu.pod for gpu in found.job.gpus]) == (True, ["bert-worker-1"])


def test_one_pod_after_the_other_is_one_run_and_what_was_deleted_and_made_anew_is_another() -> None:
    now = LATER - 3600
    following = pod(1, started=now)
    for former, start in (
        (pod(0, phase="Failed", finished=now - 300), START),
        (pod(0, phase="Failed", finished=now - 400), now),
        (pod(0, phase="Succeeded", finished=now - 50), START),
        (pod(0, gone=True, deleted=now - 5), now),
    ):
        [found] = jobs(known(former, following), part(following, 0.5, start=now, first_process=None))
        assert found.job.start == start


def test_an_end_is_told_when_no_next_pod_followed_with_what_was_known_then() -> None:
    """The source forgets what ended once it was told; the job's report needs it."""
    last = pod(0, phase="Succeeded", finished=LATER - 10)
    watch = Told(known(last))
    workloads = KubernetesWorkloads(KubernetesCluster(), watch, Settings())
    [at_first] = workloads.ask(LATER, [], []).completed(Evidence(jobs=[part(last, 0.5, ended=LATER - 10)])).jobs
    assert (at_first.ended, at_first.visible, at_first.recent[0].allocated) == (None, False, 60.0)
    assert workloads.ask(LATER + 30, [], []).completed(Evidence()).jobs == []
    for _ in range(3):
        [later] = workloads.ask(LATER + 60, [], []).completed(Evidence()).jobs
        assert (later.job.id, later.ended, later.recent, later.visible) == (JOB, LATER - 10, (), True)
        assert judge(later, SETTINGS).verdict("idle").outcome is Outcome.CLEAR
        assert report(later, SETTINGS, None)
    assert workloads.ask(LATER + 60, [], []).completed(Evidence()).jobs == []


@pytest.mark.parametrize(
    "changed",
    [
        {"fresh": False},
        {"pods": {"uid-0": pod(0, phase="Succeeded", finished=LATER - 400), "new": pod(5, uid="new", node="")}},
    ],
)
def test_no_job_ends_while_its_next_pod_may_not_be_known(changed: dict[str, Any]) -> None:
    last = pod(0, phase="Succeeded", finished=LATER - 400)
    snapshot = replace(known(last), **changed)
    assert [item.ended for item in jobs(snapshot, part(last, 0.0, ended=LATER - 400))] == [None]


def test_what_a_finished_pod_said_does_not_count_while_others_live() -> None:
    over = pod(0, phase="Succeeded", annotations={"dutycycle.io/ignore": "all"})
    lives = pod(1)
    said = word(known(over, lives))
    assert said.declared(said.completed(Evidence(jobs=[part(lives, 0.5)])))[JOB].ignore == frozenset()


def test_pods_that_are_left_out_on_purpose_hold_up_nobody() -> None:
    one = pod(0)
    both = [part(one, 0.0), part(pod(1), 0.9)]
    for settings in ({"label_selector": "gpu=true"}, {"namespaces": ("ml",)}):
        found = {item.job.id: item.visible for item in jobs(known(one), *both, **settings)}
        assert found[JOB] is True


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((pod(0), pod(1, phase="Succeeded")), None),
        ((pod(0, phase="Succeeded", finished=LATER - 499), pod(1, phase="Failed", finished=LATER - 400)), "Failed"),
        ((pod(0, phase="Failed", reason="Evicted", finished=LATER - 400),), "Evicted"),
        ((pod(0, phase="Failed", finished=LATER - 300),), None),
        ((pod(0, phase="Succeeded", finished=LATER - 400), pod(1, deleted=LATER - 301)), "Succeeded"),
        ((pod(0, phase="Pending", node=""),), None),
    ],
)
def test_an_incident_ends_with_the_last_pod_of_its_job(pods: tuple[Pod, ...], expected: str | None) -> None:
    found = word(known(*pods)).end(incident())
    assert found == (None if expected is None else End(LATER - 400, expected))


def test_of_a_job_that_nothing_is_left_of_it_is_known_that_it_is_over() -> None:
    assert word(known()).end(incident()) == End(LATER - 30, "")


@pytest.mark.parametrize(
    ("snapshot", "subject"),
    [
        (replace(known(), fresh=False), JOB),
        (Snapshot(), JOB),
        (known(), "slurm/7"),
    ],
)
def test_nothing_ends_by_silence_nor_does_what_is_another_schedulers(snapshot: Snapshot, subject: str) -> None:
    assert word(snapshot).end(incident(subject)) is None


@pytest.mark.parametrize("waiting", [pod(3), pod(3, node="", phase="Pending")])
def test_nothing_ends_while_owners_are_looked_for_however_long_that_takes(waiting: Pod) -> None:
    snapshot = replace(known(waiting), owners={})
    workloads = KubernetesWorkloads(KubernetesCluster(), Told(snapshot), Settings())
    for now in (LATER, LATER + 86400):
        said = workloads.ask(now, [], [])
        said.completed(Evidence())
        assert said.end(incident()) is None


@pytest.mark.parametrize(
    "settings",
    [{"namespaces": ("cv",)}, {"label_selector": "gpu=true"}, {"cluster": "south"}],
)
def test_what_is_not_watched_does_not_end_by_being_absent(settings: dict[str, Any]) -> None:
    assert word(known(), **settings).end(incident()) is None


def test_a_job_does_not_end_while_exporters_show_its_pods() -> None:
    said = word(known())
    said.completed(Evidence(jobs=[part(pod(0), 0.0)]))
    assert said.end(incident(workloads=("k8s/ml/bert-worker-0/uid-0",))) is None
    assert said.end(incident()) is not None


def test_of_several_clusters_one_without_a_name_knows_its_own_pods_only() -> None:
    said = word(known())
    south = part(pod(1), 0.0)
    south = replace(south, job=replace(south.job, id="south/k8s/ml/x/y", cluster="south"))
    said.completed(Evidence(jobs=[part(pod(0), 0.0), south]))
    assert said.end(incident(f"south/{JOB}", cluster="south")) is None
    assert "several clusters" in said.targets[0].note


def test_an_end_lies_between_the_incident_and_now_whatever_the_clocks_say() -> None:
    for finished, at in ((LATER + 900, LATER), (START - 900, START + 60)):
        found = word(
            known(pod(0, phase="Succeeded", finished=finished)),
        ).end(incident())
        # Of an end that lies ahead it is not known yet that no pod follows.
        assert found == (None if finished > LATER else End(at, "Succeeded"))


def test_an_exporter_that_shows_a_pod_which_is_a_job_by_itself_keeps_it_from_ending() -> None:
    alone = pod(0, owner=None)
    said = word(known())
    said.completed(Evidence(jobs=[part(alone, 0.0)]))
    assert said.end(incident(alone.workload)) is None
    assert said.end(incident("k8s/ml/other/uid")) is not None


def test_what_a_job_consumed_in_the_pass_that_tells_its_end_is_accounted_for() -> None:
    last = pod(0, phase="Succeeded", finished=LATER - 70)
    [found] = jobs(known(last), part(last, 0.5, ended=LATER - 70))
    assert (found.ended, sum(used.allocated for used in found.recent)) == (LATER - 70, 60.0)


def test_a_job_that_goes_on_is_not_remembered_as_ending() -> None:
    former, following = pod(0, phase="Succeeded", finished=LATER - 10), pod(1, started=LATER - 5)
    said = word(known(former))
    said.completed(Evidence(jobs=[part(former, 0.5, ended=LATER - 10)]))
    assert [kept.job.id for kept in said.endings.waiting()] == [JOB]
    again = replace(said, snapshot=known(former, following))
    again.completed(Evidence(jobs=[part(following, 0.5)]))
    assert said.endings.waiting() == []
