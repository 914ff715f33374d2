"""Alerters that fight over one lease, are stopped and killed at any moment, and whose clocks are five minutes apart:
never two that commit in one epoch, never a second open incident, and no second of usage counted twice or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import pytest
import sqlalchemy as sa

from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.lease.fighting import TIME_SCALE, Ring, commits, metadata
from tests.alerter.test_engine_killed import check_history


@pytest.mark.parametrize("turns", [300, pytest.param(10_000, marks=pytest.mark.soak, id="soak")])
def test_terms_never_overlap_however_they_end(
    postgres_url: str, turns: int, record_property: Callable[[str, object], None]
) -> None:
    database = open_database(postgres_url, time_scale=TIME_SCALE)
    with database.write() as connection:
        metadata.create_all(connection)
    ring = Ring(postgres_url, turns)
    ring.run()
    ways = f"{ring.stops} stops, {ring.kills} kills, {ring.refused} refused, {ring.ended} ended"
    record_property("figure", f"{turns} terms: {ways}")
    # Each of the ways in which a term ends was there, and was dealt with.
    assert min(ring.stops, ring.kills, ring.refused, ring.ended) >= 1
    check_commits(database, turns)
    check_incidents(StoreReader(database))
    database.close()


def check_commits(database: Database, turns: int) -> None:
    with database.read() as connection:
        rows = connection.execute(sa.select(commits).order_by(commits.c.number)).all()
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    epochs = [row.epoch for row in rows]
    assert epochs == sorted(epochs), "who was replaced has committed"
    holders: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        holders[row.epoch].add(row.holder)
    assert all(len(names) == 1 for names in holders.values()), "two have committed in one epoch"
    assert set().union(*holders.values()) == {"a", "b"}
    assert len(holders) > turns / 2, "most terms have had a pass"
    # One time for both, whatever their own clocks show.
    assert all(earlier.at <= later.at for earlier, later in pairwise(rows))
    (user,) = StoreReader(database).users(since=0, until=1e12)
    assert user.allocated / TIME_SCALE == pytest.approx(rows[-1].at - rows[0].at, abs=1e-3)


def check_incidents(reader: StoreReader) -> None:
    found, _ = reader.incidents(IncidentFilter(), limit=1000)
    assert sum(1 + incident.reopened for incident in found) >= 3
    for incident in found:
        events = reader.events(incident.id)
        check_history(incident, [event.kind for event in events])
        assert all(earlier.at <= later.at for earlier, later in pairwise(events))
    # One after the other, and the next only when the last was resolved.
    ordered = sorted(found, key=lambda incident: incident.opened_at)
    assert all(earlier.resolved_at <= later.opened_at for earlier, later in pairwise(ordered) if earlier.resolved_at)
    assert sum(incident.state.active for incident in found) <= 1
