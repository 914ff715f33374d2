"""What the counters below the duty cycle say of one GPU over a window: its units, its links, its power, its clocks.

Each is None where it is not measured. A mean is taken over the time for which the duty cycle was measured: where a
counter also ran in the rest, the mean comes out too high, and nothing is called quiet that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dutycycle_alerter.model import Usage

# In 26,000 readings of GPUs without a process (four models) the memory in use varied by 39 MiB.
_LEAST_HELD = 200 * 2**20
# Some readers count as used what the driver reserves: at most 1.5 % of the memory in the same readings.
_MOST_RESERVED = 0.05


def unit_seconds(usage: Usage, unit: str) -> float | None:
    """Seconds in which `sm`, `tensor` or `dram` worked.

    A kernel that is resident keeps a multiprocessor: where none was active on a GPU that was busy, GPM has stopped
    measuring (its permission may go while a job runs), and its counters stand still without meaning it.
    """
    seconds: float | None = getattr(usage, unit)
    return None if usage.sm == 0 and usage.busy > 0 else seconds


def activity(usage: Usage, unit: str) -> float | None:
    """Share of the measured time, 0..1, in which a unit worked."""
    seconds = unit_seconds(usage, unit)
    return None if seconds is None or usage.observed <= 0 else min(1.0, seconds / usage.observed)


def activity_while_busy(usages: Iterable[Usage], unit: str) -> float | None:
    """The same of several GPUs as a share of their busy time; None where any of them is not measured or none worked.

    Units and busy time of a shared GPU are both divided by the work that each of its holders did.
    """
    worked = busy = 0.0
    for usage in usages:
        seconds = unit_seconds(usage, unit)
        if seconds is None:
            return None
        worked += seconds
        busy += usage.busy
    return min(1.0, worked / busy) if busy > 0 else None


def link_rate(usage: Usage) -> float | None:
    """Bytes per second over NVLink, or PCIe where there is none, of the whole device."""
    if usage.link_bytes is None or usage.observed <= 0:
        return None
    return usage.link_bytes * usage.share / usage.observed


def power(usage: Usage) -> float | None:
    """Mean watts of the device; a sharer's energy is its share of the device's."""
    return None if usage.energy is None or usage.observed <= 0 else usage.energy / usage.observed


def power_level(usage: Usage) -> float | None:
    """Where its mean power lies between idle power (0) and power limit (1); None also where these make no range."""
    watts, idle, limit = power(usage), usage.idle_power, usage.power_limit
    if watts is None or idle is None or limit is None or limit <= idle:
        return None
    return (watts - idle) / (limit - idle)


def thermal_share(usage: Usage) -> float | None:
    """Share of the time, 0..1, for which heat or the power brake held the clocks down."""
    if usage.throttle_thermal is None or usage.allocated <= 0:
        return None
    return min(1.0, usage.throttle_thermal / usage.allocated)


def memory_held(usage: Usage) -> bool | None:
    """Return whether more of the memory was in use than a GPU without a process shows. None where that is not known."""
    if usage.memory_used is None:
        return None
    if usage.memory_used <= (usage.memory_baseline or 0.0) + _LEAST_HELD:
        return False
    if usage.memory_baseline is not None:
        return True
    known = usage.memory_total and usage.memory_used > _MOST_RESERVED * usage.memory_total + _LEAST_HELD
    return True if known else None


def memory_ratio(usages: Sequence[Usage]) -> float | None:
    """The most memory in use on any GPU as a share of it; None where any GPU does not know it."""
    ratios = [u.memory_used / u.memory_total if u.memory_used is not None and u.memory_total else None for u in usages]
    return None if not ratios or None in ratios else max(ratio for ratio in ratios if ratio is not None)
