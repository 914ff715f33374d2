"""What counters said when they were last charged, so that nothing is charged twice where an engine forgets.

An engine may lack later what it has answered with before: it was killed and its log was damaged, or a replica answers
now that has a gap there. A series then begins a span with an older value than the span before ended with. It is charged
from its last value. After a change of the alerter that evaluates nobody remembers that; then the store tells how much
all counters together had said, and where the engine says something else, a step that is longer than the time since is
charged with what its series grows in that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_CARRIED = 1800.0
"""Wall seconds for which a series is remembered that the engine no longer has at all."""


def ids_of(keys: Sequence[tuple[str, ...]]) -> Ids:
    """Numbers for these keys, for as long as this process lives: they are sorted and looked up a hundred thousand at
    a time.
    """
    return np.fromiter(map(hash, keys), np.int64, len(keys))


def joined(parts: Sequence[Ids]) -> Ids:
    """All of them, of which there may be none."""
    return np.concatenate([np.empty(0, np.int64), *parts])


@dataclass(frozen=True, slots=True)
class LastValues:
    """The values of one counter's series at the end of the last span; `ids` ascend, `seen_at` is the end of the last
    span in which there was a sample.
    """

    ids: Ids
    values: Numbers
    seen_at: Numbers
    end: float

    def of(self, ids: Ids) -> Numbers:
        """Those of these series, NaN for those that are not known."""
        if not len(self.ids):
            return np.full(len(ids), np.nan)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.values[places], np.nan)

    def total(self) -> float:
        """The sum of all that were there."""
        return fsum(self.values[self.seen_at >= self.end].tolist())


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the engine has is not what was charged until `since`, and it is not known of which series. Those of `ids`
    (None: all) have not grown since.
    """

    since: float
    ids: Ids | None = None

    def holds(self, ids: Ids) -> Flags:
        """Whether these are doubtful."""
        return np.ones(len(ids), bool) if self.ids is None else np.isin(ids, self.ids)


@dataclass(slots=True)
class SpanEnd:
    """What the answers of one span say of one counter, shard by shard: the ids of all series in them (`present`), and
    of those with a sample at its end (`ids`) their `values`.
    """

    present: list[Ids] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)
    values: list[Numbers] = field(default_factory=list)

    def after(self, before: LastValues | None, end: float, doubt: Doubt | None) -> LastValues:
        """All that is to be remembered once the span that ends here is charged. What is doubtful is nothing to go on
        from where the engine no longer has it.
        """
        ids, values = joined(self.ids), np.concatenate([np.empty(0), *self.values])
        seen_at = np.full(len(ids), end)
        if before is not None:
            away = ~np.isin(before.ids, joined(self.present)) & (before.seen_at > end - _CARRIED)
            if doubt is not None:
                away &= ~doubt.holds(before.ids)
            ids = np.concatenate((ids, before.ids[away]))
            values = np.concatenate((values, before.values[away]))
            seen_at = np.concatenate((seen_at, before.seen_at[away]))
        order = np.argsort(ids, kind="stable")
        return LastValues(ids[order], values[order], seen_at[order], end)
