"""How far the queries of a pass reach: the windows of the rules, the look-back, the shards, the labels of pods."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.matching import ANY
from dutycycle_alerter.settings.prometheus import Prometheus

ABSENT_SCRAPES = 3
"""Scrapes without the allocation after which it has ended; also intervals after which a silent node is unseen."""
ABSENT = 3.5
"""Scrape intervals that hold at least three scrapes, wherever they begin."""
COUNTED = 20.0
"""Scrape intervals over which scrapes are counted, to see how many there are in truth."""
SHORTEST_LOOKBACK, LONGEST_LOOKBACK = 1800.0, 7200.0
"""How far back allocations that have ended are looked for, in seconds before scaling."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Which windows the rules read, in wall seconds: `basic` utilization alone, `full` everything, `held` memory and
    processes as well, `links` also link traffic, `levels` how long the duty cycle was low, `peaks` memory and
    processes over the longest window, for GPUs that were never used and for what is reported of a job at its end.
    """

    basic: tuple[float, ...]
    full: tuple[float, ...]
    held: tuple[float, ...]
    links: tuple[float, ...]
    levels: tuple[float, ...]
    peaks: tuple[float, ...]
    leaked: float
    throttled: float

    @property
    def devices(self) -> float:
        """The longest window of the rules on GPUs."""
        return max(self.leaked, self.throttled)

    @property
    def memory(self) -> float:
        """The longest window in which memory is read of every job."""
        return max(*self.held, *self.peaks)

    @property
    def every(self) -> tuple[float, ...]:
        """All of them, shortest first."""
        return tuple(sorted({*self.basic, *self.full}))


def windows(settings: Settings) -> Windows:
    """The windows of the rules. A whole day is read only where some jobs may be serving."""
    rules = settings.judging.rules
    held = {rules.idle.window, rules.partially_idle.window, rules.uneven.window, rules.low_sm_activity.window}
    # What holds the GPUs of a job that does nothing is asked of the end of its window as well.
    held |= {rules.underused.window, rules.idle.clear_window}
    full = held | {rules.hung.window, rules.stalled.window}
    basic = {rules.idle.critical_window}
    if _some_may_serve(settings):
        basic.add(rules.idle.serving_window)
    return Windows(
        basic=tuple(sorted(basic - full)),
        full=tuple(sorted(full)),
        held=tuple(sorted(held)),
        links=(rules.hung.window,),
        levels=(rules.underused.window,),
        peaks=tuple({rules.idle.critical_window} - held),
        leaked=rules.leaked_memory.window,
        throttled=rules.throttled.window,
    )


def _some_may_serve(settings: Settings) -> bool:
    """Whether a job may be serving: an entry calls some so, pods of a Deployment and its like are, and jobs may say so
    of themselves where that is allowed.
    """
    called = any(match.kind is JobKind.SERVING for match in settings.kinds)
    return called or bool(settings.kubernetes) or bool(settings.policies.opt_out.kinds)


def reads_labels(settings: Settings) -> bool:
    """Whether any entry is about jobs with some label of their pods."""
    policies = settings.policies
    entries = (
        *settings.kinds,
        *settings.uneven_by_design,
        *policies.exceptions,
        *policies.opt_out.allowed,
        *policies.opt_out.kinds,
    )
    return any(match.label != ANY for match in entries)


def shards(settings: Prometheus) -> tuple[tuple[str, ...], ...]:
    """The matchers of each shard's selectors; one without any where there are no shards."""
    return tuple((shard,) for shard in settings.shards) or ((),)


def lookback(settings: Settings, since: float) -> float:
    """Wall seconds for which ended allocations are looked back for; `since` is how long ago the last pass was."""
    shortest, longest = SHORTEST_LOOKBACK / settings.time_scale, LONGEST_LOOKBACK / settings.time_scale
    absent = ABSENT * (settings.prometheus or Prometheus()).scrape_interval
    return min(max(since + absent, shortest), max(longest, shortest))
