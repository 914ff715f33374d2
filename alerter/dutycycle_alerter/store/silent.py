"""Sessions of PostgreSQL that hold what others need; it ends those of whose process nothing more is heard.

PostgreSQL ends a transaction that idles by itself, but not one whose client stopped, or was cut off, in the middle of
sending or receiving something: that one would keep its locks until the kernel finds the connection dead, after hours
or never.
"""

from __future__ import annotations

import sqlalchemy as sa

from dutycycle_alerter.store.postgresql import MIGRATING, WRITERS

_IN_THIS_DATABASE = "held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

# Readers hold other locks on the lease's table. The session that the server waits for is of the same user, or is left
# alone: nothing is known of others'. A migration may be long, and nothing says that it is silent for no reason.
_END = sa.text(
    f"""
    SELECT pg_terminate_backend(pid)
    FROM (
        SELECT DISTINCT activity.pid
        FROM pg_stat_activity AS activity JOIN pg_locks AS held ON held.pid = activity.pid AND held.granted
        WHERE activity.pid <> pg_backend_pid()
          AND activity.usename = current_user
          AND activity.application_name <> :migrating
          AND activity.wait_event IN ('ClientRead', 'ClientWrite')
          AND activity.state_change < clock_timestamp() - make_interval(secs => :silent)
          AND {_IN_THIS_DATABASE}
          AND (held.locktype = 'advisory' AND held.mode = 'ExclusiveLock'
               AND held.classid = CAST(:high AS bigint) AND held.objid = CAST(:low AS bigint) AND held.objsubid = 1
               OR held.relation = to_regclass('lease') AND held.mode IN ('RowShareLock', 'RowExclusiveLock'))
    ) AS stuck
    """  # noqa: S608 - all of it is ours
)

# Of those who lock rows of it to see that they are their own, and not to change them.
_HELD = sa.text(
    f"""
    SELECT EXISTS (
        SELECT FROM pg_locks AS held
        WHERE held.granted AND {_IN_THIS_DATABASE}
          AND held.relation = to_regclass('lease') AND held.mode = 'RowShareLock'
    )
    """  # noqa: S608 - all of it is ours
)


def end_silent(connection: sa.Connection, seconds: float) -> int:
    """End those that hold the lease's row or the writers' lock, and were silent for so long. Returns how many."""
    if connection.dialect.name != "postgresql":
        return 0
    lock = {"high": WRITERS >> 32, "low": WRITERS & 0xFFFF_FFFF}
    return len(connection.execute(_END, {"silent": seconds, "migrating": MIGRATING, **lock}).all())


def is_held(connection: sa.Connection) -> bool:
    """Whether a transaction of the one that evaluates has locked the lease's row. SQLite's readers cannot know."""
    return connection.dialect.name == "postgresql" and bool(connection.execute(_HELD).scalar())
