"""Passes over pods of a training run while its API server fails in every way: nothing false opens, nothing ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.model import Incident, Resolution, State
from dutycycle_alerter.kubernetes.cluster import Cluster
from dutycycle_alerter.kubernetes.workloads import KubernetesWorkloads
from dutycycle_alerter.schedulers import SeveralWorkloads
from dutycycle_alerter.settings import KubernetesCluster
from dutycycle_alerter.views import IncidentFilter
from dutycycle_alerter.web.access.seen import OwnReader
from tests.alerter.exporters import FakeExporter
from tests.alerter.kubernetes.watched import IMPATIENT, until, watched
from tests.alerter.rig import Rig, running
from tests.fakes.kubernetes import KubernetesServer, owner, pod, workload

START = 1_750_000_000.0
STARTED = "2025-06-15T15:06:40Z"
MINUTE = 60.0
TO_A_VERDICT = 43
"""Minutes: grace, the window of half an hour, and some passes."""
PODS = 8
ONE_WORKS = {f"k8s/ml/bert-worker-{n}/uid-{n}": 0.9 if n == 0 else 0.0 for n in range(PODS)}
ALL_WORK = dict.fromkeys(ONE_WORKS, 0.9)


@dataclass
class Site:
    """A node with the eight pods of a PyTorchJob, an API server that knows them, and one engine."""

    rig: Rig
    server: KubernetesServer
    cluster: Cluster
    engine: Engine

    def live(self, minutes: int, utilization: dict[str, float]) -> None:
        for _ in range(minutes):
            self.rig.step(1, dict(utilization))
            self.engine.run_pass()

    def incidents(self) -> list[Incident]:
        return list(self.rig.reader.incidents(IncidentFilter())[0])

    def told(self) -> list[tuple[str, str, int, State]]:
        return [(one.rule, one.user, len(one.gpus), one.state) for one in self.incidents()]

    def hears(self) -> None:
        until(lambda: self.cluster.snapshot().fresh and not self.cluster.waiting())

    def is_deaf(self) -> None:
        until(lambda: not self.cluster.snapshot().fresh)


ONE = [("partially_idle", "ada", 7, State.OPEN)]


@contextmanager
def kubernetes_site(path: Path, server: KubernetesServer) -> Iterator[Site]:
    """As it is after a start. The pods have been there since `START`."""
    exporter = FakeExporter("gpu01", PODS)
    for number, name in enumerate(ONE_WORKS):
        exporter.allocate(
            name, number, start=START, first_process=START, namespace="ml", pod=f"bert-worker-{number}", user="ml"
        )
    with (
        running(path / "store.sqlite3", exporter, interval=MINUTE) as rig,
        watched(path, server, pace=IMPATIENT) as cluster,
    ):
        schedule = rig.settings.schedule.model_copy(update={"pass_interval": 0.2})
        settings = rig.settings.model_copy(update={"schedule": schedule})
        workloads = SeveralWorkloads((KubernetesWorkloads(KubernetesCluster(), cluster, settings),))
        yield Site(rig, server, cluster, Engine(settings, rig.source, rig.database, rig.clock, workloads=workloads))


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        found.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        bert = workload("PyTorchJob", "bert", api_version="kubeflow.org/v1", annotations={"dutycycle.io/user": "ada"})
        bert = found.put(bert)
        for number in range(PODS):
            name = f"bert-worker-{number}"
            made = pod(name, uid=f"uid-{number}", node="gpu01", owners=(owner(bert),), created=STARTED, started=STARTED)
            found.put(made)
        yield found


Failing = Callable[[KubernetesServer], AbstractContextManager[object]]


@contextmanager
def away(server: KubernetesServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def while_it_watches(server: KubernetesServer, action: str) -> Iterator[None]:
    """What runs is spoiled, and what is begun anew fails."""
    with server.inject("error", code=500), server.inject(action):
        yield


FAULTS: dict[str, Failing] = {
    "500": lambda server: server.inject("error", code=500),
    "403": lambda server: server.inject("error", code=403),
    "throttled": lambda server: server.inject("error", code=429, retry_after=1),
    "hangs": lambda server: server.inject("hang"),
    "garbage": lambda server: server.inject("garbage"),
    "closes": lambda server: server.inject("close"),
    "refuses": away,
}
BESIDE_A_WATCH: dict[str, Failing] = {
    **FAULTS,
    "half a line": lambda server: while_it_watches(server, "half-line"),
    "expired": lambda server: while_it_watches(server, "expire"),
    "silent": lambda server: server.inject("silent"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_the_api_server_was_never_heard_nothing_is_said_of_its_pods(
    tmp_path: Path, server: KubernetesServer, fault: str
) -> None:
    with FAULTS[fault](server), kubernetes_site(tmp_path, server) as site:
        site.live(TO_A_VERDICT, ONE_WORKS)
        assert site.told() == []
        assert site.rig.reader.status().targets[-1].error


def test_what_was_hidden_is_seen_as_soon_as_it_can_be(tmp_path: Path, server: KubernetesServer) -> None:
    with kubernetes_site(tmp_path, server) as site:
        with away(server):
            site.is_deaf()
            site.live(TO_A_VERDICT, ONE_WORKS)
        site.hears()
        site.live(1, ONE_WORKS)
        assert site.told() == ONE


@pytest.mark.parametrize("fault", BESIDE_A_WATCH)
def test_while_the_api_server_fails_what_is_open_stays_open_and_nothing_else_opens(
    tmp_path: Path, server: KubernetesServer, fault: str
) -> None:
    with kubernetes_site(tmp_path, server) as site:
        site.hears()
        site.live(TO_A_VERDICT, ONE_WORKS)
        assert site.told() == ONE
        with BESIDE_A_WATCH[fault](server):
            if fault == "silent":
                server.patch("Pod", "ml", "bert-worker-0", {"metadata": {"labels": {"touched": "yes"}}})
            site.is_deaf()
            # Exporters lose the pods as well: for all that is known they run.
            shown = site.rig.exporters[0].allocations
            site.live(3, ONE_WORKS)
            site.rig.exporters[0].allocations = {}
            site.live(15, {})
            site.rig.exporters[0].allocations = shown
        site.hears()
        site.live(3, ONE_WORKS)
        assert site.told() == ONE
        assert sum(site.cluster.counters().failures.values()) > 0


def test_what_ended_while_the_api_server_was_away_has_ended_when_it_is_back(
    tmp_path: Path, server: KubernetesServer
) -> None:
    with kubernetes_site(tmp_path, server) as site:
        site.hears()
        site.live(TO_A_VERDICT, ONE_WORKS)
        with away(server):
            site.is_deaf()
            for number in range(PODS):
                server.patch("Pod", "ml", f"bert-worker-{number}", {"status": {"phase": "Succeeded"}})
            site.rig.exporters[0].allocations = {}
            site.live(15, {})
            assert [one.state for one in site.incidents()] == [State.OPEN]
        site.hears()
        site.live(8, {})
        assert [one.resolution for one in site.incidents()] == [Resolution.ENDED]


def test_pods_that_work_again_clear_what_they_opened(tmp_path: Path, server: KubernetesServer) -> None:
    with kubernetes_site(tmp_path, server) as site:
        site.hears()
        site.live(TO_A_VERDICT, ONE_WORKS)
        site.live(40, ALL_WORK)
        assert [(one.resolution, one.job_gpus) for one in site.incidents()] == [(Resolution.CLEARED, PODS)]


def test_the_owner_of_every_pod_is_published_and_shown_with_its_gpu(tmp_path: Path, server: KubernetesServer) -> None:
    """The exporter knows the namespace alone. Nothing is published before the owner is resolved."""
    with kubernetes_site(tmp_path, server) as site:
        site.hears()
        site.live(2, ALL_WORK)
        found = site.rig.reader.owners()
        assert {one.workload: (one.user, one.kind) for one in found} == dict.fromkeys(ONE_WORKS, ("ada", "PyTorchJob"))
        assert {one.job.rpartition("/")[0] for one in found} == {"k8s/ml/pytorchjob/bert"}
        assert {user for gpu in site.rig.reader.gpus() for _, user, _ in gpu.workloads} == {"ada"}
        assert OwnReader(site.rig.reader, "ada").gpus() == site.rig.reader.gpus()
        assert OwnReader(site.rig.reader, "ml").gpus() == []


def test_an_owner_that_is_not_resolved_is_not_published(tmp_path: Path) -> None:
    """The API server does not know the pods: the exporter's word is all there is."""
    with KubernetesServer() as empty, kubernetes_site(tmp_path, empty) as site:
        site.hears()
        site.live(2, ALL_WORK)
        assert not site.rig.reader.owners()
        assert {user for gpu in site.rig.reader.gpus() for _, user, _ in gpu.workloads} == {"ml"}
