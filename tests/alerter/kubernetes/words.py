"""Kubernetes' word on given pods, and incidents that it is asked about."""

from __future__ import annotations

from typing import Any

from dutycycle_alerter.incidents.model import Diagnosis, Incident, Severity, State
from dutycycle_alerter.kubernetes.doubts import PATIENCE, Doubts
from dutycycle_alerter.kubernetes.endings import Endings
from dutycycle_alerter.kubernetes.model import Snapshot
from dutycycle_alerter.kubernetes.word import KubernetesWord
from dutycycle_alerter.model import Evidence, JobEvidence
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.views import WatchCounts
from tests.alerter.cases import LATER, SETTINGS, START

JOB = "k8s/ml/pytorchjob/bert/owner-1"


def word(snapshot: Snapshot, **fields: Any) -> KubernetesWord:
    return KubernetesWord(KubernetesCluster(**fields), Settings(), snapshot, LATER, Doubts(PATIENCE), Endings(SETTINGS))


def jobs(snapshot: Snapshot, *items: JobEvidence, **fields: Any) -> list[JobEvidence]:
    return list(word(snapshot, **fields).completed(Evidence(jobs=items)).jobs)


def incident(subject: str = JOB, **fields: Any) -> Incident:
    values: dict[str, Any] = {
        "subject": subject,
        "rule": "idle",
        "severity": Severity.WARNING,
        "state": State.OPEN,
        "started_at": START,
        "opened_at": START + 60,
        "updated_at": LATER,
        "known_at": LATER - 30,
        "diagnosis": Diagnosis((), (), (), "", ()),
        "gpus": (),
        "rules": (),
        "scheduler": "k8s",
    }
    return Incident(**(values | fields))


class Told:
    """A watch that has told this, and remembers how it was asked."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.told = snapshot
        self.waited: list[float] = []
        self.closed = False

    def wait_synced(self, timeout: float) -> bool:
        self.waited.append(timeout)
        return True

    def snapshot(self) -> Snapshot:
        return self.told

    def counters(self) -> WatchCounts:
        return WatchCounts(events=7)

    def close(self) -> None:
        self.closed = True
