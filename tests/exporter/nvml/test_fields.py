"""Field values in base units, by the driver and the model that have them, in one call per GPU and turn."""

from __future__ import annotations

import math

import pynvml
import pytest

from dutycycle_exporter.nvml.fields import FIELDS
from tests.fakes.nvml import RTX_3080_TI, V100

BINDINGS = {
    # nvidia-ml-py's version and what its NVML_FI_* constants are: software thermal, hardware thermal, power brake;
    # PCIe tx and rx; NVLink tx and rx; recovery action.
    (535, 161): (None, None, None, None),
    (550, 89): (None, None, None, None),
    (555, 43): (None, (197, 198), None, None),
    (560, 30): (None, (197, 198), (202, 204), None),
    (570, 86): (None, (197, 198), (202, 204), 230),
    (570, 172): (None, (197, 198), (202, 204), 230),
    (575, 51): ((251, 252, 253), (197, 198), (202, 204), 230),
    (580, 65): ((251, 252, 253), (197, 198), (202, 204), 230),
    (580, 82): ((269, 270, 271), (197, 198), (202, 204), 230),
    (580, 126): ((269, 270, 271), (197, 198), (202, 204), 230),
    (590, 44): ((269, 270, 271), (197, 198), (202, 204), 230),
    (590, 48): ((269, 270, 271), (197, 198), (202, 204), 230),
    (595, 45): ((269, 270, 271), (197, 198), (202, 204), 230),
    (610, 43): ((269, 270, 271), (197, 198), (202, 204), 230),
    (615, 71): ((269, 270, 271), (197, 198), (202, 204), 230),
}
"""All other fields that are read have one number from 535 to 615."""


@pytest.mark.parametrize("driver", BINDINGS)
def test_fields_are_read_by_the_numbers_of_the_driver_s_binding(driver):
    throttle, pcie, nvlink, recovery = BINDINGS[driver]
    read = {}
    for field in FIELDS:
        if field.since <= driver < field.until:
            read.setdefault(field.name, set()).add(field.number)

    def numbers(name, *labels):
        return [read.get((name, label), set()) for label in labels]

    def expected(wanted, count):
        return [{number} for number in wanted] if wanted else [set()] * count

    assert numbers("throttle", "sw_thermal", "hw_thermal", "power_brake") == expected(throttle, 3)
    assert numbers("pcie_bytes", "tx", "rx") == expected(pcie, 2)
    if driver >= (565, 0):  # a driver of the 560 series is not relied on
        assert numbers("nvlink_bytes", "tx", "rx") == [{138, nvlink[0]}, {139, nvlink[1]}]
    assert numbers("recovery_action", "") == expected((recovery,) if recovery else None, 1)


def test_all_fields_of_a_gpu_are_read_in_one_call(make_rack):
    rack = make_rack(gpus=3).turn(2)
    before = rack.driver.state.calls("nvmlDeviceGetFieldValues")
    rack.turn()
    assert rack.driver.state.calls("nvmlDeviceGetFieldValues") == before + 3


def test_throttle_counters_become_seconds_by_reason(make_rack):
    rack = make_rack()
    shares = {"power": 0.5, "thermal": 0.1, "sync_boost": 0.2, "board_limit": 0.3, "reliability": 0.4}
    newer = {"sw_thermal": 0.6, "hw_thermal": 0.7, "hw_power_brake": 0.8}
    rack.turn()
    before = dict(rack.gpu.throttle)
    for reason, share in {**shares, **newer, "low_utilization": 0.9}.items():
        rack.driver.throttle(0, reason, share)
    after = dict(rack.turn(6).gpu.throttle)
    labels = {"power": "power_cap", "hw_power_brake": "power_brake"}
    assert {reason: after[reason] - before[reason] for reason in after} == {
        labels.get(reason, reason): pytest.approx(30 * share) for reason, share in {**shares, **newer}.items()
    }


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("535.104.12", False),
        ("570.86", False),
        ("575.57.08", True),
        ("580.65.06", True),
        ("580.82.07", True),
        ("595.45", True),
    ],
)
def test_thermal_throttling_is_counted_whatever_numbers_the_driver_has(make_rack, version, known):
    rack = make_rack(driver_version=version)
    for reason, share in (("sw_thermal", 1.0), ("hw_thermal", 0.5), ("hw_power_brake", 0.2)):
        rack.driver.throttle(0, reason, share)
    before = dict(rack.turn().gpu.throttle)
    after = dict(rack.turn(6).gpu.throttle)
    rise = {reason: after[reason] - before[reason] for reason in ("sw_thermal", "hw_thermal", "power_brake") if known}
    assert rise == ({"sw_thermal": 30, "hw_thermal": 15, "power_brake": 6} if known else {})
    assert ("sw_thermal" in after) is known
    assert {"power_cap", "thermal", "sync_boost", "board_limit", "reliability"} <= after.keys()


