"""What a GPU says of itself from the beginning: its identity, limits and settings, and what it lacks."""

from __future__ import annotations

from . import layout
from .layout import Device
from .models import Model, bar1

_AMPERE, _HOPPER = 7, 9

XID = 8
_EVENT_TYPES = 0x1 | 0x2 | 0x4 | XID | 0x10
"""ECC errors, performance state, XIDs, clocks."""

_RETIRED = ("retired_sbe", "retired_dbe", "retired_pending")
_REMAPPED = ("remapped_corrected", "remapped_uncorrected", "remapped_pending", "remapped_failure")
_SRAM = "sram_threshold_exceeded"
_DATA_CENTRE_ONLY = ("ecc_current", "ecc_pending", "memory_temperature", *_RETIRED, *_REMAPPED, _SRAM)


def describe(device: Device, model: Model, slot: int, uuid: str, minor: int, *, events: bool) -> None:
    """Fills in what does not change by itself."""
    identity, telemetry = device.identity, device.telemetry
    identity.name = model.name.encode()
    identity.uuid = uuid.encode()
    identity.serial = f"165042{slot:07d}".encode()
    identity.vbios = b"96.00.74.00.01"
    identity.pci_bus = 0x1B + 0x11 * slot % 0xE0
    identity.pci_device_id = model.pci_device_id
    identity.pci_subsystem_id = 0x16C110DE
    identity.minor = minor
    identity.architecture = model.architecture
    identity.compute_major, identity.compute_minor = model.compute_capability
    identity.cores = model.cores
    identity.memory_total = model.memory
    identity.bar1_total = bar1(model)
    identity.nvlinks = model.nvlinks
    identity.gpm = int(model.data_centre and model.architecture >= _HOPPER)
    identity.event_types = _EVENT_TYPES if events else 0
    telemetry.memory_reserved = model.reserved
    limit = round(model.power_limit * 1000)
    telemetry.power_limit_mw = telemetry.power_limit_max_mw = telemetry.power_limit_default_mw = limit
    telemetry.power_limit_min_mw = limit * 2 // 7
    telemetry.max_clock_mhz[:] = [model.sm_clock, model.sm_clock, model.memory_clock, model.sm_clock * 9 // 10]
    telemetry.clock_mhz[:] = telemetry.max_clock_mhz[:]
    telemetry.persistence_mode = 1
    telemetry.power_mw = round(model.idle_power * 1000)
    telemetry.fan_percent = layout.NOT_AVAILABLE_U32 if model.data_centre else 30
    telemetry.ecc_current = telemetry.ecc_pending = 1
    _take_away(device, model)


def _take_away(device: Device, model: Model) -> None:
    telemetry = device.telemetry
    missing: list[str] = []
    if model.mig_multiprocessors:
        device.max_instances = layout.MAX_INSTANCES
    else:
        missing += ["mig_current", "mig_pending"]
    if not model.data_centre:
        device.identity.serial = b""
        missing += _DATA_CENTRE_ONLY
        for counts in telemetry.ecc_errors:
            counts[:] = [layout.NOT_AVAILABLE_U64] * 2
    else:
        # Ampere remaps rows where earlier GPUs retired pages, and counts errors of SRAM apart.
        missing += _RETIRED if model.architecture >= _AMPERE else (*_REMAPPED, _SRAM)
    for name in missing:
        setattr(telemetry, name, layout.NOT_AVAILABLE_U32)
    if not model.nvlinks:
        telemetry.nvlink_rx_kib = telemetry.nvlink_tx_kib = layout.NOT_AVAILABLE_U64
