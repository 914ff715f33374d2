"""Somebody acts on incidents through one alerter while passes of another change the same: on either database, nothing
that was done is lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.errors import StoreError, TransitionError
from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import Rig, Store, running
from tests.alerter.test_engine_killed import check_history

START = 1_750_000_000.0
JOBS = 4
MINUTES = 100


def idling() -> FakeExporter:
    node = FakeExporter("gpu01", JOBS)
    for gpu in range(JOBS):
        node.allocate(f"slurm/{gpu}", gpu, start=START)
    return node


class Given:
    """A source of which several engines may take the same evidence at a time."""

    def __init__(self) -> None:
        self.read = Evidence()

    @contextmanager
    def evidence(self, at: float) -> Iterator[Evidence]:
        yield replace(self.read, accounted_from=None)

    def targets(self) -> tuple[()]:
        return ()

    def replaying(self) -> bool:
        return False


def pass_by_pass(rig: Rig, *databases: Database) -> list[str]:
    """An engine over each, at once. Jobs idle for fifty minutes and work for thirty, in turn. Returns what failed."""
    failures: list[str] = []
    given = Given()
    engines = [Engine(rig.settings, given, database, rig.clock) for database in databases]

    def run(engine: Engine) -> None:
        try:
            engine.run_pass()
        except StoreError as error:
            failures.append(str(error))

    for minute in range(MINUTES):
        rig.step(1, 0.0 if minute % 80 < 50 else 0.9)
        with rig.source.evidence(rig.clock()) as given.read:
            threads = [threading.Thread(target=run, args=(engine,)) for engine in engines]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return failures


def test_what_people_do_while_passes_run_is_kept_and_so_is_what_passes_do(store: Store) -> None:
    with running(store, idling(), interval=60) as rig:
        other = open_database(rig.url)
        people = StoreReader(other, rig.clock)
        done: Counter[tuple[int, EventKind]] = Counter()
        stop = threading.Event()

        def act() -> None:
            while not stop.is_set():
                for item in people.incidents(IncidentFilter())[0]:
                    kind = (EventKind.ACKNOWLEDGED, EventKind.SNOOZED)[sum(done.values()) % 2]
                    try:
                        if kind is EventKind.ACKNOWLEDGED:
                            people.acknowledge(item.id, actor="alice")
                        else:
                            people.snooze(item.id, until=rig.clock() + 600, actor="bob")
                    except TransitionError:
                        continue  # it was resolved just then
                    done[item.id, kind] += 1
                stop.wait(0.01)

        acting = threading.Thread(target=act)
        acting.start()
        try:
            failures = pass_by_pass(rig, rig.database)
        finally:
            stop.set()
            acting.join()
        assert failures == []
        assert sum(done.values()) > JOBS
        told: Counter[tuple[int, EventKind]] = Counter()
        for item in people.incidents(IncidentFilter(), limit=1000)[0]:
            kinds = [event.kind for event in people.events(item.id)]
            check_history(item, kinds)
            told.update((item.id, kind) for kind in kinds if (item.id, kind) in done)
        assert told == done
        other.close()


def test_two_alerters_that_pass_at_once_open_no_second_incident_and_do_not_fail(store: Store) -> None:
    """Without a lease, even; only usage would be counted twice."""
    with running(store, idling(), interval=60) as rig:
        second = open_database(rig.url)
        assert pass_by_pass(rig, rig.database, second) == []
        found = rig.reader.incidents(IncidentFilter(), limit=1000)[0]
        assert Counter(item.subject for item in found) == {f"slurm/{gpu}": 1 for gpu in range(JOBS)}
        for item in found:
            check_history(item, [event.kind for event in rig.reader.events(item.id)])
        second.close()
