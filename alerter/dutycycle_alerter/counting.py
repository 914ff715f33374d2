"""Counts what becomes of incidents while this alerter evaluates, from the events that are committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.listing import happened_after, newest

log = logging.getLogger(__name__)

_AT_ONCE = 1000


class Counting:
    """The tally of one alerter's life. Thread-safe. `leads` tells whether it evaluates now.

    For the first `held` wall seconds nothing is added: a scraper must have seen a counter at 0 to see it grow.
    """

    def __init__(
        self,
        database: Database,
        leads: Callable[[], bool],
        *,
        held: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._leads = leads
        self._monotonic = monotonic
        self._from = monotonic() + held
        self._lock = Lock()
        self._after: int | None = None
        self._tally = Tally()

    def begin(self) -> None:
        """A term begins: what happened before it was another's to count. Raises StoreError."""
        with self._lock, self._database.read() as connection:
            self._after = newest(connection)

    def tally(self) -> Tally:
        """The sums until now, or until the store last answered."""
        # Whoever comes while another counts has what that one began with.
        if self._monotonic() >= self._from and self._leads() and self._lock.acquire(blocking=False):
            try:
                self._count()
            except StoreError as error:
                log.warning("what became of incidents was not counted: %s", error)
            finally:
                self._lock.release()
        return self._tally

    def _count(self) -> None:
        while self._after is not None:
            with self._database.read() as connection:
                found = happened_after(connection, self._after, limit=_AT_ONCE)
            # The lease may have ended while we read: then another counts some of it.
            if found and self._leads():
                self._tally = self._tally.with_(found)
                self._after = found[-1].number
            if len(found) < _AT_ONCE or not self._leads():
                return
