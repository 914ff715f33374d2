"""Real Prometheus and VictoriaMetrics on loopback, with data of a test's own.

`make` puts their programs beside the virtual environment's interpreter; a test that needs one is skipped where there is
none, and fails in CI. A fixture of module scope that starts one serves a whole module.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.ports import free_port
from tests.required import lacking

PATIENCE = 120.0
"""Seconds until a server that does not come up is given up."""


def find(name: str) -> str | None:
    """The path of a program such as `prometheus`, `promtool` or `victoria-metrics`; None where there is none."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def program(name: str) -> str:
    """The same. Ends the test where there is none."""
    return find(name) or lacking(name)


class Server(ABC):
    """A process that listens at `url` once it is ready. A context manager; what it says is in `log`."""

    url: str

    def __init__(self, directory: Path, name: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to ours."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._name = name
        self._environment = {**os.environ, **(environment or {})}
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """All that it said since the first start."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """The process's id while it runs."""
        assert self._process is not None
        return self._process.pid

    @abstractmethod
    def start(self) -> None:
        """Again after `stop`, with the data and at the address that it had."""

    def stop(self) -> None:
        """Ended without ado; from then on connections are refused."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """kill -9; as after `stop`."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def ended(self) -> bool:
        """Whether it does not run."""
        return self._process is None or self._process.poll() is not None

    def freeze(self) -> None:
        """From now on it accepts connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Answers again, also what it was asked meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, *arguments: str) -> None:
        path = program(self._name)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [path, *arguments], cwd=self.directory, env=self._environment, stdout=log, stderr=log
            )

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self._process is not None
            assert self._process.poll() is None, f"{self._name} ended:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"{self._name} is not {what}:\n{self.log[-4000:]}"
            time.sleep(0.02)


class PrometheusServer(Server):
    """Prometheus in `directory`, with its own storage there.

    `targets` are "HOST:PORT" whose /metrics is scraped each `interval` (which is the rules' too, as a Prometheus
    duration), as job "dutycycle" with `scrape` (lines of YAML) added to the job's configuration and `more` at the
    top level; `rules` are files.
    `openmetrics` is text or a file to begin with (`# EOF` at its end): real samples are only accepted later than those.
    It is read once for every `block` of its time, which cannot be much shorter for many samples.
    `web_config` is a file for --web.config.file; with TLS in it give `scheme="https"`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        targets: Iterable[str] = (),
        rules: Sequence[Path] = (),
        interval: str = "1s",
        scrape: str = "honor_labels: true",
        more: str = "",
        openmetrics: str | Path | None = None,
        block: str = "24h",
        web_config: Path | None = None,
        scheme: str = "http",
        flags: Sequence[str] = (),
        retention: str = "100y",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, "prometheus", environment)
        self._rules = tuple(rules)
        self._interval = interval
        self._scrape = scrape
        self._more = more
        self._scheme = scheme
        self._retention = retention
        self._flags = (*flags, *([] if web_config is None else [f"--web.config.file={web_config}"]))
        self._config = directory / "prometheus.yml"
        self.data = directory / "data"
        self._port = 0
        self.configure(targets)
        if openmetrics is not None:
            self._backfill(openmetrics, block)

    def configure(self, targets: Iterable[str]) -> None:
        """Scrape these from now on; a Prometheus that runs reads it at once."""
        lines = [
            "global:",
            f"  scrape_interval: {self._interval}",
            f"  scrape_timeout: {self._interval}",
            f"  evaluation_interval: {self._interval}",
            f"rule_files: [{', '.join(f'{path.resolve()}' for path in self._rules)}]",
            self._more,
            "scrape_configs:",
            "  - job_name: dutycycle",
            *(f"    {line}" for line in self._scrape.splitlines()),
            f"    static_configs: [{{targets: [{', '.join(repr(target) for target in targets)}]}}]",
            "",
        ]
        self._config.write_text("\n".join(lines))
        if self._process is not None:
            before = self.log.count("Completed loading of configuration file")
            self._process.send_signal(signal.SIGHUP)
            self._until(lambda: self.log.count("Completed loading of configuration file") > before, "reconfigured")

    def start(self) -> None:
        said = len(self.log)
        self._launch(
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.data}",
            f"--storage.tsdb.retention.time={self._retention}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--scrape.discovery-reload-interval=100ms",  # else up to 5 s more beside the 5 s of discovery
            *self._flags,
        )
        self._until(lambda: "ready to receive web requests" in self.log[said:], "ready")
        # With port 0 the kernel chose one; a later start takes the same.
        listening = re.compile(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')
        self._until(lambda: listening.search(self.log, said), "listening")
        self._port = int(listening.findall(self.log)[-1])
        self.url = f"{self._scheme}://127.0.0.1:{self._port}"

    def _backfill(self, openmetrics: str | Path, block: str) -> None:
        path = openmetrics
        if isinstance(path, str):
            path = self.directory / "backfill.om"
            path.write_text(str(openmetrics))
        command = ["tsdb", "create-blocks-from", "openmetrics", f"--max-block-duration={block}", "-q", path, self.data]
        done = subprocess.run(
            [program("promtool"), *map(str, command)], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr


class VictoriaMetricsServer(Server):
    """A single-node VictoriaMetrics in `directory`, without a cache of answers and without its delay for late samples.

    `openmetrics` is text to begin with, as for Prometheus; of every sample the timestamp (in seconds) must be there.
    """

    def __init__(self, directory: Path, *, openmetrics: str | Path | None = None, flags: Sequence[str] = ()) -> None:
        super().__init__(directory, "victoria-metrics")
        self._openmetrics = openmetrics
        self._flags = tuple(flags)
        self._port = 0

    def start(self) -> None:
        port = self._port or free_port()
        self._launch(
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={self.directory / 'data'}",
            "-retentionPeriod=100y",
            "-search.latencyOffset=0s",
            "-search.disableCache",
            "-memory.allowedBytes=256MiB",
            *self._flags,
        )
        self.url = f"http://127.0.0.1:{port}"
        self._until(lambda: _answers(f"{self.url}/health"), "ready")
        if self._port == 0 and self._openmetrics is not None:
            self._import(self._openmetrics)
        self._port = port

    def _import(self, openmetrics: str | Path) -> None:
        text = openmetrics.read_text() if isinstance(openmetrics, Path) else openmetrics
        samples = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        body = "".join(f"{series} {round(float(t) * 1000)}\n" for series, _, t in samples)
        _post(f"{self.url}/api/v1/import/prometheus", body.encode())
        _post(f"{self.url}/internal/force_flush", b"")  # samples are searchable a second later otherwise


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=60) as response:
        assert response.status in {200, 204}, response.status
