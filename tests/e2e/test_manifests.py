"""What the manifests install works: pods that run as their objects say, from NVML to an incident on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.pod_site import ALERTER, EXPORTER, INTERVAL, PodSite
from tests.e2e.site import wait_for
from tests.fakes.nvml import IDLE, Level, Libraries
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image
from tests.manifests.kubernetes.rendering import INSTALL

TIME_SCALE = 100.0
MINUTE = 60.0
PATIENCE = 120.0
"""Wall seconds that a machine that does much else may need, beside the scenario's own time."""
TO_A_VERDICT = 45 * MINUTE
"""Grace, a window of 30 minutes, and a few passes."""


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
        deployment = site.alerter(source={"interval": f"{INTERVAL:g}s"})
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
