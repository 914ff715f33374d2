"""Builds evidence of GPUs and nodes for tests: healthy unless something else is said."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.model import DeviceWindow, Gpu, GpuEvidence
from tests.alerter.cases import LATER, START

GIB = 2.0**30
MIB = 2.0**20
BASELINE = 0.5 * GIB
GPU = Gpu("node0", "3", "GPU-3", model="H200")
INSTANCE = replace(GPU, mig="MIG-a")


def device(
    gpu: Gpu = GPU,
    *,
    at: float = LATER,
    memory: float | None = BASELINE,
    processes: float | None = 0.0,
    allocated: bool | None = False,
    thermal: float | None = 0.0,
    power_cap: float | None = 0.0,
    now: float | None = None,
    **fields: object,
) -> GpuEvidence:
    """A GPU that was like this over every window; `now` is its present memory, where it differs."""

    def window(length: float) -> DeviceWindow:
        return DeviceWindow(length, memory, processes, allocated, thermal, power_cap)

    values: dict[str, object] = {
        "watched_from": START,
        "memory_used": memory if now is None else now,
        "memory_total": 141 * GIB,
        "memory_baseline": BASELINE,
    }
    return GpuEvidence(gpu, at, window, **(values | fields))  # type: ignore[arg-type]
