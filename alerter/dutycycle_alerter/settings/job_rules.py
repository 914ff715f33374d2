"""The rules on jobs: every number with the default that DESIGN section 5 gives."""

from __future__ import annotations

from pydantic import Field

from dutycycle_alerter.settings.types import Duration, Number, Ratio, Section, Window


class Grace(Section):
    """How long a young job is left alone, counted from its first process, else from its allocation."""

    batch: Duration = 600
    """A batch or serving job."""
    loading: Duration = 1200
    """The same, at most, while the job's GPU memory still grows."""
    interactive: Duration = 3600
    """Notebooks and shells."""

    @property
    def longest_loading(self) -> float:
        """How long memory that grows can move its end; what a job takes later is no loading."""
        return max(self.loading, self.batch)


class Hung(Section):
    """The GPUs spin without working, or wait for one that does: a collective that never returns."""

    RISING = (("idle_below", "spinning_at_least"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    spinning_at_least: Ratio = 0.95
    """Utilization from which on a GPU may be spinning."""
    power_share: Ratio = 0.15
    """It spins where its power is at most this far between idle power and power limit."""
    idle_below: Ratio = 0.005
    """A GPU at or under this waits."""
    active_below: Ratio = 0.02
    """Tensor cores and memory bandwidth at or under this share of the time confirm a hang."""
    link_bytes_below: Number = Field(default=10e6, ge=0)
    """So do links (NVLink, or PCIe where there is none) that carry at most this many bytes per second and GPU: a step
    of training exchanges far more, polling and the driver less.
    """
    window: Window = 900
    """What the rule looks at; it is judged once all of it lies after grace."""


class Idle(Section):
    """Every GPU of the job does nothing."""

    RISING = (("below", "clear_above"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.005
    """Utilization at or under this is idle."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    critical_window: Window = 7200
    """Critical when it also holds over this long."""
    serving_window: Window = 86400
    """The window for serving jobs."""
    clear_above: Ratio = 0.02
    """It clears when some GPU was above this over the clearing window."""
    clear_window: Window = 900
    """The clearing window."""


class PartiallyIdle(Section):
    """Some GPUs of the job do nothing while another works."""

    RISING = (("below", "clear_above"), ("below", "busiest_at_least"))

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.005
    """A GPU at or under this is idle."""
    busiest_at_least: Ratio = 0.15
    """The busiest GPU of the job must reach this, unless the idle ones never had a process or memory in use."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.02
    """It clears when every GPU is above this."""


class Stalled(Section):
    """The GPUs wait, again and again, for something that feeds them."""

    RISING = (
        ("at_least", "below"),
        ("below", "clear_above"),
        ("clear_gap_share", "gap_share"),
        ("clear_cpu_of_limit", "cpu_of_limit"),
        ("clear_pressure", "pressure"),
    )

    enabled: bool = True
    """Whether the rule is judged at all."""
    at_least: Ratio = 0.05
    """Mean utilization from which on the rule looks."""
    below: Ratio = 0.70
    """Mean utilization from which on a job is not stalled."""
    gap_share: Ratio = 0.20
    """Time in idle gaps of up to 30 s, as a share of the measured time."""
    cpu_of_limit: Ratio = 0.90
    """CPU use as a share of the job's limit, on the node where it is highest."""
    pressure: Ratio = 0.20
    """Share of time in which some task waited for I/O or a CPU (PSI), the higher of both."""
    window: Window = 900
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.80
    """It clears above this mean utilization, or when every signal that is known lies under its bound below."""
    clear_gap_share: Ratio = 0.12
    """Clearing bound of `gap_share`."""
    clear_cpu_of_limit: Ratio = 0.80
    """Clearing bound of `cpu_of_limit`."""
    clear_pressure: Ratio = 0.12
    """Clearing bound of `pressure`."""


class Uneven(Section):
    """Some GPUs or nodes of the job work much less than others."""

    RISING = (("clear_spread", "spread"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    spread: Ratio = 0.40
    """1 - min/max, over the job's GPUs and over its nodes' means."""
    busiest_at_least: Ratio = 0.30
    """The busiest GPU or node must reach this."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_spread: Ratio = 0.30
    """It clears under this spread."""


class LowSmActivity(Section):
    """The GPUs are busy, and most of their multiprocessors are not: kernels that are too small, or too few."""

    RISING = (("below", "clear_above"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    at_least: Ratio = 0.50
    """Mean utilization from which on the rule looks."""
    below: Ratio = 0.25
    """Active multiprocessor time under this share of busy time."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.35
    """It clears at this share or above."""


class Underused(Section):
    """The GPUs work little, and no other rule says why."""

    RISING = (("below", "clear_above"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.25
    """Mean utilization of the job under this."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.32
    """It clears where the last 15 minutes (the clearing window of `idle`) are above this."""


class MemoryUnderused(Section):
    """Report only, at the job's end: much more GPU memory than the job needed."""

    enabled: bool = True
    """Whether it is judged at all."""
    peak_below: Ratio = 0.25
    """The most memory in use on any GPU, as a share of it, was under this."""
    utilization_below: Ratio = 0.50
    """Mean utilization under this."""


class MemoryPressure(Section):
    """Report only, at the job's end: GPU memory nearly full while the GPU was not busy."""

    enabled: bool = True
    """Whether it is judged at all."""
    peak_at_least: Ratio = 0.95
    """The most memory in use on any GPU, as a share of it, reached this."""
    utilization_below: Ratio = 0.70
    """Mean utilization under this."""


class Overallocated(Section):
    """Report only, at the job's end: CPUs, host memory, time or a GPU model far above what was used."""

    enabled: bool = True
    """Whether it is judged at all."""
    cpu_used_below: Ratio = 0.25
    """Mean busy cores under this share of the requested ones."""
    memory_used_below: Ratio = 0.25
    """Peak host memory under this share of the requested."""
    time_used_below: Ratio = 0.25
    """Run time under this share of the time limit."""
    strong_models: tuple[str, ...] = ("*A100*", "*H100*", "*H200*", "*B200*", "*GB200*")
    """Patterns of GPU models that a small job does not need."""
    gpu_utilization_below: Ratio = 0.15
    """A strong GPU was not needed at a mean utilization up to this,"""
    gpu_memory_below_bytes: Number = Field(default=10e9, ge=0)
    """with at most this much GPU memory in use on any GPU,"""
    host_memory_below_bytes: Number = Field(default=32e9, ge=0)
    """and at most this much host memory, where it is known."""
    shortest: Duration = 3600
    """Jobs that ran shorter than this are not reported."""
