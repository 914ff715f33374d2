"""What NVIDIA's container toolkit does to a container that asks for GPUs: the driver's library is mounted into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .container import BindMount

_LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
_STATE = "/dev/nvidiactl"
"""The double's block stands for the driver's devices."""


@dataclass(frozen=True)
class Driver:
    """A node's driver: the library, and the double's state."""

    nvml: Path
    state: Path


def toolkit(driver: Driver | None, environment: Mapping[str, str]) -> tuple[list[BindMount], dict[str, str]]:
    """Mounts and variables of a container that has these variables. Nothing where it asks for no GPU, or only for what
    needs no NVML.
    """
    visible = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    capabilities = set(environment.get("NVIDIA_DRIVER_CAPABILITIES", "utility,compute").split(","))
    if driver is None or visible in ("", "void", "none") or not capabilities & {"all", "utility"}:
        return [], {}
    mounts = [BindMount(driver.nvml, _LIBRARY, read_only=True), BindMount(driver.state, _STATE, read_only=False)]
    return mounts, {"NVML_DOUBLE_STATE": _STATE}
