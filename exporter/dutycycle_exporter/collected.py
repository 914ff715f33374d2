"""What the NVML child can be told to read, by name. Always read are the duty cycle, also of the video engines, the
processes on a GPU and the MIG instances: without them there is no telling whose a GPU is and whether it works.
"""

from __future__ import annotations

from collections.abc import Mapping

from dutycycle_exporter.errors import ExporterError

COLLECTED: Mapping[str, tuple[bool, str]] = {
    "memory": (True, "Memory in use and its activity."),
    "power": (True, "Power, its limit, and energy."),
    "temperature": (True, "Temperatures and fans."),
    "clocks": (True, "Clocks and the performance state."),
    "throttle": (True, "Time for which clocks were held down, by reason."),
    "ecc": (True, "ECC errors, the SRAM error threshold, remapped rows, retired pages."),
    "pcie": (True, "Bytes and replays on PCIe."),
    "nvlink": (True, "Bytes on NVLink."),
    "gpm": (True, "SM, tensor and memory activity, on Hopper and later."),
    "xid": (True, "XID errors as they happen."),
    "processes": (False, "A series for each process on a GPU."),
    "accounting": (False, "Lifetime utilization of processes that ended; accounting mode must be on."),
}
"""Whether each is read by default, and what it gives. What is not has a series for each life of a process."""

DEFAULT = frozenset(name for name, (default, _) in COLLECTED.items() if default)


def parse_collected(text: str) -> frozenset[str]:
    """Names with commas between them; empty for none of them. Raises ExporterError, which names the first unknown."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in COLLECTED:
            raise ExporterError(f"{name!r} cannot be collected; there are {', '.join(COLLECTED)}")
    return frozenset(names)
