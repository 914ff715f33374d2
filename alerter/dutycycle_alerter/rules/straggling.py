"""Whether the ranks of a job are apart, over whatever window: then some wait for others."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Usage, WindowEvidence
from dutycycle_alerter.rules import sentences
from dutycycle_alerter.rules.case import Case, of_all_holders, utilizations
from dutycycle_alerter.rules.units import power_level, thermal_share

# Ranks of a job run the same kernels: where those of one draw under this share of what another's do, it also spins.
SPINNING_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Apart:
    """GPUs that work much less than the busiest: their places in the job, and by how much the slowest does (0..1).

    `busiest` is the busiest GPU's utilization. `paused` tells whether it idled for more than hardly any of the time,
    `held_down` whether its clocks were held down, and `draws` whether its kernels draw about as much as the slowest's
    (where clocks are held down they may draw less): one that hardly pauses and draws less only spins. None where that
    is not known.
    """

    behind: frozenset[int]
    spread: float
    busiest: float
    paused: bool | None
    held_down: bool | None
    draws: bool | None

    @property
    def at_work(self) -> bool | None:
        """Whether the busiest is fed and computes: then the others wait for it. None where that is not known."""
        if self.paused or self.draws is False:
            return False
        return None if self.paused is None else self.draws

    @property
    def spins(self) -> bool:
        """Whether the busiest is known to wait for those behind, and these for something else."""
        return self.paused is False and self.draws is False


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
    first, last = values.index(most), values.index(least)
    held_down = _held_down(case, window.gpus[first])
    # Clocks that are held down draw little, too.
    draws = True if held_down else _draws(case, window, first, last)
    if draws is False and held_down is None:
        draws = None
    return Apart(behind, spread, most, _paused(case, window, first), held_down, draws)


def _paused(case: Case, window: WindowEvidence, place: int) -> bool | None:
    """Whether a GPU was idle for more than hardly any of the time, in gaps of whatever length."""
    usage = window.gpus[place]
    gaps = [usage.gap_lt2, usage.gap_2to30, usage.gap_30to600, usage.gap_ge600]
    known = [gap for gap in gaps if gap is not None]
    if sum(known) >= case.settings.rules.stalled.clear_gap_share * usage.observed:
        return True
    # While others work on a shared GPU, it has no gaps.
    shared = of_all_holders(case.job.gpus[place], usage)
    return None if len(known) < len(gaps) or shared else False


def _draws(case: Case, window: WindowEvidence, first: int, last: int) -> bool | None:
    """Whether the kernels of the first draw about as much as those of the last."""
    gpus, usages = case.job.gpus, window.gpus
    if any(usage.share < 1 for usage in (usages[first], usages[last])) or gpus[first].model != gpus[last].model:
        # The power of a shared GPU is that of all its holders, and kernels of another model draw something else.
        return None
    if usages[first].power_limit != usages[last].power_limit:
        return None
    watts, others = _power_while_busy(usages[first]), _power_while_busy(usages[last])
    return None if watts is None or others is None else watts >= SPINNING_POWER * others


def _power_while_busy(usage: Usage) -> float | None:
    """What its kernels draw over idle power, in whatever unit: NVML's range is the same for GPUs of a model."""
    level, utilization = power_level(usage), usage.utilization
    return None if level is None or not utilization else level / utilization


def throttled_gpus(case: Case, window: WindowEvidence) -> frozenset[int]:
    """Which of the GPUs heat or the power brake held down for as much of the time as the rule `throttled` asks for."""
    return frozenset(place for place, usage in enumerate(window.gpus) if _held_down(case, usage))


def _held_down(case: Case, usage: Usage) -> bool | None:
    share = thermal_share(usage)
    return None if share is None else share >= case.settings.rules.throttled.thermal


def why_apart(case: Case, window: WindowEvidence, behind: frozenset[int]) -> tuple[Cause, ...]:
    """What holds ranks up where those at the places `behind` work less than the others."""
    slowed = throttled_gpus(case, window)
    if not slowed:
        return (Cause.COMMUNICATION,)
    # A throttled GPU either lags itself, or is busy for longer while the others wait: both draw the same line.
    drawn = slowed in (behind, frozenset(range(len(window.gpus))) - behind)
    return (Cause.THROTTLING,) if drawn else (Cause.THROTTLING, Cause.COMMUNICATION)


def said(case: Case, window: WindowEvidence, found: Apart) -> list[str]:
    """The sentences that show it: what the GPUs did, which is true whatever the cause."""
    return [
        f"the slowest GPU worked {percent(found.spread)} less than the busiest{_of_the_busiest(found)}",
        sentences.each_gpu(case.job, utilizations(window)),
        *sentences.waiting(window, case.settings.rules.hung),
    ]


def _of_the_busiest(found: Apart) -> str:
    if found.paused is not False:
        return ""
    if found.spins:
        return ", which hardly paused and drew less for its work: it spins, and waits"
    return ", which hardly paused" + (" and drew as much for its work" if found.draws and not found.held_down else "")
