"""Every fault that there is."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Fault
from .expired import CERTIFICATES
from .hardware import HARDWARE
from .machine_clocks import CLOCKS
from .network import LINKS
from .processes import PROCESSES
from .services import SERVICES
from .slurm import SLURM
from .storage import DISKS

FAULTS: Mapping[str, type[Fault]] = {
    fault.name: fault for fault in (*PROCESSES, *SERVICES, *SLURM, *DISKS, *CLOCKS, *LINKS, *CERTIFICATES, *HARDWARE)
}

__all__ = ["FAULTS", "Fault"]
