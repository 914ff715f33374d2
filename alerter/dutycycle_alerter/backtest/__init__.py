"""Rules over history, before anyone is mailed: what two configurations would have made of the same past."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from dutycycle_alerter.backtest.comparison import Comparison, compare
from dutycycle_alerter.backtest.history import History, RecordedHistory
from dutycycle_alerter.backtest.trial import Result, Trial
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.settings import Settings

__all__ = ["Backtest", "Comparison", "History", "RecordedHistory", "Result", "backtest"]

Progress = Callable[[int, int], None]
"""Told how many instants are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """The result. Seconds are wall seconds: multiply those of waste by `time_scale` to show them.

    `instants` is how many times everything was judged, every `step` from `since` to `until`; at `gaps` of them nothing
    at all was known.
    """

    since: float
    until: float
    step: float
    instants: int
    gaps: int
    time_scale: float
    current: Result
    new: Result
    comparison: Comparison


def backtest(
    history: History,
    *,
    current_history: History | None = None,
    new: Settings,
    current: Settings,
    since: float,
    until: float,
    step: float,
    progress: Progress = lambda _done, _of: None,
) -> Backtest:
    """Judge every `step` seconds of a history by two configurations; the evidence is read once for both, or for the
    current one from a `current_history` of its own, where it needs other windows.

    Settings are as configured, not scaled. Raises ConfigError where their time scales differ, and what the history
    raises.
    """
    if new.time_scale != current.time_scale:
        raise ConfigError(
            f"the two configurations differ in time_scale ({current.time_scale:g} and {new.time_scale:g}): one history"
            " has one"
        )
    trials = Trial(current), Trial(new)
    instants = history.instants(since, until, step)
    before = since
    for number, at in enumerate(instants, 1):
        evidence = _shared(history.evidence(at, before))
        trials[0].take(evidence if current_history is None else current_history.evidence(at, before), at)
        trials[1].take(evidence, at)
        before = at
        progress(number, len(instants))
    results = trials[0].result(), trials[1].result()
    return Backtest(since, until, step, len(instants), history.gaps, new.time_scale, *results, compare(*results))


def _shared(evidence: Evidence) -> Evidence:
    """The same evidence, whose windows are computed once however often they are asked for."""
    return replace(evidence, jobs=[replace(item, window=cache(item.window)) for item in evidence.jobs])
