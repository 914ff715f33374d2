"""What `nvidia-smi` says of every GPU right now: the figure that people know, to put ours beside."""

from __future__ import annotations

import csv
import io
import subprocess
from dataclasses import dataclass

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
