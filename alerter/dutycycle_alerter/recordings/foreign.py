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
# Begins a line that nvidia-smi writes where it can read no GPU.
FAILED = re.compile(
    r"NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML|Unable to determine the device"
)

_MONITOR = r"#\s*(?:date[\s,]+)?(?:time[\s,]+)?gpu\b"
# Commands by what a line of their output begins with.
_COMMANDS = {
    "nvidia-smi pmon": re.compile(rf"\s*{_MONITOR}.*\bpid\b", re.IGNORECASE),
    "nvidia-smi dmon": re.compile(rf"\s*{_MONITOR}", re.IGNORECASE),
    "nvidia-smi -q": re.compile(r"=+NVSMI LOG=+|<nvidia_smi_log"),
    "nvidia-smi -L": re.compile(r"GPU \d+: .*\(UUID: "),
    "nvidia-smi": re.compile(r"\| NVIDIA-SMI "),
}
_TEGRA = re.compile(r"\bRAM \d+/\d+MB\b")


def is_apps_header(line: str) -> bool:
    """Whether a line is the header of --query-compute-apps."""
    fields = [_FIELD.fullmatch(cell.strip()) for cell in line.split(",")]
    names = {field[1] for field in fields if field is not None}
    return all(fields) and names <= _APPS and bool(names & _APPS_ALONE)


def named(lines: Sequence[str]) -> str:
    """Return what wrote these lines and what to use instead; empty where that is not known."""
    for line in lines:
        command = next((name for name, begins in _COMMANDS.items() if begins.match(line)), "")
        if not command and is_apps_header(line):
            command = "nvidia-smi --query-compute-apps"
        if command:
            return f"this is the output of `{command}`, which is not read: record with {RECORD}"
        if FAILED.match(line):
            return f"nvidia-smi failed and wrote no row: {line.strip()[:200]!r}"
        if _TEGRA.search(line):
            return (
                "this is `tegrastats` of a Jetson, which is not read: write the percentage of GR3D_FREQ / 100 as"
                " utilization_ratio of a CSV with the header t,node,gpu,utilization_ratio (t in seconds since 1970)"
            )
    return ""
