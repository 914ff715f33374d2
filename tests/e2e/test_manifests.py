"""What the manifests install works: pods that run as their objects say, from NVML to an incident on the page."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from tests.e2e.pod_site import ALERTER, EXPORTER, INTERVAL, NAMESPACE, PodSite
from tests.e2e.podmonitors import ClusterPrometheus, scrape_configs
from tests.e2e.site import wait_for
from tests.fakes.nvml import IDLE, Level, Libraries
from tests.fakes.pods import Pod
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image
from tests.manifests.kubernetes.rendering import INSTALL, MANIFESTS
from tests.postgres.server import PostgresServer

TIME_SCALE = 100.0
MINUTE = 60.0
PATIENCE = 120.0
"""Wall seconds that a machine that does much else may need, beside the scenario's own time."""
JUDGING = {"grace": {"batch": "1m", "loading": "1m"}, "rules": {"idle": {"window": "15m"}}}
"""Sooner than by default: what is judged, and how, is not what is shown here."""
TO_A_VERDICT = 20 * MINUTE
"""Grace, the window, and a few passes."""


@pytest.fixture
def images(exporter_image: Image, alerter_image: Image) -> dict[str, Image]:
    return {EXPORTER: exporter_image, ALERTER: alerter_image}


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.usefixtures("root")
def test_install_yaml(tmp_path: Path, nvml_libraries: Libraries, images: dict[str, Image]) -> None:
    """Applied, it finds an idle job of pods on two nodes, says whose it is, and loses nothing when it is killed."""
    with PodSite(tmp_path, nvml_libraries, images, TIME_SCALE) as site:
        site.kubectl.well("apply", "-f", INSTALL)
        site.add_node("gpu-a", 4)
        site.add_node("gpu-b", 2)
        site.run("bert", "gpu-a", [(f"bert-worker-{i}", IDLE) for i in range(3)], user="ada")
        site.run("vit", "gpu-b", [(f"vit-worker-{i}", Level(0.9)) for i in range(2)], user="ben")
        site.start()
        exporters = site.cluster.roll_out(site.exporters())
        deployment = site.alerter(source={"interval": f"{INTERVAL:g}s"}, judging=JUDGING)
        (alerter,) = site.cluster.roll_out(deployment)
        wait_for(lambda: all(pod.ready for pod in site.cluster.pods), "every pod is ready", within=PATIENCE)
        assert sorted(pod.node for pod in exporters) == ["gpu-a", "gpu-b"]

        within = PATIENCE + TO_A_VERDICT / TIME_SCALE
        (found,) = wait_for(site.incidents, "an incident", within=within)
        assert (found["rule"], found["user"], found["namespace"], found["job_gpus"]) == ("idle", "ada", "ml", 3)
        assert "bert" in found["subject"]
        status, page = site.page("/")
        assert (status, "bert" in page) == (200, True)
        gpus = site.get("/api/v1/gpus")["gpus"]
        assert sorted({gpu["node"] for gpu in gpus}) == ["gpu-a", "gpu-b"]
        assert len(gpus) == 6

        killed = site.cluster.replace(alerter, deployment, grace=0)
        wait_for(lambda: killed.ready, "the alerter is ready again", within=PATIENCE)
        before = site.get("/api/v1/status")["last_pass"]
        wait_for(lambda: site.get("/api/v1/status")["last_pass"] != before, "another pass", within=PATIENCE)
        (again,) = site.incidents()
        assert (again["id"], again["state"], again["subject"]) == (found["id"], found["state"], found["subject"])
        assert [pod.restarts for pod in site.cluster.pods] == [0, 0, 0]


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.usefixtures("root")
def test_the_overlay_for_the_prometheus_operator(
    tmp_path: Path, nvml_libraries: Libraries, images: dict[str, Image]
) -> None:
    """A Prometheus that scrapes as the PodMonitors say: the incident is of the pods, not of the exporter's own."""
    with PodSite(tmp_path, nvml_libraries, images, TIME_SCALE) as site:
        site.install_operator()
        site.kubectl.well("apply", "-k", MANIFESTS / "overlays" / "prometheus-operator")
        site.add_node("gpu-a", 3)
        site.run("bert", "gpu-a", [("bert-worker-0", IDLE), ("bert-worker-1", IDLE)], user="ada")
        site.run("vit", "gpu-a", [("vit-worker-0", Level(0.9))], user="ben")
        site.start()
        pods = site.cluster.roll_out(site.exporters()) + site.cluster.roll_out(site.alerter(judging=JUDGING))
        configs = scrape_configs(site.server.objects("PodMonitor"), pods, TIME_SCALE)
        with ClusterPrometheus(tmp_path / "prometheus", site.cluster, configs) as prometheus:
            wait_for(lambda: all(pod.ready for pod in pods), "every pod is ready", within=PATIENCE)
            within = PATIENCE + TO_A_VERDICT / TIME_SCALE
            (found,) = wait_for(site.incidents, "an incident", within=within)
            assert (found["rule"], found["user"], found["namespace"], found["job_gpus"]) == ("idle", "ada", "ml", 2)
            assert {gpu["workload"].split("/")[2] for gpu in found["gpus"]} == {"bert-worker-0", "bert-worker-1"}
            # For dashboards: whose pod it is stands where Prometheus has the exporter's, and nothing beside.
            owned = prometheus.series('gpu_allocation{pod="bert-worker-0"}')
            told = [(one["namespace"], one["job"], one["instance"], one["node"]) for one in owned]
            assert told == [("ml", EXPORTER, "gpu-a", "gpu-a")]
            assert not [name for name in owned[0] if name.startswith("exported_") or name in ("container", "endpoint")]
            assert {one["job"] for one in prometheus.series("up == 1")} == {EXPORTER, ALERTER}


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.usefixtures("root")
def test_the_overlay_of_two_alerters(
    tmp_path: Path,
    nvml_libraries: Libraries,
    images: dict[str, Image],
    postgres: PostgresServer,
    empty_postgres_url: str,
) -> None:
    """On a real PostgreSQL, whose URL is in a Secret: one goes on where the other is killed."""
    with PodSite(tmp_path, nvml_libraries, images, TIME_SCALE) as site:
        site.cluster.services.serve(NAMESPACE, "postgres", ("127.0.0.1", postgres.port), 5432)
        url = empty_postgres_url.replace(f"127.0.0.1:{postgres.port}", f"postgres.{NAMESPACE}.svc:5432")
        before = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "dutycycle-database", "namespace": NAMESPACE},
                "data": {"uri": base64.b64encode(url.encode()).decode()},
            },
        ]
        (tmp_path / "before.yaml").write_text(yaml.safe_dump_all(before))
        site.kubectl.well("apply", "-f", tmp_path / "before.yaml")
        site.kubectl.well("apply", "-k", MANIFESTS / "overlays" / "ha-postgres")
        site.add_node("gpu-a", 2)
        site.add_node("gpu-b", 1)
        site.run("bert", "gpu-a", [("bert-worker-0", IDLE), ("bert-worker-1", IDLE)], user="ada")
        site.start()
        site.cluster.roll_out(site.exporters())
        alerters = site.cluster.roll_out(site.alerter(source={"interval": f"{INTERVAL:g}s"}, judging=JUDGING))
        assert sorted(pod.node for pod in alerters) == ["gpu-a", "gpu-b"]
        wait_for(lambda: all(pod.ready for pod in site.cluster.pods), "every pod is ready", within=PATIENCE)

        def leading() -> list[Pod]:
            return [pod for pod in alerters if "\ndutycycle_alerter_leader 1.0\n" in site.page("/metrics", pod)[1]]

        (leader,) = wait_for(leading, "one leads", within=PATIENCE)
        site.cluster.end(leader, grace=0)
        alerters.remove(leader)
        within = PATIENCE + TO_A_VERDICT / TIME_SCALE
        (found,) = wait_for(site.incidents, "an incident", within=within)
        assert (found["rule"], found["user"], found["job_gpus"]) == ("idle", "ada", 2)
        assert leading() == alerters
        assert not list((tmp_path / "claims").glob("*")), "nothing is kept beside the database"
