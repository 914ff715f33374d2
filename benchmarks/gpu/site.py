"""Exporter, alerter and recorder over this machine's GPUs, all at one time scale, and nvidia-smi beside them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.gpu.nvidia_smi import Stream
from benchmarks.gpu.scrape import Scrape, scrape_of
from tests.exporter.daemon import Daemon, eventually
from tests.ports import AlerterAddresses

DUTYCYCLE = (sys.executable, "-c", "from dutycycle_alerter.cli import main; main()")


class Site:
    """A context manager that leaves no process behind. `directory` keeps logs, the store and the recording."""

    def __init__(self, directory: Path, *, time_scale: float, sample_interval: float, gpu: str) -> None:
        self._directory = directory
        self._time_scale = time_scale
        self._sample_interval = sample_interval
        self._gpu = gpu
        self._stack = ExitStack()
        self._stopping = threading.Event()
        self.scrapes: list[Scrape] = []
        self.recording = directory / "recording.csv.gz"
        self.smi = Stream()

    @property
    def prolog(self) -> Path:
        """Where the exporter looks for the files of Slurm's prolog."""
        return self._directory / "prolog"

    def __enter__(self) -> Self:
        scale, seconds = self._time_scale, self._sample_interval * self._time_scale
        self.exporter = self._stack.enter_context(
            Daemon(
                self._directory,
                {},
                f"--time-scale={scale:g}",
                f"--sample-interval={seconds:g}s",
                "--series-hold=30s",
                "--attribution.local",
            )
        )
        eventually(lambda: self.exporter.get("/-/ready")[0] == 200, "the exporter has read the GPUs")
        self._stack.enter_context(self.smi)
        url = f"http://127.0.0.1:{self.exporter.port}/metrics"
        self._config = self._directory / "alerter.yaml"
        self._config.write_text(
            json.dumps(
                {
                    "time_scale": scale,
                    "database": f"sqlite:///{self._directory / 'dutycycle.sqlite3'}",
                    "source": {"targets": [url]},
                    "web": AlerterAddresses.free().settings,
                }
            )
        )
        self._start("alerter", "serve", "--config", str(self._config))
        self._start("recorder", "record", "--from", url, "--interval", "1s", "--out", str(self.recording))
        thread = threading.Thread(target=self._scrape, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(self._stopping.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def scraped(self, until: float) -> list[Scrape]:
        """All scrapes so far, and the first one after `until`."""
        while not self.scrapes or self.scrapes[-1].t < until:
            time.sleep(0.1)
        return list(self.scrapes)

    def incidents(self) -> list[dict[str, Any]]:
        """All that the alerter has found so far, whatever became of it."""
        command = [
            *DUTYCYCLE,
            "incidents",
            "--state",
            "all",
            "--limit",
            "1000",
            "--json",
            "--config",
            str(self._config),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        found: list[dict[str, Any]] = json.loads(done.stdout)["incidents"]
        return found

    def cost(self) -> tuple[float, float]:
        """CPU seconds of the exporter's two processes since they were started, and their resident bytes."""
        ticks = pages = 0
        for pid in filter(None, (self.exporter.process.pid, self.exporter.child())):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            pages += int(fields[21])
        return ticks / os.sysconf("SC_CLK_TCK"), float(pages * os.sysconf("SC_PAGE_SIZE"))

    def _start(self, name: str, *arguments: str) -> None:
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*DUTYCYCLE, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(_end, process)

    def _scrape(self) -> None:
        while not self._stopping.wait(max(0.0, 0.5 - time.time() % 0.5)):
            page = self.exporter.get("/metrics")[1]
            self.scrapes.append(scrape_of(page, time.time(), self._gpu))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
