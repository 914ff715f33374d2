"""GPUs that the PCI bus shows, and that NVML should show."""

from __future__ import annotations

import pytest

from dutycycle_exporter.sysfs import expected_gpus
from tests.fakes.pci import AUDIO, BRIDGE, CONTROLLER_3D, VGA_CONTROLLER, PciTree

ADDRESS = "0000:1b:00.0"


@pytest.fixture
def tree(tmp_path):
    return PciTree(tmp_path / "sys")


@pytest.mark.parametrize(
    ("pci_class", "vendor", "expected"),
    [
        pytest.param(CONTROLLER_3D, 0x10DE, 1, id="data centre GPU"),
        pytest.param(VGA_CONTROLLER, 0x10DE, 1, id="consumer GPU"),
        pytest.param(AUDIO, 0x10DE, 0, id="its sound"),
        pytest.param(BRIDGE, 0x10DE, 0, id="NVSwitch"),
        pytest.param(VGA_CONTROLLER, 0x1A03, 0, id="another vendor's"),
    ],
)
def test_what_counts_as_a_gpu(tree, pci_class, vendor, expected):
    tree.add(ADDRESS, pci_class=pci_class, vendor=vendor)
    assert expected_gpus(tree.root) == expected


def test_gpus_are_counted(tree):
    for bus in range(16):
        tree.add(f"0000:{bus:02x}:00.0")
    assert expected_gpus(tree.root) == 16
    tree.remove("0000:03:00.0")
    assert expected_gpus(tree.root) == 15


def test_what_is_passed_through_to_a_virtual_machine_is_not_expected(tree, tmp_path):
    for address in (ADDRESS, "0000:2b:00.0", "0000:2b:00.4"):
        tree.add(address)
    devices = tree.root / "bus/pci/devices"
    for name in ("nvidia", "vfio-pci"):
        (tree.root / "bus/pci/drivers" / name).mkdir(parents=True)
    (devices / ADDRESS / "driver").symlink_to(tree.root / "bus/pci/drivers/vfio-pci")
    (devices / "0000:2b:00.0" / "driver").symlink_to(tree.root / "bus/pci/drivers/nvidia")
    (devices / "0000:2b:00.4" / "physfn").symlink_to(devices / "0000:2b:00.0")
    assert expected_gpus(tree.root) == 1


@pytest.mark.parametrize(
    ("driver", "expected"),
    [("nvidia", 1), ("nouveau", 0), ("vfio-pci", 0), ("nvgrace_gpu_vfio_pci", 0), pytest.param(None, 1, id="none")],
)
def test_only_what_nvidias_driver_has_or_none_is_expected(tree, driver, expected):
    tree.add(ADDRESS)
    if driver:
        # As the kernel writes it; the link's end need not be there to be read.
        (tree.root / "bus/pci/devices" / ADDRESS / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    assert expected_gpus(tree.root) == expected


def test_what_the_driver_is_told_to_leave_out_is_not_expected(tree):
    for address in (ADDRESS, "0000:2b:00.0"):
        tree.add(address)
    assert expected_gpus(tree.root, [ADDRESS]) == 1
    assert expected_gpus(tree.root, ["0000:3b:00.0"]) == 2, "it is not there any more"


def test_a_device_that_leaves_while_we_look_is_none(tree):
    tree.add(ADDRESS)
    tree.add("0000:2b:00.0")
    (tree.root / "bus/pci/devices" / ADDRESS / "class").unlink()
    assert expected_gpus(tree.root) == 1


def test_hostile_files_are_no_gpu(tree):
    tree.add(ADDRESS)
    (tree.root / "bus/pci/devices" / ADDRESS / "vendor").write_bytes(b"\xff\x00")
    assert expected_gpus(tree.root) == 0


def test_without_a_bus_nothing_is_known(tmp_path):
    assert expected_gpus(tmp_path) is None
