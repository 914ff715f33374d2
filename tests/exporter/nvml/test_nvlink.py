"""Bytes on NVLink over all links, whatever the generation and whoever sums them up."""

from __future__ import annotations

import pynvml
import pytest

from tests.fakes.nvml import A100, B200, H100, RTX_3080_TI


@pytest.mark.parametrize(("model", "version"), [(A100, "550.54.15"), (H100, "580.95.05"), (B200, "580.95.05")])
def test_bytes_on_nvlink_over_all_links_whatever_its_generation(make_rack, model, version):
    rack = make_rack(model=model, driver_version=version)
    rack.driver.traffic(0, nvlink_rx=3 * 2.0**30, nvlink_tx=2.0**20)
    before = dict(rack.turn().gpu.nvlink_bytes)
    after = dict(rack.turn(2).gpu.nvlink_bytes)
    assert {direction: after[direction] - before[direction] for direction in after} == {
        "rx": pytest.approx(30 * 2**30),
        "tx": pytest.approx(10 * 2**20),
    }


@pytest.fixture
def no_sums(monkeypatch):
    """A driver that has NVLink's bytes by link only; `fails` are links whose tx counters cannot be read, and why."""
    fails = {}
    real = pynvml.nvmlDeviceGetFieldValues

    def by_link(handle, fields):
        values = real(handle, fields)
        for value in values:
            if value.fieldId in {202, 204} and value.scopeId == 2**32 - 1:
                value.nvmlReturn = pynvml.NVML_ERROR_INVALID_ARGUMENT
            elif value.fieldId == 202 and value.scopeId in fails:
                value.nvmlReturn = fails[value.scopeId]
        return values

    by_link.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", by_link)
    return fails


def test_where_the_driver_does_not_sum_up_links_we_do(make_rack, no_sums):
    rack = make_rack(model=B200)
    rack.driver.traffic(0, nvlink_rx=3 * 2.0**30, nvlink_tx=2.0**20)
    before = dict(rack.turn(2).gpu.nvlink_bytes)
    after = dict(rack.turn(2).gpu.nvlink_bytes)
    assert {direction: after[direction] - before[direction] for direction in after} == {
        "rx": pytest.approx(30 * 2**30),
        "tx": pytest.approx(10 * 2**20),
    }


def test_a_sum_of_which_a_link_is_missing_is_not_told(make_rack, no_sums):
    rack = make_rack(model=B200).turn(2)
    no_sums[3] = pynvml.NVML_ERROR_UNKNOWN
    assert dict(rack.turn().gpu.nvlink_bytes).keys() == {"rx"}
    no_sums.clear()
    assert dict(rack.turn().gpu.nvlink_bytes).keys() == {"rx", "tx"}


@pytest.mark.parametrize(
    "error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND]
)
def test_a_link_that_goes_takes_nothing_away_of_what_was_counted(make_rack, no_sums, error):
    """Else the counter would fall by all that the link ever carried, which looks like a new counter."""
    rack = make_rack(model=B200)
    rack.driver.traffic(0, nvlink_tx=18 * 2.0**20)
    rack.turn(100)
    before = dict(rack.gpu.nvlink_bytes)["tx"]
    no_sums[3] = error
    after = dict(rack.turn(2).gpu.nvlink_bytes)["tx"]
    assert after - before == pytest.approx(10 * 17 * 2**20)
    no_sums.clear()
    # An hour later it is asked for again.
    back = dict(rack.turn(seconds=3600).turn().gpu.nvlink_bytes)["tx"]
    assert back - before == pytest.approx(3615 * 18 * 2**20)


def test_links_are_asked_one_by_one_only_once_where_there_are_none(make_rack, monkeypatch):
    asked = []
    real = pynvml.nvmlDeviceGetFieldValues

    def spy(handle, fields):
        asked.append(sum(number in {202, 204} and scope < 18 for number, scope in fields))
        return real(handle, fields)

    spy.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", spy)
    make_rack(model=RTX_3080_TI).turn(4)
    assert asked == [0, 36, 0, 0]


@pytest.mark.parametrize("version", ["550.54.15", "580.95.05"])
def test_links_that_no_field_told_at_first_are_told_an_hour_later(make_rack, monkeypatch, version):
    """The exporter was there before their fabric manager. Whether the driver has the links' own fields or not."""
    trained = []
    real = pynvml.nvmlDeviceGetFieldValues

    def untrained(handle, fields):
        values = real(handle, fields)
        for value in values:
            if not trained and value.fieldId in {138, 139, 202, 204}:
                value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return values

    untrained.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", untrained)
    rack = make_rack(model=H100, driver_version=version).turn(3)
    assert rack.gpu.nvlink_bytes == ()
    rack.turn(seconds=3600).turn(3)
    assert rack.gpu.nvlink_bytes == ()
    trained.append(True)
    assert rack.turn().gpu.nvlink_bytes == ()
    rack.turn(seconds=3600).turn(3)
    assert dict(rack.gpu.nvlink_bytes).keys() == {"rx", "tx"}


def test_a_gpu_that_has_both_generations_counters_shows_the_newer_and_not_their_sum(make_rack, monkeypatch):
    real = pynvml.nvmlDeviceGetFieldValues

    def both(handle, fields):
        values = real(handle, fields)
        for value in values:
            if value.fieldId in {138, 139, 202, 204}:
                value.nvmlReturn, value.valueType = 0, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                value.value.ullVal = 1000
        return values

    both.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", both)
    assert make_rack().turn().gpu.nvlink_bytes == (("rx", 1000.0), ("tx", 1000.0))


@pytest.mark.parametrize("sums", [{138, 139}, {202, 204}, {138, 139, 202, 204}])
def test_a_sum_of_zero_does_not_hide_the_bytes_of_links(make_rack, monkeypatch, sums):
    """Sums that a driver answers with 0, while the links' own counters rise."""
    real = pynvml.nvmlDeviceGetFieldValues

    def empty(handle, fields):
        values = real(handle, fields)
        for value in values:
            if value.fieldId in {138, 139, 202, 204} and value.scopeId == 2**32 - 1:
                value.nvmlReturn = 0 if value.fieldId in sums else pynvml.NVML_ERROR_NOT_SUPPORTED
                value.valueType, value.value.ullVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 0
        return values

    empty.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", empty)
    rack = make_rack(model=B200)
    rack.driver.traffic(0, nvlink_rx=18 * 2.0**30, nvlink_tx=0.0)
    before = dict(rack.turn(14).gpu.nvlink_bytes)
    after = dict(rack.turn(2).gpu.nvlink_bytes)
    assert after["rx"] - before["rx"] == pytest.approx(10 * 18 * 2**30)
    assert (before["tx"], after["tx"]) == (0, 0)
    later = dict(rack.turn(seconds=3600).turn().gpu.nvlink_bytes)
    assert later["rx"] - after["rx"] == pytest.approx(3605 * 18 * 2**30)


def test_one_generations_zero_does_not_hide_the_others_bytes(make_rack, monkeypatch):
    real = pynvml.nvmlDeviceGetFieldValues

    def both(handle, fields):
        values = real(handle, fields)
        for value in values:
            if value.fieldId in {138, 139, 202, 204} and value.scopeId == 2**32 - 1:
                value.nvmlReturn, value.valueType = 0, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                value.value.ullVal = 1000 if value.fieldId in {138, 139} else 0
        return values

    both.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", both)
    assert make_rack().turn().gpu.nvlink_bytes == (("rx", 1024000.0), ("tx", 1024000.0))
