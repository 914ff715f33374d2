"""NVML that is missing, late, lost, or does not fit, told by real processes: what is said, and that it comes back."""

from __future__ import annotations

import os
import signal

import pynvml
import pytest

from dutycycle_exporter.model import Ownership, Snapshot
from dutycycle_exporter.service import Service
from tests.exporter.daemon import Daemon, alive, eventually
from tests.fakes.clock import FakeClock
from tests.fakes.nvml import Level, Load
from tests.fakes.pci import PciTree

FLAGS = ("--sample-interval=250ms", "--series-hold=250ms", "--node-name=n1")


@pytest.fixture
def driver(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.run("work", {0: Load(Level(0.7))})
    return driver.start()


def restarts(daemon, reason):
    return daemon.total("dutycycle_exporter_child_restarts_total", reason=reason)


def missing_library(driver, tmp_path):
    """A driver is installed on a node whose exporter runs already."""
    directory = tmp_path / "lib"
    directory.mkdir()

    def arrive():
        for library in driver.libraries.directory.iterdir():
            (directory / library.name).symlink_to(library)

    return {"LD_LIBRARY_PATH": str(directory)}, arrive


def broken_library(driver, tmp_path):
    """As while it is being copied."""
    environment, arrive = missing_library(driver, tmp_path)
    half = tmp_path / "lib" / "libnvidia-ml.so.1"
    half.write_bytes(b"\x7fELF")

    def complete():
        half.unlink()
        arrive()

    return environment, complete


def failing_init(code):
    def prepare(driver, _):
        driver.fail("nvmlInit", code)
        return {}, lambda: driver.heal("nvmlInit")

    return prepare


@pytest.mark.parametrize(
    ("prepare", "reason", "said"),
    [
        pytest.param(missing_library, "library_not_found", "libnvidia-ml.so.1", id="no library yet"),
        pytest.param(broken_library, "library_not_loadable", "file too short", id="half a library"),
        pytest.param(
            failing_init(pynvml.NVML_ERROR_DRIVER_NOT_LOADED), "driver_not_loaded", "Not Loaded", id="no driver yet"
        ),
        pytest.param(
            failing_init(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH),
            "lib_rm_version_mismatch",
            "the driver was upgraded",
            id="another version",
        ),
        pytest.param(
            failing_init(pynvml.NVML_ERROR_NO_PERMISSION), "no_permission", "Insufficient Permissions", id="forbidden"
        ),
    ],
)
def test_what_is_missing_at_the_start_is_named_and_read_when_it_is_there(
    driver, tmp_path, no_nvml, prepare, reason, said
):
    environment, arrive = prepare(driver, tmp_path)
    with Daemon(tmp_path, driver.environment | environment, *FLAGS) as daemon:
        eventually(lambda: restarts(daemon, reason) >= 1)
        status, text = daemon.get("/-/ready")
        assert status == 503
        assert said in text
        assert daemon.get("/-/healthy")[0] == 200
        assert daemon.values("gpu_visible") == []
        arrive()
        eventually(lambda: daemon.values("gpu_visible") == [1])
        assert daemon.get("/-/ready")[0] == 200
        assert "NVML is read again" in daemon.log


def test_a_library_that_does_not_fit_for_long_makes_it_unhealthy_until_it_fits(driver, tmp_path):
    """Two minutes, here a second: another process does not help then, another mount does."""
    flags = ("--time-scale=120", "--sample-interval=30s", "--series-hold=30s")
    with Daemon(tmp_path, driver.environment, *flags) as daemon:
        eventually(lambda: daemon.values("gpu_visible") == [1])
        for function in ("nvmlDeviceGetCount", "nvmlInit"):
            driver.fail(function, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        eventually(lambda: daemon.get("/-/healthy")[0] == 503)
        assert "the driver was upgraded" in daemon.get("/-/healthy")[1]
        assert daemon.get("/metrics")[0] == 200
        for function in ("nvmlDeviceGetCount", "nvmlInit"):
            driver.heal(function)
        eventually(lambda: daemon.get("/-/healthy")[0] == 200)
        eventually(lambda: daemon.values("gpu_visible") == [1])


def test_a_child_that_is_killed_again_and_again_costs_no_counter_and_leaves_nobody_behind(driver, tmp_path):
    killed, observed = [], 0.0
    with Daemon(tmp_path, driver.environment, *FLAGS) as daemon:
        for _ in range(4):
            eventually(lambda observed=observed: daemon.total("gpu_observed_seconds_total") > observed)
            observed = daemon.total("gpu_observed_seconds_total")
            child = eventually(daemon.child)
            os.kill(child, signal.SIGKILL)
            killed.append(child)
            eventually(lambda: restarts(daemon, "exit") == len(killed))
        eventually(lambda: daemon.total("gpu_observed_seconds_total") > observed)
        assert len(set(killed)) == 4
        assert not any(alive(pid) for pid in killed)
        assert daemon.get("/-/healthy")[0] == daemon.get("/-/ready")[0] == 200


def test_it_is_not_ready_while_nvml_shows_no_gpu_where_the_bus_has_some(nvml_driver, tmp_path):
    driver = nvml_driver()
    driver.add_gpu()
    driver.lose(0)
    pci = PciTree(tmp_path / "sys")
    pci.add("0000:1b:00.0")
    with Daemon(tmp_path, driver.start().environment, *FLAGS, f"--path.sysfs={pci.root}") as daemon:
        eventually(lambda: daemon.values("gpu_visible") == [0])
        assert daemon.get("/-/ready") == (503, "NVML shows no GPU, and the PCI bus has 1\n")
        assert daemon.get("/metrics")[0] == 200
        driver.restore(0)
        eventually(lambda: daemon.get("/-/ready")[0] == 200)


class Nobody:
    """No GPU is anybody's."""

    def resolve(self, gpus, now):
        return Ownership()


@pytest.mark.parametrize(
    ("devices", "visible", "unready"),
    [(0, 0, ""), (2, 2, ""), (2, 1, ""), (2, 0, "NVML shows no GPU, and the PCI bus has 2")],
)
def test_readiness_by_what_is_expected_and_what_is_seen(tmp_path, devices, visible, unready):
    """A machine without GPUs has nothing to wait for; one lost of several is for a metric to tell."""
    pci = PciTree(tmp_path)
    for number in range(devices):
        pci.add(f"0000:0{number}:00.0")
    clock = FakeClock()
    service = Service(Nobody(), interval=5, hold=30, sysfs=tmp_path, clock=clock)
    service.on_snapshot(Snapshot(clock.now, (), visible=visible))
    assert service.unready() == unready


def test_gpus_that_the_driver_leaves_out_are_not_expected_also_while_it_does_not_tell(tmp_path):
    pci, clock = PciTree(tmp_path), FakeClock()
    for number in range(3):
        pci.add(f"0000:0{number}:00.0")
    service = Service(Nobody(), interval=5, hold=30, sysfs=tmp_path, clock=clock)
    for excluded, expected in ((None, 3), (("0000:01:00.0",), 2), (None, 2), ((), 3)):
        clock.advance(5)
        service.on_snapshot(Snapshot(clock.now, (), visible=2, excluded=excluded))
        assert service.state().expected == expected


def test_while_nvml_is_released_it_is_not_ready_and_healthy(tmp_path):
    clock = FakeClock()
    service = Service(Nobody(), interval=5, hold=30, sysfs=tmp_path, clock=clock)
    service.on_snapshot(Snapshot(clock.now, (), visible=0))
    service.on_loss("released", "NVML is released")
    clock.advance(10_000)
    assert service.unready() == "NVML is released"
    assert service.unhealthy() == ""
    service.on_snapshot(Snapshot(clock.now, (), visible=0))
    assert service.unready() == ""
