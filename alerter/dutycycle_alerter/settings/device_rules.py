"""The rules on GPUs and nodes, for operators: every number with the default that DESIGN section 5 gives."""

from __future__ import annotations

from pydantic import Field

from dutycycle_alerter.settings.types import Duration, Number, Ratio, Section, Window


class GpuFault(Section):
    """The driver reports an error that needs a person: an XID of the critical class, a recovery action, a row that
    could not be remapped, a GPU that is lost.
    """

    enabled: bool = True
    """Whether the rule is judged at all."""
    xids: tuple[int, ...] = (48, 62, 64, 74, 79, 95, 119, 120)
    """XIDs that open it (NVIDIA's XID guide)."""
    quiet: Duration = 6 * 3600
    """An XID speaks against the GPU until none was reported for this long."""


class LeakedMemory(Section):
    """GPU memory in use though no process lives on the GPU and nobody has it allocated."""

    RISING = (("clear_below_bytes", "above_bytes"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    above_bytes: Number = Field(default=500 * 2.0**20, ge=0)
    """Memory over the model's baseline by at least this."""
    window: Window = 900
    """All of it must have been so over this window."""
    clear_below_bytes: Number = Field(default=250 * 2.0**20, ge=0)
    """It clears under this."""


class Throttled(Section):
    """The hardware holds the GPU's clocks down."""

    RISING = (("clear_below", "thermal"), ("clear_power_cap", "power_cap"))

    enabled: bool = True
    """Whether the rule is judged at all."""
    thermal: Ratio = 0.05
    """Share of time held down by heat or by the power brake."""
    power_cap: Ratio = 0.50
    """Share of time at the power limit from which on it is reported as information."""
    window: Window = 900
    """What the rule looks at."""
    clear_below: Ratio = 0.02
    """It clears under this share of heat and brake,"""
    clear_power_cap: Ratio = 0.40
    """and what is no more than information under this share at the power limit."""
