"""Exporter and alerter take what the manifests hand them: files, arguments, environment, ports and paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dutycycle_alerter import config_file
from dutycycle_alerter.cli.serve import serve
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.web import HEALTH_PORT
from dutycycle_exporter.cli import cli as exporter
from dutycycle_exporter.cli import read_settings

from .checks.cluster import Cluster, Pod
from .rendering import MANIFESTS, Object, Variant
from .variants import SINGLE, objects

CONFIG = "/etc/dutycycle/config.yaml"
STATE = "/var/lib/dutycycle"
OTHERS = frozenset(
    {
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        # NVIDIA's container toolkit reads those, matplotlib this.
        "MPLCONFIGDIR",
    }
)
VARIANTS = [one for one in SINGLE if one.kustomization not in ("grafana", "prometheus")]


def _pod(found: list[Object], component: str) -> Pod:
    (pod,) = (one for one in Cluster(tuple(found)).pods if one.labels["app.kubernetes.io/component"] == component)
    return pod


def environment(pod: Pod) -> dict[str, str]:
    """What is not in the manifests (a node's name, a Secret) is what stands there."""
    (container,) = pod.spec["containers"]
    taken = {"DUTYCYCLE_DATABASE": "postgresql://dutycycle@postgres.example.org/dutycycle"}
    return {one["name"]: one.get("value", taken.get(one["name"], "gpu-node-1")) for one in container.get("env") or ()}


def unknown(names: set[str], command: click.Command) -> set[str]:
    """Variables that no option of the command reads."""
    read: set[str] = set()
    for option in command.params:
        given = option.envvar or ()
        read |= {given} if isinstance(given, str) else set(given)
    return names - read - OTHERS


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing of ours is in the environment but what a test puts there."""
    for name in os.environ:
        if name.startswith("DUTYCYCLE"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_exporter_takes_its_environment(variant: Variant, bare: pytest.MonkeyPatch) -> None:
    pod = _pod(objects(variant), "exporter")
    (container,) = pod.spec["containers"]
    given = environment(pod)
    assert unknown(set(given), exporter) == set()
    for name, value in given.items():
        bare.setenv(name, value)
    settings = read_settings(container.get("args", []))
    assert settings.node_name == "gpu-node-1"
    # Where it looks, something is mounted.
    mounts = {Path(mount["mountPath"]) for mount in container["volumeMounts"]}
    assert {settings.procfs, settings.cgroup, settings.kubernetes_socket.parent} <= mounts
    assert (settings.prolog_dir in mounts) == ("components/slurm" in variant.components)
    assert settings.listen == f":{container['ports'][0]['containerPort']}"


def test_a_misspelled_variable_is_found(bare: pytest.MonkeyPatch) -> None:
    """The exporter itself would not mind: it knows nothing of variables that it does not read."""
    given = environment(_pod(objects(Variant("base")), "exporter")) | {"DUTYCYCLE_EXPORTER_PATH_PROC": "/host/proc"}
    assert unknown(set(given), exporter) == {"DUTYCYCLE_EXPORTER_PATH_PROC"}


def _mounted(found: list[Object], pod: Pod, path: str) -> dict[str, str]:
    """The files of the ConfigMap that is mounted at a path."""
    (container,) = pod.spec["containers"]
    (volume,) = (mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == path)
    (source,) = (one for one in pod.spec["volumes"] if one["name"] == volume)
    held = Cluster(tuple(found)).find("ConfigMap", source["configMap"]["name"], pod.namespace)
    assert held is not None
    data: dict[str, str] = held["data"]
    return data


def _settings(found: list[Object], tmp_path: Path) -> Settings:
    pod = _pod(found, "alerter")
    assert environment(pod)["DUTYCYCLE_CONFIG"] == CONFIG
    file = tmp_path / "config.yaml"
    file.write_text(_mounted(found, pod, str(Path(CONFIG).parent))[Path(CONFIG).name])
    return config_file.load(file)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_alerter_takes_its_file(variant: Variant, tmp_path: Path) -> None:
    found = objects(variant)
    settings = _settings(found, tmp_path)
    (container,) = _pod(found, "alerter").spec["containers"]
    assert settings.web.listen_address == f":{container['ports'][0]['containerPort']}"
    # A configuration of the site's own need not name the health listener: the manifests expect its default.
    assert settings.web.health_listen_address == ""
    assert {one["name"]: one["containerPort"] for one in container["ports"]}["health"] == HEALTH_PORT
    # The store is on the volume; where there is no volume, it is elsewhere.
    mounted = STATE in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == ("DUTYCYCLE_DATABASE" not in environment(_pod(found, "alerter")))
    assert settings.database == f"sqlite:///{STATE}/dutycycle.sqlite3"
    # By whichever of its Service's names it is called.
    (service,) = (one for one in found if one["kind"] == "Service" and one["metadata"]["name"] == "dutycycle-alerter")
    name, within = service["metadata"]["name"], service["metadata"]["namespace"]
    wanted = {name, f"{name}.{within}", f"{name}.{within}.svc", f"{name}.{within}.svc.cluster.local"}
    assert wanted <= set(settings.web.allowed_hosts)


def _scrapes() -> Iterator[Any]:
    """Where each of the manifests' ways to scrape finds the alerter: a port by name or number."""
    monitor = yaml.safe_load((MANIFESTS / "components/prometheus-operator/podmonitor-alerter.yaml").read_text())
    yield from (one["port"] for one in monitor["spec"]["podMetricsEndpoints"])
    for file in ("components/annotations/prometheus-scrape.yaml", "engines/victoriametrics/vmagent.yaml"):
        jobs = yaml.safe_load((MANIFESTS / file).read_text())["scrape_configs"]
        (job,) = (one for one in jobs if one["job_name"] == "dutycycle-alerter")
        for rule in job["relabel_configs"]:
            if "__meta_kubernetes_pod_container_port_name" in rule["source_labels"]:
                yield rule["regex"].rpartition(";")[2]
    pod = _pod(objects(Variant("overlays/annotations")), "alerter")
    yield int(pod.metadata["annotations"]["prometheus.io/port"])


def test_probes_and_scrapes_are_for_the_health_listener() -> None:
    (container,) = _pod(objects(Variant("base")), "alerter").spec["containers"]
    probes = [container[kind]["httpGet"]["port"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert probes == ["health"] * 3
    assert list(_scrapes()) == ["health"] * 3 + [HEALTH_PORT]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_alerter_takes_its_arguments(variant: Variant, bare: pytest.MonkeyPatch) -> None:
    pod = _pod(objects(variant), "alerter")
    (container,) = pod.spec["containers"]
    assert container["args"][0] == "serve"
    assert "command" not in container
    given = environment(pod)
    assert unknown(set(given), serve) == set()
    for name, value in given.items():
        bare.setenv(name, value)
    with serve.make_context("serve", container["args"][1:]) as context:
        assert context.params["config_file"] == Path(CONFIG)
        assert context.params["database"] == given.get("DUTYCYCLE_DATABASE")


def test_exporters_are_asked_where_they_are(tmp_path: Path) -> None:
    found = objects(Variant("base"))
    (target,) = _settings(found, tmp_path).source.targets
    (service,) = (one for one in found if one["kind"] == "Service" and one["metadata"]["name"] == "dutycycle-exporter")
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert str(target) == f"dns+http://{name}:{service['spec']['ports'][0]['port']}/metrics"
    assert service["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(
    "name", ["overlays/prometheus-operator", "overlays/annotations", "engines/thanos", "engines/mimir"]
)
def test_a_scrape_is_as_often_as_the_alerter_is_told(name: str, tmp_path: Path) -> None:
    """And the exporter holds its series for two of them."""
    found = objects(Variant(name))
    settings = _settings(found, tmp_path)
    assert settings.prometheus is not None
    monitors = [one for one in found if one["kind"] == "PodMonitor" and one["metadata"]["name"] == "dutycycle-exporter"]
    for one in monitors:
        (endpoint,) = one["spec"]["podMetricsEndpoints"]
        assert endpoint["interval"] == f"{settings.prometheus.scrape_interval:g}s"
        assert endpoint["honorLabels"] is True
    assert _held(found) == 2 * settings.prometheus.scrape_interval


def _held(found: list[Object]) -> float:
    pod: Any = _pod(found, "exporter")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment(pod).items():
            patched.setenv(name, value)
        return read_settings([]).series_hold
