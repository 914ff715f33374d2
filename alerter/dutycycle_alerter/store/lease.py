"""Who of several alerters evaluates: a row with its holder, an epoch, and its end by the database's clock.

Whatever an evaluator writes is written in a transaction that has first locked this row and found its own epoch in it.
So terms never overlap: who was paused, or cut off, and goes on after another took over cannot commit. The row is
locked until the end of such a transaction; whoever stops in the middle of one is ended by the database once the lease
is over (`idle_in_transaction_session_timeout`), so that another can have it.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dutycycle_alerter.elapsed import elapsed
from dutycycle_alerter.errors import LeaseLostError
from dutycycle_alerter.store.clock import DatabaseClock, database_time
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.postgresql import IDLE_LIMIT
from dutycycle_alerter.store.schema import lease
from dutycycle_alerter.store.silent import end_silent, is_held
from dutycycle_alerter.views import Evaluating

log = logging.getLogger(__name__)

NAME = "evaluator"
_MINE = sa.and_(lease.c.name == NAME, lease.c.epoch == sa.bindparam("of_epoch"), lease.c.holder == sa.bindparam("me"))
_NOT_OVER = lease.c.expires_at > database_time()
# Where the database's clock was set back, an end further away than any lease reaches is nobody's.
_REACHED = lease.c.expires_at <= database_time() + 2 * lease.c.length
_FREE = sa.not_(sa.and_(_NOT_OVER, _REACHED))


_TOKEN = re.compile("#[0-9a-f]{16}$")


class Lease:
    """The lease as one alerter sees it. `holder` is how people call it, who may call several the same; `length` in wall
    seconds.

    `clock` learns the database's time from every answer. `alone` tells that no other alerter can be alive on this
    database: then the lease is taken without waiting for its end.
    """

    def __init__(
        self,
        database: Database,
        holder: str,
        length: float,
        *,
        clock: DatabaseClock | None = None,
        alone: bool = False,
        monotonic: Callable[[], float] = elapsed,
    ) -> None:
        self._database = database
        self.holder = holder
        self._identity = f"{holder}#{secrets.token_hex(8)}"
        self.length = length
        self._clock = clock or DatabaseClock(database)
        self._alone = alone
        self._monotonic = monotonic

    def look(self) -> tuple[Evaluating | None, bool]:
        """Who has or had it (None: nobody ever), and whether it can be taken. Raises StoreError."""
        columns = lease.c
        query = sa.select(columns.holder, columns.epoch, columns.expires_at, _FREE, database_time())
        with self._database.read() as connection:
            row = self._clock.tell(connection, query.where(columns.name == NAME))
        if row is None:
            return None, True
        holder, epoch, expires_at, free, _ = row
        return Evaluating(_shown(holder), epoch, expires_at), bool(free) or self._alone

    def take(self) -> Term | None:
        """Begin a term where the lease is over or was released; None where somebody has it. Raises StoreError."""
        begun = self._monotonic()
        values = {"holder": self._identity, "length": self.length, "expires_at": database_time() + self.length}
        with self._database.write(alone=False) as connection:
            _end_when_idle(connection, self.length)
            # Whoever had it, and stopped while holding its row, must not keep it for good. A session that works is
            # never silent for a quarter of a lease.
            ended = end_silent(connection, self.length / 4)
            if ended:
                log.warning("sessions that held the lease and were silent were ended: %d", ended)
            wanted = lease.c.name == NAME if self._alone else sa.and_(lease.c.name == NAME, _FREE)
            update = sa.update(lease).where(wanted).values(epoch=lease.c.epoch + 1, **values)
            # Two alerters that are the first on a new database both try; the second waits for what the first does.
            nobody = {"name": NAME, "holder": "", "epoch": 0, "length": self.length, "expires_at": 0.0}
            connection.execute(_insert(connection, nobody))
            epoch = connection.execute(update.returning(lease.c.epoch)).scalar()
            if epoch is None:
                return None
        return Term(self._database, self._identity, self.length, epoch, begun, self._clock, self._monotonic)


class Term:
    """What an alerter may do from taking the lease to losing it. Thread-safe.

    `write` is the only way in which an evaluator may change the store.
    """

    def __init__(
        self,
        database: Database,
        holder: str,
        length: float,
        epoch: int,
        begun: float,
        clock: DatabaseClock,
        monotonic: Callable[[], float],
    ) -> None:
        self.epoch = epoch
        self._database = database
        self._me = {"of_epoch": epoch, "me": holder}
        self._length = length
        self._confirmed = begun
        self._clock = clock
        self._monotonic = monotonic
        self._lost = False
        self._open: _Open | None = None

    @property
    def age(self) -> float:
        """Seconds since the lease was last made longer, at least: the answer may have taken a while."""
        return self._monotonic() - self._confirmed

    @property
    def over(self) -> bool:
        """Whether another may have it. It needs no database to know that: the end is at most a length away. Nobody can
        have it while one of our own transactions holds its row.
        """
        return self._lost or (self.age >= self._length and not self._held)

    @property
    def _held(self) -> bool:
        """Whether the row is locked by us. A server that hears nothing for as long as a lease ends a transaction."""
        held = self._open
        return held is not None and held.silent < min(self._length, IDLE_LIMIT)

    def read(self) -> AbstractContextManager[sa.Connection]:
        """A consistent view. Raises StoreError."""
        return self._database.read()

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction that commits as a whole or not at all, and only in this term. Raises LeaseLostError,
        StoreError.
        """
        self._check(not self.over)
        held: _Open | None = None
        try:
            with self._database.write() as connection:
                _end_when_idle(connection, self._length)
                mine = sa.select(_NOT_OVER).where(_MINE).with_for_update()
                self._check(bool(connection.execute(mine, self._me).scalar()))
                self._open = held = _Open(connection, self._monotonic)
                try:
                    yield connection
                except LeaseLostError:
                    self._lost = True  # whoever writes found that the store is not what this term made of it
                    raise
                # Nobody else could have it since: also after a transaction that took longer than the lease.
                confirmed = self._monotonic()
                longer = sa.update(lease).where(_MINE).values(expires_at=self._end())
                self._check(connection.execute(longer, self._me).rowcount == 1)
            self._confirmed = max(self._confirmed, confirmed)
        finally:
            if self._open is held:
                self._open = None

    def renew(self) -> None:
        """Make it longer. Where one of our own transactions holds the row nothing is to be done: it makes it longer
        when it ends. Raises LeaseLostError, StoreError.
        """
        self._check(not self.over)
        if self._held:
            return
        confirmed = self._monotonic()
        update = sa.update(lease).where(_MINE, _NOT_OVER).values(expires_at=self._end()).returning(database_time())
        with self._database.write(alone=False) as connection:
            _end_when_idle(connection, self._length)
            # A replica that only serves pages writes too, and may stop while it does.
            end_silent(connection, IDLE_LIMIT)
            self._check(self._clock.tell(connection, update, self._me) is not None)
        self._confirmed = max(self._confirmed, confirmed)

    def release(self) -> None:
        """Let another have it at once; harmless where it is lost. Raises StoreError."""
        self._lost = True
        with self._database.write(alone=False) as connection:
            _end_when_idle(connection, self._length)
            connection.execute(sa.update(lease).where(_MINE, _NOT_OVER).values(expires_at=database_time()), self._me)

    def _end(self) -> sa.ColumnElement[float]:
        return database_time() + self._length

    def _check(self, mine: bool) -> None:
        if not mine:
            self._lost = True
            raise LeaseLostError(
                f"the lease of epoch {self.epoch} is over: nothing more is written in it, another alerter may evaluate"
            )


