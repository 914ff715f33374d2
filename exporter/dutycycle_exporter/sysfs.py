"""How many NVIDIA GPUs the PCI bus shows: what NVML should show, too."""

from __future__ import annotations

import re
from pathlib import Path

_NVIDIA = "0x10de"
# VGA and 3D controllers; a GPU's audio and USB functions have other classes.
_GPU_CLASSES = ("0x0300", "0x0302")
# Drivers before 460 say the latter.
_EXCLUDED = re.compile(rb"^(?:GPU Excluded|Blacklisted):\s*Yes\s*$", re.MULTILINE)
_MOST_BYTES = 65536


def expected_gpus(sysfs: Path, procfs: Path) -> int | None:
    """NVIDIA GPUs under `sysfs`/bus/pci/devices that this machine uses itself; None where that cannot be read.

    Those that are excluded by the driver's own setting (NVreg_ExcludedGpus), as `procfs`/driver/nvidia says, are not
    among them: its driver has them, and NVML does not show them.
    """
    try:
        devices = list((sysfs / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return None
    return sum(_is_gpu(device) and not _is_excluded(device.name, procfs) for device in devices)


def _is_gpu(device: Path) -> bool:
    try:
        if (device / "vendor").read_text().strip() != _NVIDIA:
            return False
        if not (device / "class").read_text().startswith(_GPU_CLASSES):
            return False
        # What is passed through to a virtual machine, whole or in part, NVML does not show here, nor what another
        # driver has. One without any is expected: a GPU in trouble may have lost its driver.
        driver = device / "driver"
        return not (device / "physfn").exists() and (not driver.is_symlink() or driver.readlink().name == "nvidia")
    except (OSError, UnicodeDecodeError):
        # It left the bus while we looked.
        return False


def _is_excluded(address: str, procfs: Path) -> bool:
    try:
        with (procfs / "driver" / "nvidia" / "gpus" / address / "information").open("rb") as file:
            return _EXCLUDED.search(file.read(_MOST_BYTES)) is not None
    except OSError:
        # There is no driver, or it does not say.
        return False
