"""Whose turn it is: who waits for a look at his owner, by how much it matters, and fair by namespace."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from enum import IntEnum


class Rank(IntEnum):
    """How much it matters that it is soon; the lowest first."""

    PLACED = 0
    """A pod that has a node: it holds GPUs, or is about to."""
    PENDING = 1
    OVER = 2
    RENEWAL = 3
    """Its owner is known, and what is written there is read again."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One pod's. `pause` is how long it waits for the next one, should this be in vain, in seconds."""

    uid: str
    namespace: str
    rank: Rank
    pause: float


class Turns:
    """Of each rank all namespaces in turn, within one those who came first. Belongs to one thread. Times are in
    seconds, of any one clock.
    """

    def __init__(self) -> None:
        self._ready: dict[Rank, dict[str, deque[Turn]]] = {rank: {} for rank in Rank}
        self._later: list[tuple[float, int, Turn]] = []
        self._number = 0
        """Keeps the order of those that are due at once."""
        self._counts = dict.fromkeys(Rank, 0)

    def add(self, turn: Turn, due: float) -> None:
        """It may come from `due` on."""
        self._number += 1
        heapq.heappush(self._later, (due, self._number, turn))
        self._counts[turn.rank] += 1

    def take(self, now: float) -> Turn | None:
        """The next one; None where nobody is due."""
        while self._later and self._later[0][0] <= now:
            turn = heapq.heappop(self._later)[2]
            self._ready[turn.rank].setdefault(turn.namespace, deque()).append(turn)
        for namespaces in self._ready.values():
            if namespaces:
                return self._first(namespaces)
        return None

    def due(self) -> float | None:
        """When the next one comes, after `take` gave None; None where there is none."""
        return self._later[0][0] if self._later else None

    @property
    def waiting(self) -> int:
        """How many there are, without renewals."""
        return sum(self._counts.values()) - self.renewals

    @property
    def renewals(self) -> int:
        """How many renewals there are."""
        return self._counts[Rank.RENEWAL]

    def _first(self, namespaces: dict[str, deque[Turn]]) -> Turn:
        namespace = next(iter(namespaces))
        queue = namespaces.pop(namespace)
        turn = queue.popleft()
        if queue:
            namespaces[namespace] = queue
        self._counts[turn.rank] -= 1
        return turn
