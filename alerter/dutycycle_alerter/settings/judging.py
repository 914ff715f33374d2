"""All rules together, and what holds for every one of them."""

from __future__ import annotations

from typing import ClassVar

from dutycycle_alerter.settings.device_rules import GpuFault, LeakedMemory, Throttled
from dutycycle_alerter.settings.job_rules import (
    Grace,
    Hung,
    Idle,
    LowSmActivity,
    MemoryPressure,
    MemoryUnderused,
    Overallocated,
    PartiallyIdle,
    Stalled,
    Underused,
    Uneven,
)
from dutycycle_alerter.settings.types import Duration, Ratio, Section


class Rules(Section):
    """Every rule. `ORDER` are those on jobs, in the order of precedence: a job's first open rule is its incident's
    primary one.
    """

    ORDER: ClassVar[tuple[str, ...]] = (
        "hung",
        "idle",
        "partially_idle",
        "stalled",
        "uneven",
        "low_sm_activity",
        "underused",
    )
    RESIDUAL: ClassVar[str] = "underused"
    """The rule that has something to say only where no other has."""
    REPORTS: ClassVar[tuple[str, ...]] = ("memory_underused", "memory_pressure", "overallocated")
    """The rules that are judged once, at the end of a job, and are reported and never mailed."""

    gpu_fault: GpuFault = GpuFault()
    leaked_memory: LeakedMemory = LeakedMemory()
    throttled: Throttled = Throttled()
    hung: Hung = Hung()
    idle: Idle = Idle()
    partially_idle: PartiallyIdle = PartiallyIdle()
    stalled: Stalled = Stalled()
    uneven: Uneven = Uneven()
    low_sm_activity: LowSmActivity = LowSmActivity()
    underused: Underused = Underused()
    memory_underused: MemoryUnderused = MemoryUnderused()
    memory_pressure: MemoryPressure = MemoryPressure()
    overallocated: Overallocated = Overallocated()


class Judging(Section):
    """What holds for every rule."""

    grace: Grace = Grace()
    coverage: Ratio = 0.80
    """A GPU that was measured for less of the window than this is unknown."""
    lost_after: Duration = 86400
    """An incident about which nothing has been known for this long is resolved as lost. Time in which no passes were
    made does not count.
    """
    reopen_within: Duration = 7200
    """A condition that returns within this time reopens its incident instead of opening another."""
    rules: Rules = Rules()
