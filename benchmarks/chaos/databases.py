"""The site's PostgreSQL on a small disk, which also keeps who wrote what only an evaluator may write."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

import psycopg

from tests.postgres.server import USER, PostgresServer

from .disks import SmallDisk
from .record import Write

_MEGABYTES = 400
_WATCHED = ("incident", "usage_hour", "fleet_hour")
"""What only passes write here: nobody acts on an incident, and nothing is deleted in the time of a run."""
_AUDIT = f"""
CREATE SCHEMA chaos;
CREATE TABLE chaos.written (at double precision, what text, replica text, holder text, epoch integer);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO chaos.written SELECT extract(epoch FROM clock_timestamp()), TG_TABLE_NAME,
    current_setting('application_name'), coalesce(max(holder), ''), coalesce(max(epoch), 0)
    FROM public.lease WHERE expires_at > 0;
  RETURN NULL;
END $$;
GRANT USAGE ON SCHEMA chaos TO {USER};
GRANT EXECUTE ON FUNCTION chaos.note() TO {USER};
"""


_IN_A_PASS = """
SELECT FROM pg_locks JOIN pg_stat_activity AS session USING (pid)
WHERE session.application_name = %s AND mode = 'RowExclusiveLock' AND relation = ANY(%s::regclass[]) LIMIT 1
"""


class Database:
    """A context manager. `url` is that of the store, for the harness and (past a link) for alerters."""

    def __init__(self) -> None:
        self.server = PostgresServer(
            settings=("max_wal_size=64MB", "min_wal_size=32MB", "log_lock_waits=on", "track_commit_timestamp=on")
        )
        self.disk = SmallDisk(self.server.directory, _MEGABYTES)
        self._stack = ExitStack()
        self.wanted = True
        self.name = ""

    def __enter__(self) -> Self:
        self._stack.enter_context(self.disk)
        self._stack.enter_context(self.server)
        self.name = self.server.create()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(AssertionError):
            self.server.thaw()
        self._stack.close()
        # Its server could not remove it while a disk was mounted there.
        with suppress(OSError):
            self.server.directory.rmdir()

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def audit(self) -> None:
        """From now on it is noted who writes. The tables must be there."""
        triggers = "".join(
            f"CREATE TRIGGER chaos AFTER INSERT OR UPDATE OR DELETE ON public.{table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION chaos.note();\n"
            for table in _WATCHED
        )
        triggers += (
            "CREATE TRIGGER chaos AFTER UPDATE OR DELETE ON public.incident_event "
            "FOR EACH ROW EXECUTE FUNCTION chaos.note();\n"
        )
        self.server.execute(_AUDIT + triggers, database=self.name)

    def written(self) -> tuple[Write, ...]:
        # When a statement was made is not when it came to count: its transaction may have been held up in between.
        committed = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::double precision"
        statement = f"SELECT at, what, replica, holder, epoch, {committed} FROM chaos.written ORDER BY at"
        return tuple(Write(*row) for row in self.server.execute(statement, database=self.name))

    @contextmanager
    def passes(self, replica: str) -> Iterator[Callable[[], bool]]:
        """Tells, each time that it is called, whether a pass of this alerter has written and not yet committed."""
        where = f"host={self.server.directory} port={self.server.port} user=admin dbname={self.name}"
        with psycopg.connect(where, autocommit=True, connect_timeout=5) as connection:
            yield lambda: connection.execute(_IN_A_PASS, (replica, list(_WATCHED))).fetchone() is not None

    def kill(self) -> None:
        self.wanted = False
        with suppress(AssertionError):
            self.server.kill()

    def start(self) -> None:
        """Again, as a supervisor does: until it runs."""
        self.wanted = True
        deadline = time.monotonic() + 60
        while True:
            try:
                self.server.start()
            except (AssertionError, psycopg.Error):
                if time.monotonic() > deadline:
                    raise
                self._bury()
                time.sleep(0.5)
            else:
                return

    def restart(self) -> None:
        self.server.stop(signal.SIGINT)
        self.start()

    def revive(self) -> None:
        """Start it where it ended by itself, as it does when its disk is full."""
        if self.ended():
            self._bury()
            self.start()

    def ended(self) -> bool:
        process = self.server._process  # noqa: SLF001 - whether it runs is not told otherwise
        return process is None or process.poll() is not None

    def _bury(self) -> None:
        process = self.server._process  # noqa: SLF001
        if process is not None and process.poll() is None:
            return
        self.server._process = None  # noqa: SLF001
