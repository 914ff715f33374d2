"""What is remembered of counters from one span to the next: their last values, also of those that went away."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.last_values import Doubt, Ids, LastValues, Numbers, SpanEnd

_KEPT = 86400.0
"""Wall seconds for which the counters of an allocation that has not ended are remembered."""
_ENDED = 1800.0
"""Wall seconds for which all others are: on a busy cluster they are the most by far, and few of them come back."""

_Counter = tuple[str, int]
"""What it counts, and the id of the series."""


@dataclass(frozen=True, slots=True)
class _Away:
    """A series that is not there any more: its labels (`selectors.ACCOUNT`), its last value, and when that was."""

    key: tuple[str, ...]
    value: float
    at: float

    def kept(self, alive: Container[Key]) -> float:
        """For how many wall seconds."""
        _, node, uuid, mig, workload, _ = self.key
        return _KEPT if (node, uuid, mig, workload) in alive else _ENDED


class Remembered:
    """The last values of counters that were there at the end of the last span, and of those that are not there any
    more: one that comes back counts on from there. `doubt` is of what the engine may not have what was charged.

    What a pass or a span changes that may come to nothing stands `apart` from it until it is kept.
    """

    def __init__(self, under: Remembered | None = None) -> None:
        self._under = under
        self._away: dict[_Counter, _Away | None] = {}
        self._last: dict[str, LastValues] = {}
        self.doubt: Doubt | None = None if under is None else under.doubt

    def last(self, name: str) -> LastValues | None:
        """A counter's values at the end of the last span; None before there was one."""
        if name in self._last or self._under is None:
            return self._last.get(name)
        return self._under.last(name)

    def take(self, name: str, start: float, ids: Ids, *, within: float) -> Numbers:
        """From what these series, all of those that there are, count on in a span that begins at `start`; NaN where
        that is not known. None of them is away any more.

        Last values are those of `start` if their instant is less than `within` seconds from it. It is not where a part
        of the past is too long ago to be caught up.
        """
        last = self.last(name)
        values = np.full(len(ids), np.nan) if last is None or abs(last.end - start) > within else last.of(ids)
        # One that has a last value came back before.
        for place in np.flatnonzero(np.isnan(values)).tolist():
            counter = name, int(ids[place])
            away = self._find(counter)
            if away is not None:
                values[place] = away.value
                self._put(counter, None)
        return values

    def end(self, name: str, span: SpanEnd, at: float) -> None:
        """Take all of a counter's answers to the span that ends here."""
        self._last[name] = span.after(self.last(name), at, self.doubt)

    def leave(self, name: str, series: int, key: tuple[str, ...], value: float, at: float) -> None:
        """A series of this id was last seen then."""
        self._away[name, series] = _Away(key, value, at)

    def apart(self) -> Remembered:
        """The same, whose changes are its own until they are kept. Nothing is copied."""
        return Remembered(self)

    def keep(self) -> None:
        """Hand the changes to what this stands apart from."""
        if self._under is not None:
            for counter, away in self._away.items():
                self._under._put(counter, away)  # noqa: SLF001 - its own kind
            self._under._last |= self._last  # noqa: SLF001 - its own kind
            self._under.doubt = self.doubt

    def forget(self, at: float, alive: Container[Key]) -> None:
        """Let go of those that have not come back until `at` for a day, or where their allocation is not among those
        that are `alive`, for half an hour. One that comes back even then loses what it grew meanwhile.
        """
        gone = [counter for counter, away in self._away.items() if away is None or away.at < at - away.kept(alive)]
        for counter in gone:
            del self._away[counter]

    def _find(self, counter: _Counter) -> _Away | None:
        if counter in self._away or self._under is None:
            return self._away.get(counter)
        return self._under._find(counter)  # noqa: SLF001 - its own kind

    def _put(self, counter: _Counter, away: _Away | None) -> None:
        if away is None and self._under is None:
            self._away.pop(counter, None)
        else:
            self._away[counter] = away