class _Open:
    """A transaction that has locked the lease's row: how long the server has heard nothing of it."""

    def __init__(self, connection: sa.Connection, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heard = monotonic()
        self._asked = False
        sa.event.listen(connection, "before_cursor_execute", self._ask)
        sa.event.listen(connection, "after_cursor_execute", self._hear)

    @property
    def silent(self) -> float:
        """Seconds. None of them go by while an answer is waited for, which is never without end."""
        return 0.0 if self._asked else self._monotonic() - self._heard

    def _ask(self, *_: object) -> None:
        self._asked = True

    def _hear(self, *_: object) -> None:
        self._heard = self._monotonic()
        self._asked = False


def load_evaluating(connection: sa.Connection) -> Evaluating | None:
    """Who evaluates, or did last; None before anybody did."""
    columns = lease.c
    row = connection.execute(
        sa.select(
            columns.holder, columns.epoch, columns.expires_at, columns.length, database_time().label("now")
        ).where(columns.name == NAME)
    ).first()
    if row is None:
        return None
    held = row.expires_at <= row.now and is_held(connection)
    # Whoever holds the row makes it longer when it is done; until then nobody else can have it.
    return Evaluating(_shown(row.holder), row.epoch, row.now + row.length if held else row.expires_at)


def _shown(identity: str) -> str:
    """A holder without what only tells it from others of its name."""
    return _TOKEN.sub("", identity)


def _insert(connection: sa.Connection, row: Mapping[str, Any]) -> sa.Insert:
    """Make a row where there is none."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(lease).values(row).on_conflict_do_nothing()
    return sqlite.insert(lease).values(row).on_conflict_do_nothing()


def _end_when_idle(connection: sa.Connection, length: float) -> None:
    """Have the database end this transaction when nothing is heard of us for the length of a lease, if that is less
    than it grants in any case. For this transaction only: connections may be shared behind a pooler.
    """
    if connection.dialect.name == "postgresql" and length < IDLE_LIMIT:
        value = str(max(1, round(1000 * length)))
        connection.execute(sa.select(sa.func.set_config("idle_in_transaction_session_timeout", value, True)))
