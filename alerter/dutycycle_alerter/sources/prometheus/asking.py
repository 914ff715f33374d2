"""Asks the queries of a pass, several at a time, each of every shard; what was not answered is told, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock
from typing import Protocol

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.queries import Query

AT_ONCE = 4
"""Queries that the engine has to answer at the same time."""

Fold = Callable[[Query, Vector], None]


class Engine(Protocol):
    """What is asked: the client of a PromQL engine."""

    def instant(self, query: str, *, at: float, labels: tuple[str, ...]) -> Vector:
        """Every series' value at Unix time `at`, told apart by these labels. Raises SourceError."""
        ...

    def raw(self, query: str, *, at: float, labels: tuple[str, ...]) -> Matrix:
        """The samples of every series. Raises SourceError."""
        ...


def ask(engine: Engine, queries: Iterable[Query], at: float, fold: Fold) -> dict[Query, str]:
    """Hand each answer to `fold`, one at a time and in any order. Returns why queries have no answer.

    An answer is let go as soon as it is folded: all of them at once would take gigabytes.
    """
    failed: dict[Query, str] = {}
    folding = Lock()

    def one(query: Query) -> None:
        answer = engine.instant(query.text, at=at, labels=query.labels)
        with folding:
            fold(query, answer)

    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="promql") as workers:
        asked = {workers.submit(one, query): query for query in queries}
        for future in as_completed(asked):
            try:
                future.result()
            except SourceError as error:
                failed[asked[future]] = str(error)
    return failed
