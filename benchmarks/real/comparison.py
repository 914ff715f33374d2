"""The same run seen twice: which incidents agree, and which users are in the same place of the histogram. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BINS = 20
TOLERANCE = 120.0
"""Seconds by which the same incident may have opened earlier or later."""


@dataclass(frozen=True)
class Seen:
    """An incident, in seconds of its run."""

    rule: str
    opened: float
    ended: float | None = None
    resolution: str = ""

    def __str__(self) -> str:
        return f"{self.rule} at {clock(self.opened)}"


@dataclass(frozen=True)
class Pair:
    """The same incident by both; or by one alone, the other is None then."""

    analyzed: Seen | None
    chain: Seen | None

    @property
    def apart(self) -> float | None:
        """Seconds by which the chain opened it later."""
        if self.analyzed is None or self.chain is None:
            return None
        return self.chain.opened - self.analyzed.opened

    @property
    def near(self) -> bool:
        """Whether both opened it at the same time."""
        return self.apart is not None and abs(self.apart) <= TOLERANCE

    @property
    def agrees(self) -> bool:
        """Whether it is also under the same rule in the end."""
        return (
            self.near and self.analyzed is not None and self.chain is not None and self.analyzed.rule == self.chain.rule
        )

    @property
    def difference(self) -> str:
        """What is different, in words; empty where they agree."""
        if self.analyzed is None:
            return f"the chain alone: {self.chain}"
        if self.chain is None:
            return f"analyze alone: {self.analyzed}"
        if self.near:
            return "" if self.agrees else f"{self.analyzed} is {self.chain.rule} in the end for the chain"
        assert self.apart is not None
        return f"{self.analyzed.rule} {self.apart / 60:+.1f} min in the chain"


def pairs(analyzed: Sequence[Seen], chain: Sequence[Seen]) -> list[Pair]:
    """Incidents of the same rule, nearest first, then those of another that opened at the same time; each with one at
    most. What is left stands alone.
    """
    candidates = sorted(
        (ours.rule != theirs.rule, abs(theirs.opened - ours.opened), i, k)
        for i, ours in enumerate(analyzed)
        for k, theirs in enumerate(chain)
        if ours.rule == theirs.rule or abs(theirs.opened - ours.opened) <= TOLERANCE
    )
    matched: dict[int, int] = {}
    for *_, i, k in candidates:
        if i not in matched and k not in matched.values():
            matched[i] = k
    found = [Pair(ours, chain[matched[i]] if i in matched else None) for i, ours in enumerate(analyzed)]
    found += [Pair(None, theirs) for k, theirs in enumerate(chain) if k not in matched.values()]
    return sorted(found, key=_opened)


def _opened(pair: Pair) -> float:
    return min(seen.opened for seen in (pair.analyzed, pair.chain) if seen is not None)


@dataclass(frozen=True)
class Usage:
    """GPU-seconds of a user."""

    observed: float
    busy: float

    @property
    def mean(self) -> float | None:
        """0..1; None where nothing was measured."""
        return self.busy / self.observed if self.observed > 0 else None


def bin_of(mean: float) -> int:
    """The bin of 5 points; 100 % is in the last."""
    return min(BINS - 1, int(mean * BINS + 1e-9))


def users_by_bin(users: Mapping[str, Usage]) -> tuple[int, ...]:
    """How many users have their mean in each bin; those of whom nothing was measured are in none."""
    counts = [0] * BINS
    for usage in users.values():
        if usage.mean is not None:
            counts[bin_of(usage.mean)] += 1
    return tuple(counts)


def hours_by_bin(users: Mapping[str, Usage]) -> tuple[float, ...]:
    """Measured GPU-hours of the users in each bin."""
    hours = [0.0] * BINS
    for usage in users.values():
        if usage.mean is not None:
            hours[bin_of(usage.mean)] += usage.observed / 3600
    return tuple(hours)


def moved(one: Mapping[str, Usage], other: Mapping[str, Usage]) -> list[str]:
    """Users who are not in the same bin for both."""

    def place(users: Mapping[str, Usage], user: str) -> int | None:
        mean = users[user].mean if user in users else None
        return None if mean is None else bin_of(mean)

    return sorted(user for user in {*one, *other} if place(one, user) != place(other, user))


def clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}"
