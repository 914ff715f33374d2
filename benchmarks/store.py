"""What the store costs on SQLite and on PostgreSQL: a pass's transaction with thousands of changed incidents.

Each round opens, changes or ends all of them and counts usage of as many jobs, as a pass does; the figures are wall
seconds of whole transactions. PostgreSQL waits for the disk here, as in production.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.results import Row
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Resolution, State, Step
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.store import incidents, ledger
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.store.test_incidents import NOW, incident
from tests.postgres.server import PostgresServer

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    results.arguments(parser)
    parser.add_argument("--incidents", type=int, help="changed by each pass (2,000)")
    asked = parser.parse_args()
    number = asked.incidents or (200 if asked.quick else 2_000)
    rows = []
    with tempfile.TemporaryDirectory() as folder, PostgresServer(settings=("fsync=on",)) as server:
        for kind, url in (
            ("SQLite", f"sqlite:///{folder}/store.sqlite3"),
            ("PostgreSQL", server.url(server.create())),
        ):
            with closing(open_database(url, time_scale=1)) as database:
                taken = measured(database, number)
            told = "; ".join(f"{what} {statistics.median(seconds):.2f} s" for what, seconds in taken.items())
            rows.append(Row(f"the store on {kind}, {number:,} incidents changed by a pass, median of {ROUNDS}", told))
    results.report(rows, asked)


def measured(database: Database, number: int) -> dict[str, list[float]]:
    """Seconds of each kind of work, by round."""
    subjects = [f"slurm/{i}" for i in range(number)]
    taken: dict[str, list[float]] = {}

    def timed(what: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        taken.setdefault(what, []).append(time.perf_counter() - began)

    for turn in range(ROUNDS):
        now = NOW + 3600.0 * turn
        timed("a pass that opens them all", lambda now=now: fold(database, subjects, lambda s, _: opened(s, now), now))
        timed("a pass that changes them all", lambda now=now: fold(database, subjects, changed, now + 60))
        timed("a pass that ends them all", lambda now=now: fold(database, subjects, ended, now + 120))
        timed("the list of the page", lambda: page(database))
    return taken


Change = Callable[[str, Incident | None], Step]


def fold(database: Database, subjects: list[str], change: Change, now: float) -> None:
    """What a pass does in its transaction."""
    with database.write() as connection:
        known = incidents.latest(connection, subjects)
        incidents.save_all(
            connection, [(known.get(subject), change(subject, known.get(subject))) for subject in subjects]
        )
        jobs = [Job(subject, (Gpu("gpu1", "0"),), NOW, user=f"user{len(subject)}") for subject in subjects]
        ledger.add(connection, now, [(job, Consumption("H200", 480.0, 480.0, 240.0, 1e5)) for job in jobs])


def opened(subject: str, now: float) -> Step:
    return Step(incident(subject, nodes=("gpu1", "gpu2"), opened_at=now), (Event(now, EventKind.OPENED, "opened"),))


def changed(_subject: str, before: Incident | None) -> Step:
    assert before is not None
    return Step(replace(before, wasted=before.wasted + 480, updated_at=before.updated_at + 60))


def ended(_subject: str, before: Incident | None) -> Step:
    assert before is not None
    now = before.updated_at + 60
    after = replace(before, state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=now, updated_at=now)
    return Step(after, (Event(now, EventKind.RESOLVED, "ended"),))


def page(database: Database) -> None:
    with database.read() as connection:
        incidents.find(connection, IncidentFilter(), limit=100, offset=0)
        incidents.active_counts(connection)


if __name__ == "__main__":
    main()
