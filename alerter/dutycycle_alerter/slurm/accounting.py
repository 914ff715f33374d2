"""What accounting says of jobs that are over or may be: asked of all while slurmctld answers, else of few at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutycycle_alerter.errors import LateError, SourceError
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures
from dutycycle_alerter.slurm.pacing import Pacing
from dutycycle_alerter.slurm.watching import AT_ONCE, Watch

Runs = Mapping[int, tuple[FinalFigures, ...]]


@dataclass(frozen=True, slots=True)
class Told:
    """Runs that are over, by raw id; when accounting last answered (Unix seconds), why it does not, what was odd."""

    runs: Runs = field(default_factory=dict)
    at: float | None = None
    error: str = ""
    note: str = ""
    late: bool = False
    """Whether it did not answer in time."""


class Accounting:
    """Asks `watch`. `apart` is how far two clocks may differ (seconds)."""

    def __init__(self, watch: Watch, *, apart: float, time_scale: float = 1.0) -> None:
        self._watch = watch
        self._apart = apart
        self._pacing = Pacing(AT_ONCE, time_scale=time_scale)
        self._last = Told()

    def ask(self, wanted: Mapping[int, float], now: float, *, silent: bool) -> Told:
        """Of `wanted` jobs, by raw id with a time (Unix seconds) at which each ran.

        While slurmctld is `silent` nobody says which of all that run have ended: one call a pass, and of each job at
        growing intervals.
        """
        if silent:
            due = {number: wanted[number] for number in self._pacing.due(wanted, now)}
        else:
            self._pacing.reset()
            due = dict(wanted)
        error = self._last.error if wanted else ""
        runs: Runs = {}
        at, note, late = self._last.at, self._last.note, False
        if due:
            odd = Nonsense()
            try:
                runs, at, error = self._watch.ended(due, min(due.values()) - self._apart, odd), now, ""
                note = odd.told()
            except SourceError as failure:
                error, late = str(failure), isinstance(failure, LateError)
        self._last = Told({}, at, error, note)
        return Told(runs, at, error, note, late)

    def put_off(self) -> Told:
        """What is said in a pass in which it is not asked."""
        return replace(self._last, note="not asked in this pass: slurmctld did not answer in time")
