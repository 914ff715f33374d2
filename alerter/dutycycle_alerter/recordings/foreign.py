"""Names output that is no log of `nvidia-smi --query-gpu`, with what to record instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

RECORD = "nvidia-smi --query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,power.draw --format=csv -l 5"

_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]*)(?: \[[^\]]*\])?")
_APPS = {
    "timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid", "process_name", "name",
    "used_gpu_memory", "used_memory", "gpu_instance_id", "compute_instance_id",
}  # fmt: skip
_APPS_ALONE = {"pid", "process_name", "used_gpu_memory", "used_memory"}
_MONITOR = re.compile(r"#\s*(?:date\s+)?(?:time\s+)?gpu\s(.*)", re.IGNORECASE)
_TEGRA = re.compile(r"\bRAM \d+/\d+MB\b")


def is_apps_header(line: str) -> bool:
    """Whether a line is the header of --query-compute-apps."""
    fields = [_FIELD.fullmatch(cell.strip()) for cell in line.split(",")]
    names = {field[1] for field in fields if field is not None}
    return all(fields) and names <= _APPS and bool(names & _APPS_ALONE)


def named(lines: Sequence[str]) -> str:
    """Return what wrote these lines and what to use instead; empty where that is not known."""
    for line in lines:
        if monitor := _MONITOR.match(line.strip()):
            command = "pmon" if "pid" in monitor[1].split() else "dmon"
            return f"this is `nvidia-smi {command}`, which is not read: record with {RECORD}"
        if line.startswith("| NVIDIA-SMI"):
            return f"this is the table of `nvidia-smi`, which is not read: record with {RECORD}"
        if "NVSMI LOG" in line:
            return f"this is `nvidia-smi -q`, which is not read: record with {RECORD}"
        if is_apps_header(line):
            return f"this is `nvidia-smi --query-compute-apps`, which has no utilization: record with {RECORD}"
        if _TEGRA.search(line):
            return (
                "this is `tegrastats` of a Jetson, which is not read: write the percentage of GR3D_FREQ / 100 as"
                " utilization_ratio of a CSV with the header t,node,gpu,utilization_ratio (t in seconds since 1970)"
            )
    return ""
