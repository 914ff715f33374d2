"""`dutycycle up`, which `make run` starts: a replay where there is no driver, the real thing where there is one."""

import json
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from tests.e2e.site import BIN, Process, wait_for
from tests.fakes.node import FakeNode
from tests.fakes.nvml import IDLE, Level, Libraries
from tests.ports import AlerterAddresses

SPEED = 240
PATIENCE = 240
"""Wall seconds for what needs several programs to start, one after the other."""


Start = Callable[[str, list[str], dict[str, str]], Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that is stopped at the test's end, however that goes."""
    with ExitStack() as stack:

        def started(name: str, command: list[str], environment: dict[str, str]) -> Process:
            process = Process(name, command, tmp_path, {"PYTHONUNBUFFERED": "1", **environment})
            stack.callback(process.stop)
            return process.start()

        yield started


def up(
    start: Start, directory: Path, *options: str, environment: dict[str, str] | None = None
) -> tuple[Process, AlerterAddresses]:
    addresses = AlerterAddresses.free()
    command = [
        str(BIN / "dutycycle"),
        "up",
        f"--state-dir={directory / 'state'}",
        *addresses.options,
        *options,
    ]
    return start("up", command, environment or {}), addresses


def page(addresses: AlerterAddresses, path: str = "/") -> str:
    with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
        return pool.request("GET", addresses.url(path)).data.decode()


def children(pid: int) -> list[int]:
    """Processes that descend from one."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(a): int(b) for a, b in (line.split() for line in found.splitlines())}
    below, reached = {pid}, 0
    while reached != len(below):
        reached = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    return sorted(below - {pid})


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.timeout(900)
def test_without_a_driver_a_bundled_recording_is_replayed(start: Start, tmp_path: Path) -> None:
    process, addresses = up(start, tmp_path, f"--speed={SPEED}")
    wait_for(lambda: "The page is at" in process.log(), "the address is printed", within=PATIENCE)
    first = process.log().splitlines()[0]
    assert "No NVIDIA driver here" in first
    assert "recording" in first
    wait_for(lambda: "observing, first verdict at" in process.log(), "it says when it can judge", within=PATIENCE)
    wait_for(
        lambda: re.search(r"REPLAY .*(idle|stalled)", process.log()), "an incident in the terminal", within=PATIENCE
    )
    for path in ("/", "/users", "/gpus"):
        assert "REPLAY" in page(addresses, path)
    below = children(process.pid)
    assert len(below) >= 2

    process.interrupt()
    assert "Ended" in process.log()
    wait_for(lambda: not alive(below), "no process is left behind", within=PATIENCE)
    database = tmp_path / "state" / "replay.sqlite3"
    with sqlite3.connect(database) as connection:
        (kept,) = connection.execute("select count(*) from incident").fetchone()
    connection.close()
    assert kept > 0

    again, _ = up(start, tmp_path, f"--speed={SPEED}")
    wait_for(lambda: "The page is at" in again.log().split("Ended")[-1], "it starts again", within=PATIENCE)
    shown = subprocess.run(
        [BIN / "dutycycle", "incidents", "--state=all", "--json", f"--state-dir={tmp_path / 'state'}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"replay": true' in shown.stdout or '"replay":true' in shown.stdout
    assert shown.stdout.count('"subject"') >= kept
    again.stop()


@pytest.mark.timeout(900)
def test_with_nothing_said_it_serves_on_the_documented_port_and_plays_over_and_over(
    start: Start, tmp_path: Path
) -> None:
    """As `make run` starts it, only faster: at this speed three hours and a rest are over in 48 s."""
    command = [str(BIN / "dutycycle"), "up", "--demo", f"--state-dir={tmp_path / 'state'}", f"--speed={SPEED}"]
    process = start("up", command, {})
    documented = AlerterAddresses("127.0.0.1:9837", "127.0.0.1:9838")
    told = "at http://127.0.0.1:9837/, health and metrics at http://127.0.0.1:9838/"
    wait_for(lambda: told in process.log(), "the documented addresses are printed", within=PATIENCE)
    assert "REPLAY" in page(documented)
    assert page(documented, "/-/healthy") == "healthy\n"
    wait_for(lambda: "begins again" in process.log(), "the recording begins again", within=PATIENCE)
    wait_for(
        lambda: page(documented, "/api/v1/gpus").count('"workload"') > 5, "its jobs are there again", within=PATIENCE
    )

    other = start("other", [*command, *AlerterAddresses("127.0.0.1:0", "127.0.0.1:0").options], {})
    wait_for(lambda: not other.alive, "a second alerter on the store is refused", within=PATIENCE)
    assert f"another alerter (process {process.pid})" in other.log()
    taken = start("taken", [*command[:-2], f"--state-dir={tmp_path / 'else'}"], {})
    wait_for(lambda: not taken.alive, "an address that is taken is refused", within=PATIENCE)
    assert "cannot listen on 127.0.0.1:9837" in taken.log()
    process.stop()


@pytest.mark.timeout(900)
def test_kill_9_leaves_no_process_behind(start: Start, tmp_path: Path) -> None:
    process, _ = up(start, tmp_path, f"--speed={SPEED}")
    wait_for(lambda: "The page is at" in process.log(), "the address is printed", within=PATIENCE)
    below = children(process.pid)
    process.kill()
    wait_for(lambda: not alive(below), "no process is left behind", within=PATIENCE)


@pytest.mark.timeout(900)
def test_an_exporter_that_dies_is_started_again(start: Start, tmp_path: Path) -> None:
    process, _ = up(start, tmp_path, f"--speed={SPEED}")
    wait_for(lambda: "The page is at" in process.log(), "the address is printed", within=PATIENCE)
    exporters = [
        pid for pid in children(process.pid) if b"dutycycle-exporter" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    subprocess.run(["kill", "-9", str(exporters[0])], check=True)
    wait_for(lambda: "starting it again" in process.log(), "it is told", within=PATIENCE)
    wait_for(
        lambda: len([p for p in children(process.pid) if p not in exporters]) >= 2,
        "it is started again",
        within=PATIENCE,
    )
    process.stop()


@pytest.mark.timeout(900)
def test_with_a_driver_it_watches_the_gpus_and_the_shell_jobs_on_them(
    start: Start, tmp_path: Path, nvml_libraries: Libraries
) -> None:
    """Neither Slurm nor Kubernetes: a process group is the job, and its user the owner."""
    config = tmp_path / "config.yaml"
    config.write_text(f"time_scale: {SPEED}\n")
    with FakeNode(tmp_path / "node", nvml_libraries, gpus=2, time_scale=SPEED, capacity=2000) as node:
        node.shell_job({0: IDLE}, session=1)
        node.shell_job({1: Level(0.95)}, session=2)
        node.start()
        environment = dict(node.environment)
        for name, path in node.paths.items():
            environment[f"DUTYCYCLE_EXPORTER_PATH_{name.upper()}"] = str(path)
        process, addresses = up(start, tmp_path, f"--config={config}", environment=environment)
        try:
            wait_for(lambda: re.search(r"idle", process.log()), "the idle one is noticed", within=PATIENCE)
            time.sleep(2)
            assert "REPLAY" not in process.log()
            assert "REPLAY" not in page(addresses)
            assert "local/" in page(addresses)
            assert page(addresses, "/api/v1/incidents").count('"subject"') == 1
        finally:
            process.stop()


@pytest.mark.timeout(900)
def test_a_lost_gpu_is_named_at_the_start_and_stays_listed(
    start: Start, tmp_path: Path, nvml_libraries: Libraries
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"time_scale: {SPEED}\n")
    with FakeNode(tmp_path / "node", nvml_libraries, gpus=2, time_scale=SPEED, capacity=2000) as node:
        node.driver.lose(1)
        node.start()
        environment = {f"DUTYCYCLE_EXPORTER_PATH_{name.upper()}": str(path) for name, path in node.paths.items()}
        process, addresses = up(start, tmp_path, f"--config={config}", environment=node.environment | environment)

        def lost() -> list[bool]:
            found = json.loads(page(addresses, "/api/v1/gpus"))["gpus"]
            return [gpu["lost_since"] is not None for gpu in found]

        wait_for(lambda: "The page is at" in process.log(), "it watches the other GPU", within=PATIENCE)
        assert f"NVML shows 1 of 2 GPUs; missing: {node.driver.gpus[1].bus_id}." in process.log()
        wait_for(lambda: lost() == [False], "the other GPU is listed", within=PATIENCE)
        node.driver.restore(1)
        wait_for(lambda: lost() == [False, False], "both are listed", within=PATIENCE)
        node.driver.lose(1)
        wait_for(lambda: lost() == [False, True], "one is listed as lost", within=PATIENCE)
        assert "lost, last seen" in page(addresses, "/gpus")
        shown = subprocess.run(
            [BIN / "dutycycle", "gpus", f"--state-dir={tmp_path / 'state'}"], capture_output=True, text=True, check=True
        )
        assert "lost, last seen" in " ".join(shown.stdout.split())
        process.stop()
