"""The places in which the documents' commands are run: what a page supposes to be there, under names of the test's own.

A place is a directory with the files that the page has spoken of, and what its names of hosts, files and numbers stand
for there. Programs that go on until they are stopped are waited for until they answer, and must end well.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
import yaml

from tests.docs.blocks import ROOT, blocks
from tests.docs.commands import ours
from tests.e2e.site import BIN
from tests.fakes.smtp.server import MailServer
from tests.ports import AlerterAddresses, free_port

INCIDENT = "2"
"""An open incident of the simulated store, for the numbers that the documents have."""

_DAEMONS = {("dutycycle", "serve"), ("dutycycle", "up"), ("dutycycle-exporter", "")}


@dataclass
class Place:
    """`names` are replaced in commands, in this order; `answers` are the addresses at which started programs answer; at
    `mail_port` a mail server listens.
    """

    directory: Path
    mail_port: int
    names: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def write(self, name: str, content: Mapping[str, object] | str) -> Path:
        """A file of the place: YAML of a mapping."""
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content)), encoding="utf-8")
        return path

    def said(self, command: str) -> str:
        """The command with the place's own names."""
        for name, own in self.names.items():
            command = command.replace(name, own)
        return command

    def run(self, command: str) -> None:
        """Run it as a shell does; a program that goes on is started, and answers."""
        command = self.said(command)
        called = next(iter(ours(command)), ("", []))
        daemon = (called[0], called[1][0] if called[0] == "dutycycle" and called[1] else "")
        if daemon in _DAEMONS and "--help" not in called[1]:
            self._start(f"exec {command}", self.answers[called[0]])
            return
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.directory,
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def close(self) -> None:
        """Everything that was started must end by itself when it is asked to, and say that all was well."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        codes = [(process.args, process.wait(60)) for process in reversed(self.running)]
        self.running.clear()
        assert all(code == 0 for _, code in codes), codes

    def _start(self, command: str, address: str) -> None:
        log = self.directory / f"{len(self.running)}.log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.directory,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                text=True,
            )
        self.running.append(process)
        patience = time.monotonic() + 180
        while not _answers(address):
            assert process.poll() is None, f"{command} ended:\n{log.read_text()}"
            assert time.monotonic() < patience, f"{command} does not answer at {address}:\n{log.read_text()}"
            time.sleep(0.1)

    def _variables(self) -> dict[str, str]:
        """Nothing of the tester's own settings."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DUTYCYCLE")}
        return {**clean, "PATH": f"{BIN}:{clean['PATH']}", "HOME": str(self.directory), **self.environment}


def _answers(address: str) -> bool:
    with urllib3.PoolManager(retries=False, timeout=5.0) as pool:
        try:
            return bool(pool.request("GET", address).status == 200)
        except urllib3.exceptions.HTTPError:
            return False


def analyze(place: Place, _store: Path) -> None:
    """A log of nvidia-smi, of two hours with one GPU at work and one idle."""
    lines = ["timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"]
    for second in range(0, 7200, 10):
        at = f"2026/11/20 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000"
        lines += [
            f"{at}, {gpu}, NVIDIA A100-SXM4-40GB, {97 - 97 * gpu} %, 9000 MiB, 40960 MiB, 300.00 W" for gpu in (0, 1)
        ]
    place.write("night.csv", "\n".join(lines) + "\n")
    place.names[".venv/bin/dutycycle"] = "dutycycle"


def store(place: Place, simulated: Path) -> None:
    """The store of a cluster, its configuration, and a mail server that the configuration names."""
    shutil.copy(simulated, place.directory / "store.sqlite3")
    database = f"sqlite:///{place.directory / 'store.sqlite3'}"
    mail = {
        "host": MailServer.host,
        "port": place.mail_port,
        "security": "none",
        "sender": "a@example.org",
        "to": ["b@example.org"],
    }
    receiver = {"name": "ops-mail", "email": mail}
    notify = {"receivers": [receiver], "routes": [{"receiver": "ops-mail"}], "weekly": [{"receiver": "ops-mail"}]}
    path = place.write("dutycycle.yaml", {"database": database, "notify": notify})
    place.environment["DUTYCYCLE_DATABASE"] = database
    place.names["/etc/dutycycle/config.yaml"] = str(path)
    for command in ("show", "ack", "snooze", "intend", "preview"):
        place.names[f" {command} 7"] = f" {command} {INCIDENT}"


def serve(place: Place, _store: Path) -> None:
    """Free ports, and room for a store."""
    exporter, alerter = free_port(), AlerterAddresses.free()
    place.names["/etc/dutycycle/config.yaml"] = str(place.write("dutycycle.yaml", {"source": {"targets": []}}))
    place.names["127.0.0.1:9836"] = f"127.0.0.1:{exporter}"
    place.names["/var/lib/dutycycle/"] = f"{place.directory}/"
    place.environment["DUTYCYCLE_WEB_LISTEN_ADDRESS"] = alerter.page
    place.environment["DUTYCYCLE_WEB_HEALTH_LISTEN_ADDRESS"] = alerter.health
    place.answers["dutycycle-exporter"] = f"http://127.0.0.1:{exporter}/metrics"
    place.answers["dutycycle"] = alerter.url("/-/ready")


def up(place: Place, simulated: Path) -> None:
    """As `serve`, from a checkout."""
    serve(place, simulated)
    place.names[".venv/bin/dutycycle"] = "dutycycle"


def upgrade(place: Place, _store: Path) -> None:
    """A database that is not there yet."""
    database = f"sqlite:///{place.directory / 'store.sqlite3'}"
    place.names["/etc/dutycycle/config.yaml"] = str(place.write("dutycycle.yaml", {"database": database}))


def backtest(place: Place, _store: Path) -> None:
    """The configuration that the page shows, and a recording."""
    (shown,) = (block for block in blocks() if block.path.name == "backtest.md" and block.language == "yaml")
    place.write("new.yaml", shown.text)
    shutil.copy(ROOT / "alerter/dutycycle_alerter/data/demo.csv.gz", place.directory / "week.csv.gz")


def render(place: Place, _store: Path) -> None:
    """Where Grafana would read."""
    place.names["/var/lib/grafana/"] = f"{place.directory}/"


def checkout(place: Place, _store: Path) -> None:
    """A directory from which our own tools are reached as from a checkout."""
    place.names[".venv/bin/python"] = sys.executable
    place.environment["PYTHONPATH"] = str(ROOT)


PLACES: dict[str, Callable[[Place, Path], None]] = {
    "analyze": analyze,
    "backtest": backtest,
    "checkout": checkout,
    "render": render,
    "serve": serve,
    "store": store,
    "up": up,
    "upgrade": upgrade,
}
"""What prepares each place; the path is of a simulated cluster's store, which is not to be changed."""
