"""nvitop-exporter from PyPI, in a virtual environment of its own, on the same NVML."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.exporter.daemon import eventually

PACKAGE = "nvitop-exporter"
INTERVAL = 1.0
"""Seconds between its readings: its default."""


def install(folder: Path) -> Path | None:
    """Its command; None where it cannot be had (no network)."""
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
        subprocess.run(pip, check=True)
    except subprocess.CalledProcessError as error:
        print(f"{PACKAGE} cannot be installed here: {error}", file=sys.stderr)
        return None
    return folder / "bin" / PACKAGE


def versions(command: Path) -> str:
    """Of the exporter and what it stands on."""
    frozen = subprocess.run(
        [str(command.parent / "python"), "-m", "pip", "freeze", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
        text=True,
    )
    return ", ".join(line.replace("==", " ") for line in frozen.stdout.split())


@contextmanager
def running(command: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """The exporter while it serves: its pid and its port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (folder / "nvitop.log").open("wb") as log:
        process = subprocess.Popen(
            [str(command), "--hostname=node1", f"--port={port}", f"--interval={INTERVAL:g}"],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: _serves(port, process), "nvitop-exporter serves")
        yield process.pid, port
    finally:
        process.kill()
        process.wait()


def _serves(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "nvitop-exporter ended"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            # A sample: the lines that describe the metric are there before its first reading.
            return b"\ngpu_utilization" in response.read()
    except (urllib.error.URLError, ConnectionError):
        return False
