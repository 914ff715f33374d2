"""Whatever text and figures come from outside: they are kept or made keepable, and the next pass finds them again."""

import json
import math
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES
from dutycycle_alerter.incidents.model import Event, EventKind, Resolution, State, Step
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.store import counters, incidents, ledger
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from dutycycle_alerter.store.database import Database, get_meta, set_meta
from dutycycle_alerter.store.types import storable, storable_name, to_json
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.store.test_incidents import NOW, add, incident

ODD = {
    "NUL": "slurm/1\0",
    "half a pair": "slurm/1\udcff",
    "long": "slurm/" + "x" * 100_000,
    "long and wide": "slurm/" + "𝕏" * 5_000,
    "quotes": "slurm/'\"\\; DROP TABLE incident; --",
    "controls": "slurm/\x01\x7f\u202e\u2028",
    "empty": "",
}
odd = pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())


@given(st.text(st.characters(), max_size=700))
def test_what_is_kept_is_short_unicode_without_nul_and_kept_once_more_the_same(text: str) -> None:
    for kept in (storable_name(text), storable(text)):
        assert "\0" not in kept
        kept.encode()
    name = storable_name(text)
    assert len(name.encode()) <= 500
    assert storable_name(name) == name


@given(st.lists(st.text(st.sampled_from("a\0\ud800\ufffd␀𝕏"), max_size=300), unique=True))
def test_no_two_names_become_one(texts: list[str]) -> None:
    assert len({storable_name(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (math.nan, None),
        (math.inf, sys.float_info.max),
        ({"a": [-math.inf, 1.0], "b": {"c": math.nan}}, {"a": [-sys.float_info.max, 1.0], "b": {"c": None}}),
        ({"nul": "\0", "half": "\ud800", "wide": "𝕏"}, {"nul": "\0", "half": "\ud800", "wide": "𝕏"}),
    ],
)
def test_json_has_no_numbers_that_are_none(database: Database, value: object, kept: object) -> None:
    assert json.loads(to_json(value)) == kept
    with database.write() as connection:
        set_meta(connection, "kept", value)
    with database.read() as connection:
        assert get_meta(connection, "kept") == kept


@odd
def test_an_incident_of_an_odd_subject_is_found_by_the_next_pass(database: Database, text: str) -> None:
    """Or that would open a second one, be refused, and be refused for ever."""
    for number in range(3):
        with database.write() as connection:
            before = incidents.latest(connection, [text, "other"]).get(text)
            assert (before is None) == (number == 0)
            base = before or incident(text, nodes=(text,), user=text, account=text, actor=text)
            event = Event(NOW, EventKind.OPENED, text, actor=text, data={text: text})
            incidents.save(connection, before, Step(replace(base, updated_at=NOW + number), (event,)))
    with database.read() as connection:
        (found,), total = incidents.find(connection, IncidentFilter(user=text), limit=9, offset=0)
        assert total == 1
        assert len(incidents.events_of(connection, found.id)) == 3
        # In JSON it is as it was.
        assert found.gpus[0].node == text


@odd
def test_usage_of_an_odd_job_adds_up(database: Database, text: str) -> None:
    job = Job(text, (Gpu("gpu1", "0"),), NOW, user=text, account=text)
    for _ in range(3):
        with database.write() as connection:
            ledger.add(connection, NOW, [(job, Consumption(text, 60, 60, 30))])
    with database.read() as connection:
        (usage,) = ledger.users(connection, since=0, until=1e12)
    assert (usage.allocated, usage.jobs) == (180, 1)


@odd
def test_counters_of_an_odd_workload_are_one_series(database: Database, text: str) -> None:
    row = SeriesRow((text, text, text, text), "0", {"workload": text}, None, None, NOW)
    values = (1.0,) * len(GPU_COUNTERS), (math.nan, *(None,) * (len(GPU_GAUGES) - 1))
    shown = {"node": text, "gpu_uuid": text, "mig": text, "gpu": "0", "model": text, "scraped_at": NOW}
    shown |= {"reading": {"utilization": math.nan}, "workloads": [[text, text, 1.0]]}
    for t in (NOW, NOW + 1, NOW + 2):
        with database.write() as connection:
            host = (text, text), PointRow(t, (1.0, 1.0, 1.0), (None,))
            counters.save(connection, [(row, PointRow(t, *values))], [host])
            counters.save_now(connection, [text], [shown])
    with database.read() as connection:
        ((found, points),) = counters.load_series(connection, 0)
    assert found.labels == {"workload": text}
    assert [point.gauges[0] for point in points] == [None] * 3


def test_an_incident_that_ended_makes_room_for_one_that_begins_in_the_same_pass(database: Database) -> None:
    """Also where the new one comes first: what ends is written before what opens."""
    (number,) = add(database, incident())
    with database.write() as connection:
        before = incidents.get(connection, number, to_write=True)
        assert before is not None
        ended = replace(before, state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW)
        opened = Event(NOW, EventKind.OPENED, "new")
        saved = incidents.save_all(
            connection,
            [
                (None, Step(incident("first"), (opened,))),
                (None, Step(incident(), (opened, opened))),
                (before, Step(ended, (Event(NOW, EventKind.RESOLVED, "old"),))),
                (None, Step(None)),
                (None, Step(incident("last"), (opened,))),
            ],
        )
        numbers = [None if item is None else item.id for item in saved]
        assert numbers == [number + 1, number + 2, number, None, number + 3]
        events = incidents.events_after(connection, 1)
    assert [(of, item.text) for _, of, item in events] == [
        (number + 1, "new"),
        (number + 2, "new"),
        (number + 2, "new"),
        (number, "old"),
        (number + 3, "new"),
    ]