@pytest.mark.parametrize("version", ["", "banana", "v580.95.05", "²80.1", "580"])
def test_of_a_driver_that_does_not_say_which_it_is_only_what_all_have_is_read(make_rack, version):
    rack = make_rack(driver_version=version).turn()
    assert {reason for reason, _ in rack.gpu.throttle} == {
        "power_cap",
        "thermal",
        "sync_boost",
        "board_limit",
        "reliability",
    }
    assert rack.gpu.pcie_bytes == ()
    assert rack.gpu.energy is not None


def test_ecc_errors_by_type(make_rack):
    rack = make_rack()
    rack.driver.ecc_errors(0, corrected=3, uncorrected=1)
    rack.driver.ecc_errors(0, corrected=30, uncorrected=2**40, aggregate=True)
    assert {
        ("volatile_corrected", 3),
        ("volatile_uncorrected", 1),
        ("aggregate_corrected", 30),
        ("aggregate_uncorrected", 2**40),
    } <= set(rack.turn().gpu.ecc_errors)


def test_rows_that_were_remapped(make_rack):
    rack = make_rack()
    gpu = rack.turn().gpu
    assert (dict(gpu.remapped_rows), gpu.remap_pending, gpu.remap_failed) == (
        {"correctable": 0, "uncorrectable": 0},
        False,
        False,
    )
    rack.driver.remapped(0, corrected=2, uncorrected=5, pending=1, failure=1)
    gpu = rack.turn().gpu
    assert (dict(gpu.remapped_rows), gpu.remap_pending, gpu.remap_failed) == (
        {"correctable": 2, "uncorrectable": 5},
        True,
        True,
    )
    assert gpu.retired_pages == ()


def test_pages_that_older_gpus_retired(make_rack):
    rack = make_rack(model=V100)
    rack.driver.retired_pages(0, sbe=4, dbe=2, pending=1)
    gpu = rack.turn().gpu
    assert dict(gpu.retired_pages) == {"single_bit": 4, "double_bit": 2, "pending": 1}


def test_what_the_driver_asks_for(make_rack):
    rack = make_rack()
    assert rack.turn().gpu.recovery_action == 0
    rack.driver.force(0, recovery_action=4, pcie_replays=17)
    assert (rack.turn(6).gpu.recovery_action, rack.gpu.pcie_replays) == (4, 17)


def test_power_energy_and_limit(make_rack):
    rack = make_rack()
    rack.driver.force(0, power_mw=345_678, power_limit_mw=500_000, energy_mj=1_234_567_890)
    gpu = rack.turn().gpu
    assert (gpu.power, gpu.power_limit, gpu.energy) == (345.678, 500.0, pytest.approx(1_234_567.89))


def test_an_energy_counter_that_stands_still_is_dropped_and_counted(make_rack):
    rack = make_rack()
    rack.driver.force(0, power_mw=650_000, energy_mj=1_000_000)
    assert rack.turn().gpu.energy == 1000
    dropped = 0
    for _ in range(4):
        gpu = rack.turn().gpu
        dropped += rack.snapshot.dropped.get("energy", 0)
    assert (gpu.energy, gpu.power) == (None, 650)
    assert dropped == 2, "it is read at every second turn"
    rack.driver.force(0, energy_mj=1_500_000)
    assert rack.turn(2).gpu.energy == 1500


