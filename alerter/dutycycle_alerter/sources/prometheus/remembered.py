"""What is remembered of counters from one span to the next: what they last said, also of those that went away."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.said import Doubt, Ids, Numbers, Said, Saying, ids_of

_AWAY = 86400.0
"""Wall seconds for which the counters of an allocation that has not ended are remembered."""
_ENDED = 1800.0
"""Wall seconds for which all others are: on a busy cluster they are the most by far, and few of them come back."""

_Counter = tuple[str, tuple[str, ...]]
"""What it counts, and the labels that it is told apart by (`selectors.ACCOUNT`)."""


class Remembered:
    """Counters that were there at the end of the last span, with what they said then, and those that are not there any
    more, with what they said last: one that comes back counts on from there. `doubt` is of what the engine may not have
    what was charged.

    What a pass or a span changes that may come to nothing stands `apart` from it until it is kept.
    """

    def __init__(self, under: Remembered | None = None) -> None:
        self._under = under
        self._away: dict[_Counter, tuple[float, float] | None] = {}
        self._said: dict[str, Said] = {}
        self.doubt: Doubt | None = None if under is None else under.doubt

    def said(self, name: str) -> Said | None:
        """What the series of a counter said at the end of the last span; None before there was one."""
        if name in self._said or self._under is None:
            return self._said.get(name)
        return self._under.said(name)

    def take(self, name: str, start: float, interval: float, ids: Ids) -> Numbers:
        """What these series said when they were charged last, which for most was at the end of the last span; NaN where
        that is not known. None of them is away any more.
        """
        said = self.said(name)
        at_end = said is not None and abs(said.end - start) <= interval / 2
        before = said.of(ids) if said is not None and at_end else np.full(len(ids), np.nan)
        away = list(dict.fromkeys(key for of, key in self._all_away() if of == name))
        numbers = ids_of(away)
        _, places, those = np.intersect1d(ids, numbers, return_indices=True)
        for place, which in zip(places.tolist(), those.tolist(), strict=True):
            held = self._find((name, away[which]))
            if held is not None:
                before[place] = held[0] if np.isnan(before[place]) else before[place]
                self._put((name, away[which]), None)
        return before

    def say(self, name: str, saying: Saying, end: float) -> None:
        """All of a counter's answers to the span that ends here."""
        self._said[name] = saying.after(self.said(name), end, self.doubt)

    def leave(self, name: str, key: tuple[str, ...], value: float, t: float) -> None:
        """It was last seen at `t`."""
        self._away[name, key] = value, t

    def apart(self) -> Remembered:
        """The same, whose changes are its own until they are kept. Nothing is copied."""
        return Remembered(self)

    def keep(self) -> None:
        """Hand the changes to what this stands apart from."""
        if self._under is not None:
            for counter, held in self._away.items():
                self._under._put(counter, held)  # noqa: SLF001 - its own kind
            self._under._said |= self._said  # noqa: SLF001 - its own kind
            self._under.doubt = self.doubt

    def forget(self, at: float, alive: Container[Key]) -> None:
        """Let go of those that have not come back until `at` for a day, or where their allocation is not among those
        that are `alive`, for half an hour. One that comes back even then loses what it grew meanwhile.
        """
        held = self._away.items()
        gone = [counter for counter, value in held if value is None or value[1] < at - _kept(counter, alive)]
        for counter in gone:
            del self._away[counter]

    def _all_away(self) -> Iterator[_Counter]:
        """In any order; some may be there twice, or be back already."""
        yield from self._away
        if self._under is not None:
            yield from self._under._all_away()  # noqa: SLF001 - its own kind

    def _find(self, counter: _Counter) -> tuple[float, float] | None:
        if counter in self._away or self._under is None:
            return self._away.get(counter)
        return self._under._find(counter)  # noqa: SLF001 - its own kind

    def _put(self, counter: _Counter, held: tuple[float, float] | None) -> None:
        if held is None and self._under is None:
            self._away.pop(counter, None)
        else:
            self._away[counter] = held


def _kept(counter: _Counter, alive: Container[Key]) -> float:
    _, (_, node, uuid, mig, workload, _) = counter
    return _AWAY if (node, uuid, mig, workload) in alive else _ENDED
