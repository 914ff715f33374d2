"""A small site from real processes: GPU nodes on the NVML double, an exporter on each, one alerter with its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
import yaml

from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries
from tests.fakes.slurm_prolog import PrologWriter
from tests.ports import AlerterAddresses, free_port

BIN = Path(sys.executable).parent
INTERVAL = 15
"""Seconds between scrapes of the full-length run."""


class Process:
    """A program that can be started, killed and started again; its stderr goes to a file."""

    def __init__(self, name: str, command: list[str], directory: Path, environment: dict[str, str]) -> None:
        self.name = name
        self._command = command
        self._log = directory / f"{name}.log"
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9, as the kernel does it when memory runs out."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as systemd does it."""
        self._end(signal.SIGTERM)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(30)
        self._process = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class Exporter(Process):
    """dutycycle-exporter on a fake node."""

    def __init__(self, node: FakeNode, directory: Path, time_scale: float, *options: str) -> None:
        self.port = free_port()
        self.prolog = PrologWriter(directory / f"{node.name}-prolog")
        command = [
            str(BIN / "dutycycle-exporter"),
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--node-name={node.name}",
            f"--time-scale={time_scale:g}",
            f"--slurm.prolog-dir={self.prolog.directory}",
            f"--path.procfs={node.paths['procfs']}",
            f"--path.cgroup={node.paths['cgroup']}",
            f"--path.sysfs={node.paths['sysfs']}",
            *options,
        ]
        super().__init__(f"exporter-{node.name}", command, directory, node.environment)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    def metrics(self, timeout: float = 60.0) -> str:
        with urllib3.PoolManager(retries=False, timeout=timeout) as pool:
            return pool.request("GET", self.url).data.decode()


class Alerter(Process):
    """dutycycle serve over some exporters, with its own SQLite file."""

    def __init__(
        self, targets: Iterable[str], directory: Path, time_scale: float, settings: dict[str, Any] | None = None
    ) -> None:
        self.addresses = AlerterAddresses.free()
        self.store = directory / "dutycycle.sqlite3"
        self.database = f"sqlite:///{self.store}"
        config = directory / "alerter.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "time_scale": time_scale,
                    "database": self.database,
                    "source": {"targets": list(targets), "interval": f"{INTERVAL}s"},
                    "web": {**self.addresses.settings, "public_url": self.url},
                    **(settings or {}),
                }
            )
        )
        command = [str(BIN / "dutycycle"), "serve", "--config", str(config), "--log-level", "info"]
        super().__init__("alerter", command, directory, {})

    @property
    def url(self) -> str:
        return self.addresses.url()

    def get(self, path: str, timeout: float = 60.0) -> Any:
        with urllib3.PoolManager(retries=False, timeout=timeout) as pool:
            response = pool.request("GET", self.url + path)
            assert response.status == 200, response.data
            return json.loads(response.data)


class Site:
    """Nodes, exporters and the alerter; a context manager that leaves no process behind."""

    def __init__(self, directory: Path, libraries: Libraries, time_scale: float) -> None:
        self.directory = directory
        self.time_scale = time_scale
        self._libraries = libraries
        self.nodes: dict[str, FakeNode] = {}
        self.exporters: dict[str, Exporter] = {}
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.stop()
        for node in self.nodes.values():
            node.__exit__(kind, error, trace)
        if error is not None:
            for process in self._processes:
                sys.stderr.write(f"--- {process.name}\n{process.log()[-4000:]}\n")

    def add_node(self, name: str, *, gpus: int = 8, options: tuple[str, ...] = (), **extra: Any) -> FakeNode:
        """A node whose time has not begun; its samples are kept long enough for a test machine that stalls."""
        node = FakeNode(
            self.directory / name,
            self._libraries,
            name=name,
            gpus=gpus,
            time_scale=self.time_scale,
            capacity=extra.pop("capacity", 1000),
            **extra,
        )
        self.nodes[name] = node
        self.exporters[name] = Exporter(node, self.directory, self.time_scale, *options)
        self._processes.append(self.exporters[name])
        return node

    def alerter(self, settings: dict[str, Any] | None = None) -> Alerter:
        alerter = Alerter(
            [exporter.url for exporter in self.exporters.values()], self.directory, self.time_scale, settings
        )
        self._processes.append(alerter)
        return alerter

    def sleep(self, seconds: float) -> None:
        """Let scenario time pass."""
        time.sleep(seconds / self.time_scale)


def wait_for(condition: Callable[[], Any], what: str, *, within: float) -> Any:
    """The condition's first true answer; fails after `within` wall seconds."""
    deadline = time.monotonic() + within
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = condition()
        except (OSError, urllib3.exceptions.HTTPError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen within {within:g} s; last answer: {last!r}")
