"""What a program's figures on a real GPU have to keep, and what of it they missed. Pure."""

from __future__ import annotations

from benchmarks.gpu.cases import Case
from benchmarks.gpu.comparison import Figures

POINTS = 0.02
"""By which a duty cycle may differ from what CUDA events say, and SM activity from the multiprocessors that the kernels
are known to hold.
"""
ENERGY = 0.02
"""Share by which power from the energy counter may differ from the mean of nvidia-smi's looks."""


def missed(case: Case, found: Figures | None) -> list[str]:
    """By name; a program that was not measured missed all."""
    if found is None or found.off is None:
        return ["not measured"]
    sm = None if found.sm is None or found.sm_truth is None else found.sm - found.sm_truth
    energy = None if found.watts is None or not found.watts_theirs else found.watts / found.watts_theirs - 1
    off = {
        "duty cycle": case.exact and abs(found.off) > POINTS,
        "SM activity": sm is not None and abs(sm) > POINTS,
        "energy": case.steady and energy is not None and abs(energy) > ENERGY,
        "what was found": found.right is False,
    }
    return [name for name, true in off.items() if true]
