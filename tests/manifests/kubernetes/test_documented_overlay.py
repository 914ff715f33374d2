"""The overlay that docs/install-kubernetes.md shows is one, and does what is said of it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle_alerter.config_file import parse
from tests.manifests.kubernetes.rendering import NEWEST_KUBECTL, OLDEST_KUBECTL, ROOT, named, parsed
from tests.required import lacking

PAGE = (ROOT / "docs/install-kubernetes.md").read_text()


def shown(key: str) -> dict[str, Any]:
    """The page's only YAML that has this key first."""
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (found,) = (block for block in blocks if next(iter(block)) == key)
    return found


def build(site: Path, kubectl: Path) -> list[dict[str, Any]]:
    if not kubectl.exists():
        lacking(f"{kubectl.name} (`make test` fetches it)")
    kustomization = {**shown("apiVersion")}
    kustomization["patches"] = [*kustomization["patches"], *shown("patches")["patches"]]
    # Kustomize takes folders by relative paths alone, and the page's checkout is beside the site.
    text = yaml.safe_dump(kustomization).replace("../dutycycle/", os.path.relpath(ROOT, site.resolve()) + "/")
    (site / "kustomization.yaml").write_text(text)
    (site / "config.yaml").write_text(yaml.safe_dump(shown("notify")))
    done = subprocess.run([kubectl, "kustomize", site], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)


@pytest.mark.parametrize("kubectl", [NEWEST_KUBECTL, OLDEST_KUBECTL], ids=lambda program: program.name)
def test_the_overlay_of_the_page_has_what_it_says(kubectl: Path, tmp_path: Path) -> None:
    found = build(tmp_path, kubectl)
    pods = {
        name: named(found, kind, f"dutycycle-{name}")["spec"]["template"]["spec"]
        for name, kind in {"exporter": "DaemonSet", "alerter": "Deployment"}.items()
    }
    for name, pod in pods.items():
        (container,) = pod["containers"]
        assert container["image"].startswith(f"registry.example.org/dutycycle-{name}:")
    environment = {one["name"]: one.get("value") for one in pods["exporter"]["containers"][0]["env"]}
    assert environment["DUTYCYCLE_EXPORTER_CLUSTER"] == "production"
    assert environment["DUTYCYCLE_EXPORTER_KUBERNETES_API"] == "true"
    assert (pods["exporter"]["hostPID"], pods["exporter"]["runtimeClassName"]) == (True, "nvidia")
    labels = [one["metadata"]["labels"]["release"] for one in found if "monitoring.coreos.com" in one["apiVersion"]]
    assert labels
    assert set(labels) == {"prometheus"}


def test_its_configuration_is_the_sites_and_a_valid_one(tmp_path: Path) -> None:
    found = build(tmp_path, NEWEST_KUBECTL)
    (volume,) = (
        one["configMap"]["name"]
        for one in named(found, "Deployment", "dutycycle-alerter")["spec"]["template"]["spec"]["volumes"]
        if "configMap" in one
    )
    content = yaml.safe_load(named(found, "ConfigMap", volume)["data"]["config.yaml"])
    assert content == shown("notify")
    settings = parse(content, origin="the page")
    (route,) = settings.notify.routes
    assert route.receiver in {receiver.name for receiver in settings.notify.receivers}