def test_stuck_energy_counter_gives_the_power_of_the_sensor_and_no_energy(make_rig):
    rig = make_rig(gpus=1)
    rig.allocate(0, 1)
    rig.node.driver.force(0, power_mw=650_000, energy_mj=1_000_000)
    rig.turn(20)
    assert rig.value("gpu_power_watts") == 650
    assert rig.values("gpu_energy_joules_total") == []
    assert rig.values("workload_gpu_energy_joules_total") == [], "0 J would be a figure that was not measured"
    rig.node.driver.force(0, energy_mj=1_500_000)
    rig.turn(2)
    assert rig.value("gpu_power_watts") == 650, "the first rise says nothing of the time before it"
    assert rig.value("gpu_energy_joules_total") == 1500


def test_an_energy_counter_that_stands_still_without_power_is_true(make_rack):
    rack = make_rack()
    rack.driver.force(0, power_mw=0, energy_mj=1_000_000)
    assert rack.turn(5).gpu.energy == 1000


def test_power_of_a_driver_without_the_field_is_asked_for_by_its_own_call(make_rack, monkeypatch):
    rack = make_rack()
    rack.driver.force(0, power_mw=123_000)
    real = pynvml.nvmlDeviceGetFieldValues

    def older(handle, fields):
        return real(handle, [(9999 if number in {186, 190} else number, scope) for number, scope in fields])

    older.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", older)
    gpu = rack.turn(2).gpu
    assert (gpu.power, gpu.power_limit) == (123.0, 700.0)
    assert rack.driver.state.calls("nvmlDeviceGetPowerUsage") == 2


def test_a_gpu_without_memory_sensor_links_and_ecc_has_none_of_their_series(make_rack):
    gpu = make_rack(model=RTX_3080_TI).turn(2).gpu
    assert [sensor for sensor, _ in gpu.temperatures] == ["gpu"]
    assert (gpu.ecc_errors, gpu.nvlink_bytes, gpu.remapped_rows, gpu.remap_failed) == ((), (), (), None)


def test_temperatures_by_sensor(make_rack):
    rack = make_rack()
    rack.driver.force(0, temperature=51, memory_temperature=0)
    assert rack.turn().gpu.temperatures == (("gpu", 51.0), ("memory", 0.0))


def test_a_field_that_a_gpu_lacks_is_left_out_and_asked_again_when_its_mig_mode_changes(make_rack, monkeypatch):
    asked = []
    real = pynvml.nvmlDeviceGetFieldValues

    def spy(handle, fields):
        asked.append({number for number, _ in fields})
        return real(handle, fields)

    spy.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", spy)
    rack = make_rack().turn(3)
    retired = {29, 30, 31}
    assert [retired <= numbers for numbers in asked] == [True, False, False]
    rack.driver.set_mig(0, [])
    rack.turn(3)
    assert [retired <= numbers for numbers in asked[3:]] == [False, True, False]


def test_a_field_that_fails_is_missing_and_counted_and_the_others_are_there(make_rack, monkeypatch):
    real = pynvml.nvmlDeviceGetFieldValues

    def flawed(handle, fields):
        values = real(handle, fields)
        for value in values:
            if value.fieldId == pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
                value.nvmlReturn = pynvml.NVML_ERROR_TIMEOUT
        return values

    flawed.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", flawed)
    rack = make_rack().turn(2)
    assert rack.gpu.energy is None
    assert rack.gpu.power is not None
    assert rack.snapshot.failures == {("nvmlDeviceGetFieldValues", "timeout"): 1}


@pytest.mark.parametrize(
    ("kind", "member", "raw", "value"),
    [
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 2.5, 2.5),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", 2**32 - 2, 2**32 - 2),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", 7, 7),
        (pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, "sllVal", 7, 7),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", 3, 3),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, "usVal", 65535, 65535),
        (99, "ullVal", 1, None),
        (pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, "sllVal", -7, None),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -3, None),
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", math.nan, None),
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", math.inf, None),
    ],
)
def test_a_value_is_of_the_type_that_it_says(make_rack, monkeypatch, kind, member, raw, value):
    """Whatever lies in the rest of its eight bytes; of a type that nobody knows, and of no count, nothing is known."""
    real = pynvml.nvmlDeviceGetFieldValues

    def typed(handle, fields):
        values = real(handle, fields)
        for answer in values:
            if answer.fieldId == pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER:
                answer.value.ullVal = 2**64 - 1
                answer.valueType = kind
                setattr(answer.value, member, raw)
        return values

    typed.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", typed)
    assert make_rack().turn().gpu.pcie_replays == value
