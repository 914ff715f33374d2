"""What the child reads is told by name; a name that it does not know is an error and no silence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dutycycle_exporter.collected import COLLECTED, DEFAULT, parse_collected
from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.model import Snapshot
from dutycycle_exporter.nvml.fields import FIELDS
from dutycycle_exporter.pipe import receive
from tests.fakes.nvml import Level, Load


def test_all_but_what_has_a_series_for_each_process_is_read_by_default():
    assert set(COLLECTED) - DEFAULT == {"processes", "accounting"}


@pytest.mark.parametrize(
    ("text", "names"),
    [("", set()), ("gpm", {"gpm"}), ("gpm,xid,gpm,", {"gpm", "xid"}), (",".join(COLLECTED), COLLECTED)],
)
def test_names_have_commas_between_them(text, names):
    assert parse_collected(text) == set(names)


@pytest.mark.parametrize("text", ["gmp", "gpm, xid", "GPM", "memory,host", "\x00"])
def test_a_name_that_is_not_known_is_an_error_that_says_which_there_are(text):
    with pytest.raises(ExporterError, match="there are memory, power"):
        parse_collected(text)


def child(driver, *flags, **options):
    """The child's command with a pipe of which it is told: (process, the end to read)."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "dutycycle_exporter.child", f"--fd={write_end}", "--interval=0.2"]
    process = subprocess.Popen(
        [*command, "--time-scale=1", *flags],
        pass_fds=[write_end],
        env={**os.environ, **driver.environment},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    os.close(write_end)
    return process, read_end


@pytest.fixture
def driver(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    return driver.start()


@pytest.mark.parametrize(
    ("flags", "calls"),
    [
        ((), {"nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlDeviceGetMemoryInfo"}),
        (("--collect=memory",), {"nvmlDeviceGetMemoryInfo"}),
        (("--collect=",), set()),
    ],
)
def test_the_child_reads_what_it_is_told(driver, flags, calls):
    process, pipe = child(driver, *flags)
    with process:
        while not isinstance(receive(pipe, within=60), Snapshot):
            pass
        asked = {"nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlDeviceGetMemoryInfo"} & set(driver.state.called())
        process.kill()
    os.close(pipe)
    assert asked == calls


def test_the_child_ends_at_once_when_it_is_told_what_it_does_not_know(driver):
    process, pipe = child(driver, "--collect=memory,banana")
    with process:
        _, error = process.communicate(timeout=60)
    os.close(pipe)
    assert process.returncode == 2
    assert "'banana' cannot be collected" in error


WITHOUT = {
    "memory": ("memory_used", "memory_total", "memory_reserved"),
    "power": ("power", "power_limit", "energy"),
    "temperature": ("temperatures", "fan"),
    "clocks": ("clocks", "performance_state"),
    "throttle": ("throttle",),
    "ecc": (
        "ecc_errors",
        "remapped_rows",
        "remap_pending",
        "remap_failed",
        "retired_pages",
        "recovery_action",
        "sram_threshold_exceeded",
    ),
    "pcie": ("pcie_replays", "pcie_bytes"),
    "nvlink": ("nvlink_bytes",),
    # Without GPM nobody knows how often the counter of PCIe bytes wrapped.
    "gpm": ("activity", "cycles", "pcie_bytes"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_switched_off_is_not_asked_for_and_the_rest_is_as_before(make_rack, name):
    rack = make_rack(collect=DEFAULT - {name})
    rack.driver.run("work", {0: Load(Level(0.5))})
    gpu = rack.turn(3).gpu
    for field in WITHOUT[name]:
        assert getattr(gpu, field) in (None, ()), field
    others = {field for other in WITHOUT for field in WITHOUT[other]} - {
        *WITHOUT[name],
        *("fan", "retired_pages", "cycles"),
    }
    assert {field for field in others if getattr(gpu, field) in (None, ())} == set()
    assert gpu.utilization == 0.5
    assert gpu.spans


def test_with_all_switched_off_only_the_duty_cycle_the_processes_and_who_it_is_are_asked_for(make_rack):
    rack = make_rack(collect=frozenset()).turn(3)
    assert set(rack.driver.state.called()) == {
        "nvmlInit",
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetNVMLVersion",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetEncoderUtilization",
        "nvmlDeviceGetDecoderUtilization",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlGetExcludedDeviceCount",
    }


def test_the_names_are_those_of_the_fields():
    assert {field.collected for field in FIELDS} <= set(COLLECTED)
