"""Whether the ranks of a job are apart, over whatever window: then some wait for others."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Usage, WindowEvidence
from dutycycle_alerter.rules import sentences
from dutycycle_alerter.rules.case import Case, utilizations
from dutycycle_alerter.rules.units import power_level, thermal_share

# Ranks of a job run the same kernels: where those of one draw under this share of what another's do, it also spins.
SPINNING_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Apart:
    """GPUs that work much less than the busiest: their places in the job, and by how much the slowest does (0..1).

    `busiest` is the busiest GPU's utilization; `at_work` tells that it computes in that time and hardly idles in
    the rest; None where that is not known.
    """

    behind: frozenset[int]
    spread: float
    busiest: float
    at_work: bool | None


def apart(case: Case, window: WindowEvidence) -> Apart | None:
    """None where the GPUs work alike, where one does nothing at all (it is not used, and nobody waits for it), and
    where the job declared its ranks different. Call only where every GPU is covered.
    """
    rules, values = case.settings.rules, utilizations(window)
    if case.job.expect_uneven or len(values) < 2 or min(values) <= rules.partially_idle.below:
        return None
    most, least = max(values), min(values)
    spread = 1 - least / most
    if spread < rules.uneven.spread:
        return None
    behind = frozenset(place for place, value in enumerate(values) if value <= (1 - rules.uneven.spread) * most)
    return Apart(behind, spread, most, _at_work(case, window, values.index(most), values.index(least)))


def _at_work(case: Case, window: WindowEvidence, first: int, last: int) -> bool | None:
    """Whether the busiest GPU of a job is fed and computes: then the others wait for it. Where it spins, it waits for
    those that are behind, and they for something else.
    """
    busiest, slowest = window.gpus[first], window.gpus[last]
    if busiest.gap_lt2 is None or busiest.gap_2to30 is None:
        return None
    if busiest.gap_lt2 + busiest.gap_2to30 >= case.settings.rules.stalled.clear_gap_share * busiest.observed:
        return False
    if first in throttled_gpus(case, window):
        # Clocks that are held down draw little, too.
        return True
    watts, others = _power_while_busy(busiest), _power_while_busy(slowest)
    return None if watts is None or others is None else watts >= SPINNING_POWER * others


def _power_while_busy(usage: Usage) -> float | None:
    """What its kernels draw over idle power, in whatever unit: NVML's range is the same for GPUs of a model."""
    level, utilization = power_level(usage), usage.utilization
    return None if level is None or not utilization else level / utilization


def throttled_gpus(case: Case, window: WindowEvidence) -> frozenset[int]:
    """Which of the GPUs heat or the power brake held down for as much of the time as the rule `throttled` asks for."""
    bound = case.settings.rules.throttled.thermal
    shares = [thermal_share(usage) for usage in window.gpus]
    return frozenset(place for place, share in enumerate(shares) if share is not None and share >= bound)


def why_apart(case: Case, window: WindowEvidence, behind: frozenset[int]) -> tuple[Cause, ...]:
    """What holds ranks up where those at the places `behind` work less than the others."""
    slowed = throttled_gpus(case, window)
    if not slowed:
        return (Cause.COMMUNICATION,)
    # A throttled GPU either lags itself, or is busy for longer while the others wait: both draw the same line.
    drawn = slowed in (behind, frozenset(range(len(window.gpus))) - behind)
    return (Cause.THROTTLING,) if drawn else (Cause.THROTTLING, Cause.COMMUNICATION)


def said(case: Case, window: WindowEvidence, found: Apart) -> list[str]:
    """The sentences that show it."""
    hardly = ", which was at work all the time" if found.at_work else ""
    return [
        f"the slowest GPU worked {percent(found.spread)} less than the busiest{hardly}: ranks wait for each other",
        sentences.each_gpu(case.job, utilizations(window)),
        *sentences.waiting(window, case.settings.rules.hung),
    ]
