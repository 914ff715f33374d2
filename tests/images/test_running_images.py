"""The images' programs as containers run them: first process, no right, a root that cannot be written to."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.exporter.daemon import eventually
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries
from tests.images.container import Confinement, Mount, Running, command
from tests.images.described import run
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image
from tests.ports import AlerterAddresses, free_port

pytestmark = pytest.mark.timeout(TIMEOUT)

USER, ROOT = (10001, 10001), (0, 0)
STATE = "/var/lib/dutycycle"
CONFIG = "/etc/dutycycle/config.yaml"


def started(image: Image, log: Path, confinement: Confinement, *arguments: str, **variables: str) -> Running:
    """The image's own command, as an engine starts it."""
    argv = [*image.entrypoint, *(arguments or image.cmd)]
    environment = {**image.env, **variables}
    return Running(command(image.root, argv, confinement, environment=environment, workdir=image.workdir), log)


def answer(url: str) -> tuple[int, str]:
    """Status and text; 0 while nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""


def ready(running: Running, url: str) -> bool:
    assert running.process.poll() is None, running.log
    return answer(url)[0] == 200


def states(running: Running) -> dict[str, str]:
    """The processes of a container: by the name of each, how it is."""
    found = {}
    for path in Path(f"/proc/{running.pid}/root/proc").glob("[0-9]*/stat"):
        head, _, tail = path.read_text().rpartition(")")
        found[head.partition(" ")[0]] = tail.split()[0]
    return found


def exporter(image: Image, node: FakeNode, directory: Path, port: int, user: tuple[int, int]) -> Running:
    """On a node whose driver's library is mounted as NVIDIA's runtime mounts it, beside the system's."""
    library = next(image.root.glob("usr/lib/*-linux-gnu")).relative_to(image.root)
    # As the driver's devices are; the double's library writes to it.
    node.driver.state.path.chmod(0o666)
    mounts = [
        Mount(node.driver.libraries.directory / "libnvidia-ml.so.1", f"/{library}/libnvidia-ml.so.1"),
        Mount(node.driver.state.path, "/nvml-state", writable=True),
        Mount(node.paths["procfs"], "/host/proc"),
        Mount(node.paths["cgroup"], "/host/sys/fs/cgroup"),
        Mount(node.paths["sysfs"], "/sys"),
    ]
    return started(
        image,
        directory / "exporter.log",
        Confinement(user=user, memory=(), mounts=mounts),
        NVML_DOUBLE_STATE="/nvml-state",
        DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS=f"127.0.0.1:{port}",
        DUTYCYCLE_EXPORTER_PATH_PROCFS="/host/proc",
        DUTYCYCLE_EXPORTER_PATH_CGROUP="/host/sys/fs/cgroup",
    )


@pytest.fixture
def node(tmp_path: Path, nvml_libraries: Libraries) -> FakeNode:
    return FakeNode(tmp_path / "node", nvml_libraries, gpus=2)


@pytest.mark.parametrize("user", [USER, ROOT])
def test_the_exporter_serves_a_nodes_gpus(
    exporter_image: Image, node: FakeNode, tmp_path: Path, user: tuple[int, int]
) -> None:
    """As in a DaemonSet, where uid 0 opens the kubelet's directory, and as anyone."""
    port = free_port()
    with node.start(), exporter(exporter_image, node, tmp_path, port, user) as running:
        eventually(lambda: ready(running, f"http://127.0.0.1:{port}/-/ready"), "the exporter is ready")
        status, text = answer(f"http://127.0.0.1:{port}/metrics")
        assert status == 200
        for gpu in node.driver.gpus:
            assert f'gpu_uuid="{gpu.uuid}"' in text
        running.signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.log


