"""Ends sessions of PostgreSQL that hold what others need, and of whose process nothing more is heard.

PostgreSQL ends a transaction that idles by itself, but not one whose client stopped, or was cut off, in the middle of
sending or receiving something: that one would keep its locks until the kernel finds the connection dead, after hours
or never.
"""

from __future__ import annotations

import sqlalchemy as sa

# Readers hold other locks on the lease's table. The session that the server waits for is of the same user, or is left
# alone: nothing is known of others'.
_END = sa.text(
    """
    SELECT pg_terminate_backend(pid)
    FROM (
        SELECT DISTINCT activity.pid
        FROM pg_stat_activity AS activity JOIN pg_locks AS held ON held.pid = activity.pid AND held.granted
        WHERE activity.datname = current_database()
          AND activity.pid <> pg_backend_pid()
          AND activity.usename = current_user
          AND activity.wait_event IN ('ClientRead', 'ClientWrite')
          AND activity.state_change < clock_timestamp() - make_interval(secs => :silent)
          AND (held.locktype = 'advisory' AND held.mode = 'ExclusiveLock'
               OR held.relation = to_regclass('lease') AND held.mode IN ('RowShareLock', 'RowExclusiveLock'))
          AND (held.database IS NULL OR held.database = activity.datid)
    ) AS stuck
    """
)


def end_silent(connection: sa.Connection, seconds: float) -> int:
    """End those that hold the lease's row or the writers' lock, and were silent for so long. Returns how many."""
    if connection.dialect.name != "postgresql":
        return 0
    return len(connection.execute(_END, {"silent": seconds}).all())
