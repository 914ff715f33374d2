"""How many NVIDIA GPUs the PCI bus shows: what NVML should show, too."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_NVIDIA = "0x10de"
# VGA and 3D controllers; a GPU's audio and USB functions have other classes.
_GPU_CLASSES = ("0x0300", "0x0302")


def expected_gpus(sysfs: Path, excluded: Collection[str] = ()) -> int | None:
    """Number of `gpu_addresses`; None where they cannot be read."""
    found = gpu_addresses(sysfs, excluded)
    return None if found is None else len(found)


def gpu_addresses(sysfs: Path, excluded: Collection[str] = ()) -> list[str] | None:
    """Addresses of the NVIDIA GPUs under `sysfs`/bus/pci/devices that this machine uses itself; None where that cannot
    be read.

    `excluded` are the addresses (0000:1b:00.0) of those that the driver is told to leave out: it has them all the same.
    """
    try:
        devices = list((sysfs / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return None
    return sorted(device.name for device in devices if device.name not in excluded and _is_gpu(device))


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
