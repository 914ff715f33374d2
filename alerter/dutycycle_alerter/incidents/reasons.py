"""The seven reasons for low utilization that the field's guides list, and which of them each cause is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from dutycycle_alerter.incidents.model import Cause


class Reason(StrEnum):
    """What a guide on GPU utilization has as headings."""

    UNUSED = "GPUs held and not used"
    INPUT = "CPU or data-loading bottleneck"
    MEMORY = "memory bottleneck"
    PARALLELISM = "inefficient parallelization"
    INTENSITY = "low compute intensity"
    BLOCKING = "blocking or synchronous operations"
    HARDWARE = "hardware"


REASONS: dict[Cause, Reason] = {
    Cause.NO_PROCESS: Reason.UNUSED,
    Cause.IDLE_NOTEBOOK: Reason.UNUSED,
    Cause.OVER_REQUEST: Reason.UNUSED,
    Cause.CPU_ONLY: Reason.INPUT,
    Cause.HOST_WORK: Reason.INPUT,
    Cause.DATA_LOADING: Reason.INPUT,
    Cause.MEMORY_BOUND: Reason.MEMORY,
    Cause.COMMUNICATION: Reason.PARALLELISM,
    Cause.SMALL_WORK: Reason.INTENSITY,
    Cause.CHECKPOINT: Reason.BLOCKING,
    Cause.HANG: Reason.BLOCKING,
    Cause.THROTTLING: Reason.HARDWARE,
    Cause.FAULT: Reason.HARDWARE,
}


def reasons(causes: Iterable[Cause]) -> str:
    """The reasons of these causes, each once, as a list for people."""
    return ", ".join(dict.fromkeys(REASONS[cause].value for cause in causes))
