"""How the fleet's nodes are measured; every duration in seconds of the full-length run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fakes.nvml import SAMPLE_PERIOD


@dataclass(frozen=True)
class NodeSettings:
    """The same on all nodes."""

    time_scale: float = 60.0
    interval: float = 30.0
    """Between two scrapes; the exporter's --series-hold is twice this."""
    read_interval: float = 10.0
    """Between two readings of NVML."""
    sample_period: float = SAMPLE_PERIOD
    """Of NVML's own samples."""
    full: float = 1.0
    """The highest utilization that its samples say; the double's always say up to 1."""
    cluster: str = ""
