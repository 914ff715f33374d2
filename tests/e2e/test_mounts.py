"""What the DaemonSet mounts of a node is what the exporter opens, no more and no less: traced by strace in its pod."""

from __future__ import annotations

import copy
import http.client
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pod_site import ALERTER, EXPORTER, INTERVAL, PodSite
from tests.e2e.site import wait_for
from tests.e2e.traced import Files, below, files
from tests.fakes.nvml import Level, Libraries
from tests.fakes.pods import Pod
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image
from tests.manifests.kubernetes.rendering import INSTALL
from tests.required import lacking

TIME_SCALE = 20.0
PATIENCE = 180.0
OWN = ("/dev", "/etc", "/lib", "/opt", "/proc", "/sys", "/usr")
"""Where a container has what is its image's, or the kernel's."""
ELSEWHERE = {"/", "/run/dutycycle/slurm", "/var/run/nscd/socket"}
"""What is looked for and may be missing: the files of a Slurm prolog (components/slurm), and what glibc looks for."""
SURPLUS = ("/var/lib", "/host/var/lib")
"""Of the node, and where a mount of it would be."""
CYCLES = 4


def mounts(daemonset: Mapping[str, Any]) -> set[str]:
    """Where its container has what is the node's."""
    spec = daemonset["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
    return {one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if one["name"] in volumes}


def problems(daemonset: Mapping[str, Any], seen: Files) -> list[str]:
    """What is mounted for nothing, and what is looked for and not mounted."""
    given = mounts(daemonset)
    used = {mount for mount in given if any(below(path, mount) and path != mount for path in seen.opened)}
    lacking = {path for path in seen.tried - ELSEWHERE if not any(below(path, one) for one in (*OWN, *given))}
    return [f"{mount} is mounted for nothing" for mount in sorted(given - used)] + [
        f"{path} is not mounted" for path in sorted(lacking)
    ]


def without(daemonset: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The same with one mount less."""
    found = copy.deepcopy(dict(daemonset))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [one for one in container["volumeMounts"] if one["mountPath"] != path]
    return found


def with_surplus(daemonset: Mapping[str, Any]) -> dict[str, Any]:
    """The same with one mount more."""
    found = copy.deepcopy(dict(daemonset))
    spec = found["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "surplus", "hostPath": {"path": SURPLUS[0], "type": "Directory"}})
    spec["containers"][0]["volumeMounts"].append({"name": "surplus", "mountPath": SURPLUS[1], "readOnly": True})
    return found


def scraped(site: PodSite, pod: Pod) -> str:
    """Its metrics, as Prometheus asks for them."""
    connection = http.client.HTTPConnection(pod.address, timeout=10)
    connection.sock = site.cluster.network.connect(pod.address, pod.port("metrics"), 10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.fixture
def images(exporter_image: Image) -> dict[str, Image]:
    return {EXPORTER: exporter_image, ALERTER: exporter_image}


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.usefixtures("root")
def test_mounts_are_what_is_opened(tmp_path: Path, nvml_libraries: Libraries, images: dict[str, Image]) -> None:
    if shutil.which("strace") is None:
        lacking("strace")
    with PodSite(tmp_path, nvml_libraries, images, TIME_SCALE) as site:
        site.kubectl.well("apply", "-f", INSTALL)
        site.add_node("gpu-a", 2)
        site.run("bert", "gpu-a", [("bert-worker-0", Level(0.5))], user="ada")
        site.start()
        whole = site.exporters()
        variants = {"": whole, "surplus": with_surplus(whole)} | {path: without(whole, path) for path in mounts(whole)}
        pods: dict[str, Pod] = {}
        traces = {name: tmp_path / f"trace{number}" for number, name in enumerate(variants)}
        for name, variant in variants.items():
            (pods[name],) = site.cluster.roll_out(variant, trace=traces[name])

        # A full cycle of what the base has: the kubelet's word, the processes and their cgroups.
        def complete() -> bool:
            page = scraped(site, pods[""])
            return all(
                f"\n{name}{{" in page for name in ("gpu_allocation", "gpu_processes", "workload_cpu_seconds_total")
            )

        def measures(name: str) -> bool:
            return '\ndutycycle_exporter_collector_success{collector="nvml"} 1\n' in scraped(site, pods[name])

        wait_for(complete, "everything is shown", within=PATIENCE)
        for name in variants:
            wait_for(partial(measures, name), f"{pods[name].name} measures", within=PATIENCE)
        for _ in range(CYCLES):
            time.sleep(INTERVAL / TIME_SCALE)
            for pod in pods.values():
                wait_for(partial(scraped, site, pod), f"{pod.name} answers", within=PATIENCE)
        found = {name: problems(variant, files(traces[name].read_text())) for name, variant in variants.items()}
        assert found[""] == []
        assert found["surplus"] == [f"{SURPLUS[1]} is mounted for nothing"]
        for path in mounts(whole):
            # Without processes nobody's cgroup is known either.
            missed = [one for one in found[path] if not one.endswith("for nothing")]
            assert missed, f"without {path}"
            assert all(one.startswith(path) for one in missed), missed
