"""A sysfs tree of PCI devices: what the machine should have, whatever its driver says."""

from __future__ import annotations

from pathlib import Path

NVIDIA = 0x10DE
VGA_CONTROLLER = 0x030000
CONTROLLER_3D = 0x030200
BRIDGE = 0x068000
"""NVSwitches are of this class, and of NVIDIA."""

AUDIO = 0x040300
"""The second function of a consumer GPU."""


class PciTree:
    """Builds bus/pci/devices under `root` (to be given as a whole /sys)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bus = root / "bus/pci/devices"
        self._bus.mkdir(parents=True)

    def add(self, address: str, *, pci_class: int = CONTROLLER_3D, vendor: int = NVIDIA, device: int = 0x2330) -> None:
        """A device by its address (0000:1b:00.0)."""
        domain, bus, _ = address.split(":")
        target = self.root / f"devices/pci{domain}:{bus}" / address
        target.mkdir(parents=True)
        for name, value, digits in (("class", pci_class, 6), ("vendor", vendor, 4), ("device", device, 4)):
            (target / name).write_text(f"0x{value:0{digits}x}\n")
        # As in the real tree, the bus only links to where a device is attached.
        (self._bus / address).symlink_to(Path("../../..") / target.relative_to(self.root))

    def remove(self, address: str) -> None:
        """The device is gone from the bus, as after a hot unplug (not: off the bus with its entry left)."""
        (self._bus / address).unlink()
