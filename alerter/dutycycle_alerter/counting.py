"""Counts what becomes of incidents while this alerter evaluates, from the events that are committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.listing import happened_after, newest

log = logging.getLogger(__name__)

_AT_ONCE = 1000


class Term(Protocol):
    """What an alerter evaluates in."""

    @property
    def over(self) -> bool:
        """Whether another may evaluate."""
        ...


class Counting:
    """The tally of one alerter's life. Thread-safe. It counts at scrapes and after each pass, in its terms alone.

    For the first `held` wall seconds nothing is added: a scraper must have seen a counter at 0 to see it grow.
    """

    def __init__(
        self,
        database: Database,
        *,
        held: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._from = monotonic() + held
        self._lock = Lock()
        self._term: Term | None = None
        self._after = 0
        self._tally = Tally()

    def begin(self, term: Term) -> None:
        """A term begins: what happened before it was another's to count. Raises StoreError."""
        with self._lock:
            with self._database.read() as connection:
                after = newest(connection)
            self._term, self._after, self._tally = term, after, self._tally.forgetful()

    def tally(self, answers: bool = True) -> Tally:
        """The sums until now, or until the store last answered. Where it is known not to answer it is not asked."""
        # Whoever comes while another counts has what that one began with.
        if answers and self._monotonic() >= self._from and self._lock.acquire(blocking=False):
            try:
                self._count()
            except StoreError as error:
                log.warning("what became of incidents was not counted: %s", error)
            finally:
                self._lock.release()
        return self._tally

    def _may(self) -> bool:
        return self._term is not None and not self._term.over

    def _count(self) -> None:
        while self._may():
            with self._database.read() as connection:
                found = happened_after(connection, self._after, limit=_AT_ONCE)
            # The lease may have ended while we read: then another counts some of it.
            if not self._may():
                return
            if found:
                self._tally = self._tally.with_(found)
                self._after = found[-1].number
            if len(found) < _AT_ONCE:
                return
