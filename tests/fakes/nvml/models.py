"""GPUs by their data sheets, as NVML describes them."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Model:
    """What all GPUs of a model have in common. Powers in watts, clocks in MHz, memory in bytes."""

    name: str
    architecture: int
    compute_capability: tuple[int, int]
    pci_device_id: int
    cores: int
    memory: int
    reserved: int
    power_limit: float
    idle_power: float
    sm_clock: int
    memory_clock: int
    data_centre: bool = True
    """Has error correction, MIG and a serial number, and no fan of its own."""


A100 = Model("NVIDIA A100-SXM4-80GB", 7, (8, 0), 0x20B210DE, 6912, 81920 * MIB, 615 * MIB, 400, 65, 1410, 1593)
H100 = Model("NVIDIA H100 80GB HBM3", 9, (9, 0), 0x233010DE, 16896, 81559 * MIB, 551 * MIB, 700, 70, 1980, 2619)
H200 = Model("NVIDIA H200", 9, (9, 0), 0x233510DE, 16896, 143771 * MIB, 585 * MIB, 700, 76, 1980, 3201)
RTX_3080_TI = Model(
    "NVIDIA GeForce RTX 3080 Ti",
    7,
    (8, 6),
    0x220810DE,
    10240,
    12288 * MIB,
    174 * MIB,
    350,
    20,
    2100,
    9501,
    data_centre=False,
)
