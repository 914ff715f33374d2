"""An incident of a job that is made of pods remembers them: their curves are found by their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dutycycle_alerter.grouping import together
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.model import Job, latest_workloads
from dutycycle_alerter.rules import judge
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import open_database
from tests.alerter.cases import SETTINGS
from tests.alerter.kubernetes.podcases import part, pod

TRAIN = Job(id="k8s/ml/pytorchjob/bert/owner-1", gpus=(), start=0.0, scheduler="k8s")


def test_an_incident_has_all_pods_of_its_job_and_names_those_concerned(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/store.sqlite3")
    parts = [part(pod(number), 0.93 if number else 0.3) for number in range(3)]
    step = advance(None, judge(together(TRAIN, parts, SETTINGS), SETTINGS), SETTINGS)
    with database.write() as connection:
        saved = incidents.save(connection, None, step)
        assert saved is not None
        found = incidents.get(connection, saved.id)
    database.close()
    assert found is not None
    assert found.workloads == tuple(f"k8s/ml/bert-worker-{n}/uid-{n}" for n in range(3))
    assert [gpu.pod for gpu in found.gpus] == ["bert-worker-0"]
    assert "bert-worker-0 (node0:0) 30 %" in " ".join(found.diagnosis.evidence)


def test_pods_that_came_later_are_remembered_and_the_oldest_of_very_many_forgotten() -> None:
    first = together(TRAIN, [part(pod(0), 0.9)], SETTINGS).job
    both = together(TRAIN, [part(pod(1), 0.9), part(pod(2), 0.9)], SETTINGS).job
    known = latest_workloads(latest_workloads((), first), both)
    assert [name.split("/")[2] for name in known] == ["bert-worker-0", "bert-worker-1", "bert-worker-2"]
    assert latest_workloads(known, first) == known
    many = tuple(f"k8s/ml/p{number}/u" for number in range(1000))
    assert latest_workloads(many, first) == (*many[1:], "k8s/ml/bert-worker-0/uid-0")
    assert latest_workloads((), replace(first, gpus=())) == ()
