"""When a job lost GPU time to waits, by the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.waste import wasted


def losses(stretches: Sequence[Stretch], partition: str) -> tuple[tuple[float, float, float], ...]:
    """From when to when how many GPU-seconds were, for each stretch in which any was."""
    found, at = [], 0.0
    for stretch in stretches:
        if (lost := wasted([stretch], partition)) > 0:
            found.append((at, at + stretch.seconds, lost))
        at += stretch.seconds
    return tuple(found)
