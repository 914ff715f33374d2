"""What the NVML child can be told to read, by name. The duty cycle, the processes on a GPU and the MIG instances are
always read: without them there is no telling whose a GPU is and whether it works.
"""

from __future__ import annotations

from dutycycle_exporter.errors import ExporterError

COLLECTED = (
    "memory",
    "power",
    "temperature",
    "clocks",
    "throttle",
    "ecc",
    "pcie",
    "nvlink",
    "gpm",
    "xid",
    "processes",
    "accounting",
)
"""`ecc` is all of a GPU's health, `temperature` with its fan, `clocks` with its performance state, `processes` what
each of them does."""

ON_DEMAND = frozenset({"processes", "accounting"})
"""What is read only when it is asked for: its series have a life of a process each."""

DEFAULT = frozenset(COLLECTED) - ON_DEMAND


def parse_collected(text: str) -> frozenset[str]:
    """Names with commas between them; empty for none of them. Raises ExporterError, which names the first unknown."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in COLLECTED:
            raise ExporterError(f"{name!r} cannot be collected; there are {', '.join(COLLECTED)}")
    return frozenset(names)
