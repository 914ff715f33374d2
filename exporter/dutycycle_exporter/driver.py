"""Whether the kernel has the NVIDIA driver, told without NVML: asking NVML would load it."""

from __future__ import annotations

from pathlib import Path

_MOST_BYTES = 4096

Driver = tuple[int, bytes]
"""The inode of its version file and what is in it: differs after the driver was unloaded and loaded again."""


def loaded_driver(procfs: Path) -> Driver | None:
    """The driver that the kernel has now, None where it has none."""
    try:
        with (procfs / "driver" / "nvidia" / "version").open("rb") as file:
            return (procfs / "driver" / "nvidia" / "version").stat().st_ino, file.read(_MOST_BYTES)
    except OSError:
        return None
