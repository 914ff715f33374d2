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
    """Has error correction, a serial number, accounting of errors, events, and no fan of its own."""

    nvlinks: int = 0

    mig_multiprocessors: tuple[tuple[int, int], ...] = ()
    """Multiprocessors of a MIG instance of so many slices, rising; the last one is the whole GPU. Empty: no MIG."""


def bar1(model: Model) -> int:
    """Bytes of the window on the memory: a power of two."""
    return 1 << (model.memory - 1).bit_length()


_GA100_MIG = ((1, 14), (2, 28), (3, 42), (4, 56), (7, 98))
_GH100_MIG = ((1, 16), (2, 32), (3, 60), (4, 64), (7, 132))
_GB100_MIG = ((1, 18), (2, 36), (3, 70), (4, 72), (7, 148))

V100 = Model("Tesla V100-SXM2-32GB", 5, (7, 0), 0x1DB510DE, 5120, 32768 * MIB, 268 * MIB, 300, 42, 1530, 877, nvlinks=6)
A100 = Model(
    "NVIDIA A100-SXM4-80GB",
    7,
    (8, 0),
    0x20B210DE,
    6912,
    81920 * MIB,
    615 * MIB,
    400,
    65,
    1410,
    1593,
    nvlinks=12,
    mig_multiprocessors=_GA100_MIG,
)
H100 = Model(
    "NVIDIA H100 80GB HBM3",
    9,
    (9, 0),
    0x233010DE,
    16896,
    81559 * MIB,
    551 * MIB,
    700,
    70,
    1980,
    2619,
    nvlinks=18,
    mig_multiprocessors=_GH100_MIG,
)
H200 = Model(
    "NVIDIA H200",
    9,
    (9, 0),
    0x233510DE,
    16896,
    143771 * MIB,
    585 * MIB,
    700,
    76,
    1980,
    3201,
    nvlinks=18,
    mig_multiprocessors=_GH100_MIG,
)
B200 = Model(
    "NVIDIA B200",
    10,
    (10, 0),
    0x290110DE,
    18944,
    183359 * MIB,
    709 * MIB,
    1000,
    140,
    1965,
    3996,
    nvlinks=18,
    mig_multiprocessors=_GB100_MIG,
)
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
