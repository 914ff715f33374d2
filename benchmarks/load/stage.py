"""A node, its exporter, a Prometheus and an alerter as real processes on one accelerated clock, and people who look."""

from __future__ import annotations

import os
import re
import shutil
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.e2e.site import Process
from tests.exporter.daemon import eventually
from tests.exporter.published import samples
from tests.fakes.kubelet import FakeKubelet
from tests.fakes.node import FakeNode
from tests.fakes.nvml.compiler import build
from tests.fakes.slurm_prolog import PrologWriter
from tests.fakes.smtp.server import MailServer
from tests.ports import AlerterAddresses, free_port
from tests.prometheus.server import PrometheusServer

ROOT = Path(__file__).resolve().parent.parent.parent
GPUS = 8
SCRAPE, SNAPSHOT, PASS = 15.0, 5.0, 60.0
"""Seconds of the full-length run: the defaults."""
KEPT = 4 * 3600.0
"""What Prometheus keeps, in blocks of an eighth of it."""
_PAGES = ("/", "/users", "/gpus", "/expectations", "/api/v1/incidents?limit=100", "/api/v1/fleet", "/api/v1/status")


class Stage:
    """All of it under `folder`, at `scale` times its speed. A context manager; time passes once it is entered."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self._scale = scale
        self._open = ExitStack()
        self._port = free_port()
        self._alerter_addresses = AlerterAddresses.free()
        self.node = FakeNode(folder / "node", build(folder / "nvml"), gpus=GPUS, time_scale=scale, capacity=1000)
        self.prolog = PrologWriter(folder / "prolog")
        self.kubelet = FakeKubelet(folder / "kubelet.sock")
        self.mail = MailServer()
        block = f"-block-duration={KEPT / 8 / scale:.0f}s"
        self.engine = PrometheusServer(
            folder / "prometheus",
            targets=[f"127.0.0.1:{self._port}"],
            interval=f"{1000 * SCRAPE / scale:.0f}ms",
            flags=[f"--storage.tsdb.{bound}{block}" for bound in ("min", "max")],
            retention=f"{KEPT / scale:.0f}s",
        )

    def __enter__(self) -> Self:
        with self._open as opening:
            for part in (self.node, self.kubelet, self.mail, self.engine):
                opening.enter_context(part)
            self.exporter = self._exporter().start()
            opening.callback(self.exporter.kill)
            self.alerter = self._alerter().start()
            opening.callback(self.alerter.kill)
            self.node.start()
            eventually(lambda: self.page("exporter"), "the exporter answers")
            eventually(lambda: self.page("alerter"), "the alerter answers")
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def pids(self) -> dict[str, int | None]:
        """Of now; the exporter's child may be another one later."""
        child = child_of(self.exporter.pid)
        known = {"exporter": self.exporter.pid, "its child": child, "alerter": self.alerter.pid}
        return {**known, "Prometheus": self.engine.pid}

    @property
    def blocks(self) -> dict[str, Path]:
        """Where processes count their interpreters' blocks."""
        return {name: self._folder / f"{name}.blocks" for name in ("exporter", "alerter")}

    def page(self, process: str, path: str = "/metrics") -> str:
        """Empty where it does not answer, or not with a page. Raises RuntimeError where the process has ended."""
        running = self.exporter if process == "exporter" else self.alerter
        if not running.alive:
            raise RuntimeError(f"{process} ended:\n{running.log()[-4000:]}")
        try:
            exporter = f"http://127.0.0.1:{self._port}{path}"
            url = exporter if process == "exporter" else self._alerter_addresses.url(path)
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def visit(self) -> None:
        """As people do: the lists, and the newest incident."""
        for path in _PAGES:
            self.page("alerter", path)
        newest = re.search(r'href="(?:http://[^/"]*)?(/incidents/\d+)"', self.page("alerter", "/"))
        if newest:
            self.page("alerter", newest[1])

    def snapshots(self) -> float:
        """How often the GPUs were read."""
        return self.node.driver.state.called()["nvmlDeviceGetMemoryInfo"] / GPUS

    def scrapes(self) -> float:
        """Of the exporter."""
        with urllib.request.urlopen(f"{self.engine.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        # Intervals are one less than scrapes.
        return 1 + sum(one.value for one in samples(text, "prometheus_target_interval_length_seconds_count"))

    def passes(self) -> float:
        return sum(one.value for one in samples(self.page("alerter"), "dutycycle_alerter_task_runs_total", task="pass"))

    def _exporter(self) -> Process:
        flags = [f"--path.{kind}={path}" for kind, path in self.node.paths.items()]
        flags += [f"--slurm.prolog-dir={self.prolog.directory}", f"--kubernetes.socket={self.kubelet.path}"]
        flags += [f"--web.listen-address=127.0.0.1:{self._port}", f"--node-name={self.node.name}"]
        flags += [f"--time-scale={self._scale:g}", "--cluster=lab"]
        flags += ["--collect.processes", "--collect.accounting", "--compat=dcgm"]
        return self._counted("exporter", "dutycycle-exporter", flags)

    def _alerter(self) -> Process:
        config = self._folder / "alerter.yaml"
        mail = {"host": self.mail.host, "port": self.mail.port, "security": "none", "sender": "d@example.org"}
        settings: dict[str, Any] = {
            "time_scale": self._scale,
            "database": f"sqlite:///{self._folder / 'store.sqlite3'}",
            "prometheus": {"url": self.engine.url},
            "web": {**self._alerter_addresses.settings, "public_url": self._alerter_addresses.url()},
            "notify": {
                "people": {"address": "{user}@example.org"},
                "owners": {"wasted_gpu_hours": 0},
                "receivers": [{"name": "mail", "email": {**mail, "to": ["gpus@example.org"]}}],
                "routes": [{"receiver": "mail"}, {"receiver": "mail", "audience": "owner"}],
            },
        }
        config.write_text(yaml.safe_dump(settings))
        return self._counted("alerter", "dutycycle", ["serve", "--config", str(config)])

    def _counted(self, name: str, program: str, arguments: list[str]) -> Process:
        """The program in an interpreter that counts its blocks."""
        start = [sys.executable, "-m", "benchmarks.load.counted", str(self.blocks[name]), program]
        # After the path that this one has: its packages may be those of another checkout than the installed ones.
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        return Process(name, [*start, *arguments], self._folder, {**self.node.environment, "PYTHONPATH": path})


def child_of(pid: int) -> int | None:
    """The process that it started, None while there is none."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        found = (task / "children").read_text().split()
        if found:
            return int(found[0])
    return None


def missing() -> list[str]:
    """Programs that a stage needs and that are not here."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return [name for name in ("gcc", "prometheus") if shutil.which(name, path=places) is None]
