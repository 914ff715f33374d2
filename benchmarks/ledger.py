"""What reports of a ledger of ten million rows cost on SQLite and on PostgreSQL: the quarter of a large site.

Each report is asked of `StoreReader` as the command line asks it, of the whole ledger, of a third of it and of its last
week; the figures are medians of wall seconds. PostgreSQL has the memory that it has by default, and has gathered its
statistics, as autovacuum does in production.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.results import Row
from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.reports.model import Asked, Kind, read
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.ledger import HOUR
from dutycycle_alerter.store.reader import StoreReader
from tests.postgres.server import PostgresServer

HOURS = 90 * 24
BEGIN = 1_760_000_400.0
ROUNDS = 3
DAYS = (90, 30, 7)
MEMORY = "shared_buffers=128MB"

# Jobs of twelve hours, a tenth of them on two models, of 2,000 users in 200 accounts of two clusters.
_ROWS = """
INSERT INTO usage_hour (hour, job, model, cluster, scheduler, "user", account, allocated, observed, busy, energy, idle,
                        spread)
WITH RECURSIVE slot(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM slot WHERE i + 1 < :slots),
     held AS (SELECT i, i % :jobs AS j, ((:hour + i % :jobs) / 12) * :jobs + i % :jobs AS job FROM slot)
SELECT CAST(:at AS double precision), 'slurm/cluster' || (j % 2) || '/' || (1000000 + job),
       CASE WHEN i >= :jobs THEN 'NVIDIA H100 80GB HBM3' WHEN j % 3 = 0 THEN 'NVIDIA A100-SXM4-80GB'
            ELSE 'NVIDIA H200' END,
       'cluster' || (j % 2), 'slurm', 'user' || (job % 2000), 'account' || (job % 2000 / 10),
       14400, 14100, 14100 * (job % 100) / 100.0, 5e6, CASE WHEN job % 7 = 0 THEN 14100 * (100 - job % 100) / 100.0
       ELSE 0 END, CASE WHEN job % 20 = 0 THEN 14400 ELSE 0 END
FROM held ORDER BY 2, 3
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    results.arguments(parser)
    parser.add_argument("--rows", type=int, help="of the ledger (10,000,000)")
    asked = parser.parse_args()
    rows = asked.rows or (100_000 if asked.quick else 10_000_000)
    told = []
    with tempfile.TemporaryDirectory() as folder, PostgresServer(settings=("fsync=on", MEMORY)) as server:
        for kind, url in (
            ("SQLite", f"sqlite:///{folder}/store.sqlite3"),
            ("PostgreSQL", server.url(server.create())),
        ):
            with closing(open_database(url, time_scale=1)) as database:
                size = fill(database, max(10, rows // HOURS))
                what = f"reports of a ledger of {size:,} rows on {kind}, median of {ROUNDS}"
                told += [Row(f"{what}: {asked_for}", figure) for asked_for, figure in measure(database)]
            Path(folder, "store.sqlite3").unlink(missing_ok=True)
    results.report(told, asked)


def fill(database: Database, slots: int) -> int:
    """A ledger of `slots` rows an hour; returns how many rows there are."""
    jobs = max(1, slots * 10 // 11)
    statement = sa.text(_ROWS)
    for day in range(0, HOURS, 24):
        with database.write() as connection:
            for hour in range(day, day + 24):
                at = BEGIN + HOUR * hour
                connection.execute(statement, {"slots": slots, "jobs": jobs, "hour": hour, "at": at})
    with database.write() as connection:
        connection.exec_driver_sql("ANALYZE")
    with database.read() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM usage_hour").scalar_one())


def measure(database: Database) -> Iterator[tuple[str, str]]:
    """What was asked for, and how long it took."""
    reader = StoreReader(database)
    until = BEGIN + HOUR * HOURS
    for kind in Kind:
        each = [taken(reader, Asked(kind, until - days * 86400, until)) for days in DAYS]
        yield f"{kind} of {', '.join(map(str, DAYS))} days", "; ".join(each)
    mine = Asked(Kind.USERS, until - DAYS[0] * 86400, until, user="user0")
    yield f"one user's of {DAYS[0]} days", taken(reader, mine)


def taken(reader: StoreReader, asked: Asked) -> str:
    """The median of some rounds, or what the store says where it gives up."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        try:
            read(reader, asked)
        except StoreError as error:
            return f"given up after {time.perf_counter() - began:.1f} s: {error}"
        seconds.append(time.perf_counter() - began)
    return f"{statistics.median(seconds):.2f} s"


if __name__ == "__main__":
    main()