def test_the_exporter_leaves_no_child_unburied(exporter_image: Image, node: FakeNode, tmp_path: Path) -> None:
    """As the first process it has nobody to do it: the child that reads NVML is killed, and there is another."""
    port = free_port()
    with node.start(), exporter(exporter_image, node, tmp_path, port, USER) as running:
        eventually(lambda: ready(running, f"http://127.0.0.1:{port}/-/ready"), "the exporter is ready")
        before = set(states(running))
        children = Path(f"/proc/{running.pid}/task").glob("*/children")
        for pid in [int(pid) for path in children for pid in path.read_text().split()]:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(set(states(running)) - before) > 0, "there is another child")
        assert eventually(lambda: len(states(running)) == len(before), "the killed one is gone")
        assert "Z" not in states(running).values()


def alerter(
    image: Image, directory: Path, state: Path | None, addresses: AlerterAddresses, targets: Sequence[str]
) -> Running:
    """With its configuration; its state is in memory where no directory is given for it."""
    config = directory / "config.yaml"
    config.write_text(
        yaml.safe_dump({"web": addresses.settings, "source": {"targets": list(targets), "interval": "15s"}})
    )
    mounts = [Mount(config, CONFIG)]
    if state is not None:
        mounts.append(Mount(state, STATE, writable=True))
    memory = ("/tmp",) if state else ("/tmp", STATE)
    confinement = Confinement(user=USER, memory=memory, mounts=mounts)
    return started(image, directory / "alerter.log", confinement, DUTYCYCLE_CONFIG=CONFIG)


def test_the_alerter_judges_what_the_exporter_serves(
    alerter_image: Image, exporter_image: Image, node: FakeNode, tmp_path: Path
) -> None:
    port, addresses = free_port(), AlerterAddresses.free()
    with (
        node.start(),
        exporter(exporter_image, node, tmp_path, port, USER) as below,
        alerter(alerter_image, tmp_path, None, addresses, [f"http://127.0.0.1:{port}/metrics"]) as running,
    ):
        eventually(lambda: ready(below, f"http://127.0.0.1:{port}/-/ready"), "the exporter is ready")
        eventually(lambda: ready(running, addresses.url("/-/ready")), "the alerter is ready")
        gpus = addresses.url("/api/v1/gpus")
        eventually(lambda: node.driver.gpus[0].uuid in answer(gpus)[1], "it knows the GPUs")
        assert "Z" not in states(running).values()
        running.signal(signal.SIGTERM)
        assert running.process.wait(120) == 0, running.log


def test_the_alerters_store_outlives_it(alerter_image: Image, tmp_path: Path) -> None:
    """And other commands of the image find it without being told where."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    addresses = AlerterAddresses.free()
    with alerter(alerter_image, tmp_path, state, addresses, ["http://127.0.0.1:9/metrics"]) as running:
        eventually(lambda: answer(addresses.url("/-/healthy"))[0] == 200, "the alerter serves")
        running.signal(signal.SIGTERM)
        assert running.process.wait(120) == 0, running.log
    assert (state / "dutycycle.sqlite3").stat().st_uid == USER[0]
    looking = Confinement(user=USER, mounts=[Mount(state, STATE, writable=True)])
    assert run(alerter_image, "dutycycle", "incidents", confinement=looking)


def test_the_alerter_draws(alerter_image: Image, tmp_path: Path) -> None:
    """matplotlib wants to keep a list of fonts, and says so where it cannot."""
    (tmp_path / "out").mkdir(mode=0o777)
    (tmp_path / "out").chmod(0o777)
    recording = next(alerter_image.root.glob("opt/dutycycle/lib/*/site-packages/dutycycle_alerter/data/demo.csv.gz"))
    path = f"/{recording.relative_to(alerter_image.root)}"
    mounts = [Mount(tmp_path / "out", "/out", writable=True)]
    run(alerter_image, "dutycycle", "analyze", "--png", "/out/a.png", path, confinement=Confinement(mounts=mounts))
    assert (tmp_path / "out/a.png").read_bytes().startswith(b"\x89PNG")
