"""What `nvidia-smi` says of every GPU right now: the figure that people know, to put ours beside."""

from __future__ import annotations

import csv
import io
import subprocess
import threading
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

FIELDS = ("uuid", "name", "driver_version", "utilization.gpu", "memory.used", "memory.total", "power.draw")


@dataclass(frozen=True)
class Reading:
    """One GPU, in base units; None where nvidia-smi has no number."""

    uuid: str
    name: str
    driver: str
    utilization: float | None
    memory_used: float | None
    memory_total: float | None
    power: float | None


def query() -> dict[str, Reading]:
    """Every GPU by its UUID. Raises OSError or subprocess.SubprocessError where there is no driver."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return parse(answer.stdout)


def parse(answer: str) -> dict[str, Reading]:
    """Lines of `--format=csv,noheader,nounits`: percents, MiB and watts."""
    readings = {}
    for cells in csv.reader(io.StringIO(answer), skipinitialspace=True):
        if not cells:
            continue
        uuid, name, driver, utilization, used, total, power = cells
        readings[uuid] = Reading(
            uuid,
            name,
            driver,
            _number(utilization, 0.01),
            _number(used, 2**20),
            _number(total, 2**20),
            _number(power, 1.0),
        )
    return readings


@dataclass(frozen=True)
class Watched:
    """One GPU at one time, as a running nvidia-smi wrote it. `power` is of that instant, in watts."""

    t: float
    uuid: str
    utilization: float | None
    power: float | None


class Stream:
    """An nvidia-smi that writes a line each fifth of a second, as its users log it. A context manager."""

    _FIELDS = "timestamp,uuid,utilization.gpu,power.draw.instant"

    def __init__(self) -> None:
        self.found: list[Watched] = []

    def __enter__(self) -> Self:
        command = ["nvidia-smi", f"--query-gpu={self._FIELDS}", "--format=csv,noheader,nounits", "-lms", "200"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) == 4:
                self.found.append(Watched(_time(cells[0]), cells[1], _number(cells[2], 0.01), _number(cells[3], 1.0)))


def absent() -> str:
    """Why GPUs cannot be measured here; empty where they can."""
    try:
        return "" if query() else "nvidia-smi shows no GPU"
    except FileNotFoundError:
        return "there is no nvidia-smi: no NVIDIA driver on this machine"
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stdout", None) or str(error)).strip()
        return f"nvidia-smi fails: {said}"


def _number(cell: str, unit: float) -> float | None:
    """[N/A] and [Not Supported] are no numbers."""
    try:
        return float(cell) * unit
    except ValueError:
        return None


def _time(cell: str) -> float:
    """Unix seconds of nvidia-smi's local time."""
    return datetime.strptime(cell, "%Y/%m/%d %H:%M:%S.%f").timestamp()  # noqa: DTZ007 - it has no zone
