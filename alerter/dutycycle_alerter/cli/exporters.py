"""The exporter as a process beside the alerter: found, started, watched, ended. The only code here that knows its
command.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3
from urllib3.exceptions import HTTPError

from dutycycle_alerter.cli.stopping import Stop
from dutycycle_alerter.errors import AlerterError

_START_WITHIN = 60.0
_STOP_WITHIN = 10.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_STEADY_AFTER = 120.0
"""Seconds of life after which a death is a new one, and not the next of a series."""
_PROBE_WITHIN = 60.0
_GPU_LOST = 4
"""How `dutycycle-exporter --probe` exits where NVML works and does not show every GPU."""
_NO_DRIVER = 3
"""How `dutycycle-exporter --probe` exits where there is no NVIDIA driver."""


def exporter_command(*arguments: str) -> list[str]:
    """The command line of the exporter that is installed with this alerter. Raises AlerterError where there is none."""
    beside = Path(sys.executable).with_name("dutycycle-exporter")
    if not beside.exists():
        raise AlerterError(
            f"{beside} is missing: install the exporter beside the alerter (dutycycle[exporter,alerter])"
        )
    return [str(beside), *arguments]


@dataclass(frozen=True, slots=True)
class Probe:
    """What keeps GPUs of this machine from being watched; both are empty where nothing does."""

    no_driver: str = ""
    """Why there is no NVIDIA driver."""
    gpu_lost: str = ""
    """Which GPUs of the PCI bus the driver does not show."""


def probe() -> Probe:
    """Return what `dutycycle-exporter --probe` finds. Raises AlerterError where a driver does not work: a person has to
    mend that, and a demonstration would hide it.
    """
    try:
        done = subprocess.run(
            exporter_command("--probe"), capture_output=True, text=True, timeout=_PROBE_WITHIN, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AlerterError(f"the NVIDIA driver did not answer within {_PROBE_WITHIN:g} s; see dmesg") from error
    if done.returncode == 0:
        return Probe()
    lines = (done.stderr or done.stdout).strip().splitlines()
    reason = lines[-1].removeprefix("dutycycle-exporter: ") if lines else f"the probe ended with {done.returncode}"
    if done.returncode == _GPU_LOST:
        return Probe(gpu_lost=reason)
    if done.returncode != _NO_DRIVER:
        raise AlerterError(f"{reason} (to see a demonstration all the same: dutycycle up --demo)")
    return Probe(no_driver=reason)


class Exporter:
    """One exporter process on the loopback interface, started again when it dies. Several may start at the same time:
    wait for each once all have been entered.
    """

    def __init__(self, command: list[str], port: int) -> None:
        """`port` is one of `free_ports`."""
        self._port = port
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = _FIRST_PAUSE
        self._started_at = 0.0
        self._again_at = 0.0

    @property
    def url(self) -> str:
        """Where it is scraped."""
        return f"http://127.0.0.1:{self._port}/metrics"

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def wait(self, stop: Stop) -> bool:
        """Until the one that was started answers; False where it is time to stop before. Raises AlerterError where it
        ends or does not answer.
        """
        process = self._process
        deadline = self._started_at + _START_WITHIN
        with urllib3.PoolManager(retries=False, timeout=2.0) as pool:
            while time.monotonic() < deadline:
                if process is not None and process.poll() is not None:
                    raise AlerterError(f"the exporter ended at once with {process.returncode}; its message is above")
                try:
                    pool.request("GET", f"http://127.0.0.1:{self._port}/-/healthy")
                except (HTTPError, OSError):
                    if stop.wait(0.05):
                        return False
                else:
                    return True
        raise AlerterError(f"the exporter did not answer on port {self._port} within {_START_WITHIN:g} s")

    def keep_alive(self) -> str | None:
        """Start it again where it has died, after a pause that grows; what happened, for people, or None."""
        process = self._process
        now = time.monotonic()
        if process is None or process.poll() is None:
            return None
        if self._again_at == 0.0:
            if now - self._started_at > _STEADY_AFTER:
                self._pause = _FIRST_PAUSE
            self._again_at = now + self._pause
            return f"The exporter ended with {process.returncode}; starting it again in {self._pause:g} s."
        if now >= self._again_at:
            self._again_at, self._pause = 0.0, min(2 * self._pause, _LONGEST_PAUSE)
            try:
                self._start()
            except OSError as error:
                return f"The exporter cannot be started: {error}"
        return None

    def replace(self, command: list[str]) -> None:
        """End it and start another command on the same port."""
        self._end()
        self._command = command
        self._start()

    def _start(self) -> None:
        listen = f"--web.listen-address=127.0.0.1:{self._port}"
        self._process = subprocess.Popen([*self._command, listen, "--die-with-parent"], stdin=subprocess.DEVNULL)
        self._started_at = time.monotonic()

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(number: int, preferred: int = 0) -> list[int]:
    """So many ports of the loopback interface on which nothing listens, all different; `preferred` is among them where
    it is free. Raises AlerterError.
    """
    with ExitStack() as held:
        servers: list[socket.socket] = []
        for port in (preferred, *[0] * number):
            if len(servers) < number:
                with suppress(OSError):
                    servers.append(held.enter_context(socket.create_server(("127.0.0.1", port))))
        if len(servers) < number:
            raise AlerterError("no free port on 127.0.0.1 for the exporter")
        return [int(server.getsockname()[1]) for server in servers]
