"""Asks the queries of a pass, several at a time, each of every shard; what was not answered is told, not guessed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Protocol

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.selectors import Query

AT_ONCE = 4
"""Queries that the engine has to answer at the same time."""

Fold = Callable[[Query, Vector], None]


class Engine(Protocol):
    """What is asked: the client of a PromQL engine."""

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        """Every series' value at Unix time `at`, told apart by these labels. Raises SourceError, at the latest after
        `within` seconds.
        """
        ...

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        """The samples of every series. Raises SourceError, at the latest after `within` seconds."""
        ...


class Deadline:
    """Until when one pass asks: `seconds` of real time from now. Thread-safe."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def near(self) -> bool:
        """Whether less than half of the time is left."""
        return self._at - time.monotonic() < self._seconds / 2

    def left(self) -> float:
        """Seconds that are left. Raises SourceError where none is."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise SourceError(f"the pass took longer than prometheus.pass_timeout ({self._seconds:g} s)")
        return left


def ask(
    engine: Engine, queries: Iterable[Query], at: float, fold: Fold, *, deadline: Deadline, all_needed: bool = False
) -> dict[Query, str]:
    """Hand each answer to `fold`, one at a time and in any order. Returns why queries have no answer.

    With `all_needed` the first failure ends it: what has not been asked then is not asked any more, and not told of.
    An answer is let go as soon as it is folded: all of them at once would take gigabytes.
    """
    failed: dict[Query, str] = {}
    folding = Lock()
    given_up = Event()

    def one(query: Query) -> None:
        if given_up.is_set():
            return
        try:
            answer = engine.instant(query.text, at=at, labels=query.labels, within=deadline.left())
        except SourceError as error:
            failed[query] = str(error)
            if all_needed:
                given_up.set()
            return
        with folding:
            fold(query, answer)

    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="promql") as workers:
        for future in [workers.submit(one, query) for query in queries]:
            future.result()
    return failed
