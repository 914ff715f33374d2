"""What is shown is what the store holds, on the scale of people; what people do is an event."""

from collections.abc import Iterator, Sequence

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import IncidentNotFoundError, TransitionError
from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES
from dutycycle_alerter.incidents.model import EventKind, Resolution, State
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.store import counters, ledger
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader, open_reader
from dutycycle_alerter.store.status import save_status
from dutycycle_alerter.views import IncidentFilter, NotEvaluable, Status, TargetStatus
from tests.alerter.store.test_incidents import NOW, add, incident
from tests.fakes.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def reader(database: Database, clock: FakeClock) -> StoreReader:
    return StoreReader(database, clock)


# Actions


def test_an_action_changes_the_incident_and_leaves_an_event(
    database: Database, reader: StoreReader, clock: FakeClock
) -> None:
    (number,) = add(database, incident())
    clock.advance(10)
    assert reader.acknowledge(number, actor="bob", note="mine").state is State.ACKNOWLEDGED
    clock.advance(10)
    snoozed = reader.snooze(number, until=clock.now + 3600, actor="bob")
    assert (snoozed.state, snoozed.snoozed_until) == (State.SNOOZED, clock.now + 3600)
    clock.advance(10)
    resolved = reader.resolve(number, actor="bob")
    assert (resolved.state, resolved.resolution, resolved.resolved_at) == (
        State.RESOLVED,
        Resolution.OPERATOR,
        clock.now,
    )
    assert reader.incident(number) == resolved
    assert [(event.kind, event.actor, event.at) for event in reader.events(number)] == [
        (EventKind.OPENED, "", NOW),
        (EventKind.ACKNOWLEDGED, "bob", NOW + 10),
        (EventKind.SNOOZED, "bob", NOW + 20),
        (EventKind.RESOLVED, "bob", NOW + 30),
    ]
    assert reader.events(number)[1].text == "mine"


def test_an_action_that_is_refused_changes_nothing(database: Database, reader: StoreReader) -> None:
    (number,) = add(database, incident(state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW))
    before = reader.incident(number)
    with pytest.raises(TransitionError, match="is resolved"):
        reader.acknowledge(number, actor="bob")
    with pytest.raises(IncidentNotFoundError, match="no incident 99"):
        reader.resolve(99, actor="bob")
    with pytest.raises(IncidentNotFoundError):
        reader.snooze(10**30, until=NOW + 1, actor="bob")
    assert reader.incident(number) == before
    assert reader.last_event_id() == 1


def test_new_events_come_with_the_incident_as_it_is_now(database: Database, reader: StoreReader) -> None:
    (number,) = add(database, incident())
    assert [(n, i.state, e.kind) for n, i, e in reader.events_after(0)] == [(1, State.OPEN, EventKind.OPENED)]
    seen = reader.last_event_id()
    reader.resolve(number, actor="bob")
    ((_, item, event),) = reader.events_after(seen)
    assert (item.state, event.kind) == (State.RESOLVED, EventKind.RESOLVED)


def test_the_list_is_the_stores(database: Database, reader: StoreReader) -> None:
    add(database, incident("a"), incident("b", user="bob"))
    page, total = reader.incidents(IncidentFilter(user="bob"))
    assert ([item.subject for item in page], total) == (["b"], 1)


# A job's plot


def test_the_plot_of_a_job_is_of_its_own_clusters(database: Database, reader: StoreReader) -> None:
    """Two clusters count their jobs alike."""
    for cluster, gpu in (("north", "0"), ("south", "1"), ("", "2")):
        save(database, gpu, [(NOW - 60, 0, 0), (NOW - 30, 30, 15)], cluster=cluster)
    for cluster, subject, gpu in (
        ("north", "north/slurm/1", "0"),
        ("south", "south/slurm/1", "1"),
        ("", "slurm/1", "2"),
    ):
        item = incident(subject, cluster=cluster, started_at=NOW - 60)
        assert [one.gpu.index for one in reader.series(item, until=NOW)] == [gpu], cluster


def save(
    database: Database,
    gpu: str,
    points: list[tuple[float, float, float | None]],
    *,
    share: float = 1.0,
    cluster: str = "",
) -> None:
    """(t, observed, busy) of one GPU of slurm/1."""
    names = {"node": "gpu1", "gpu": gpu, "gpu_uuid": f"GPU-{gpu}", "mig": "", "model": "H200", "cluster": cluster}
    for t, observed, busy in points:
        row = SeriesRow(("gpu1", f"GPU-{gpu}", "", "slurm/1"), gpu, names, None, None, t)
        values = {"allocated": observed, "observed": observed, "busy": busy}
        point = PointRow(t, tuple(values.get(name) for name in GPU_COUNTERS), (share, *[None] * (len(GPU_GAUGES) - 1)))
        with database.write() as connection:
            counters.save(connection, [(row, point)], [])


def test_a_plot_is_utilization_between_points(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 240, opened_at=NOW - 120)
    save(database, "10", [(NOW - 240, 0, 0), (NOW - 180, 60, 30), (NOW - 120, 120, 30), (NOW - 60, 180, 90)])
    save(database, "2", [(NOW - 180, 0, 0), (NOW - 120, 60, 60)])
    two, ten = reader.series(item, until=NOW)
    assert (two.gpu, ten.gpu) == (
        Gpu("gpu1", "2", "GPU-2", "", "H200"),
        Gpu("gpu1", "10", "GPU-10", "", "H200"),
    )
    assert [(point.t, point.utilization) for point in ten.points] == [(NOW - 180, 0.5), (NOW - 120, 0), (NOW - 60, 1)]
    assert [point.utilization for point in two.points] == [1]


def test_of_a_large_job_only_what_is_drawn_is_read(
    database: Database, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPUs of the incident, wherever they stand, then the least used."""
    busy = {"0": 60, "1": 50, "2": 55, "3": 10, "4": 58, "5": 60}
    for gpu, seconds in busy.items():
        save(database, gpu, [(NOW - 240, 0, 0), (NOW - 180, 60, seconds), (NOW - 120, 120, 2 * seconds)])
    concerned = Gpu("gpu1", "5", "GPU-5", "", "H200")
    item = incident(started_at=NOW - 240, gpus=(concerned,))
    asked: list[int] = []
    load = counters.load_points

    def noting(connection: sa.Connection, numbers: Sequence[int], since: float, until: float) -> object:
        asked.extend(numbers)
        return load(connection, numbers, since, until)

    monkeypatch.setattr(counters, "load_points", noting)
    found = reader.series(item, until=NOW, most=3)
    assert [one.gpu.index for one in found] == list(busy)
    assert [one.gpu.index for one in found if one.points] == ["1", "3", "5"]
    assert len(asked) == 3
    assert all(one.points for one in reader.series(item, until=NOW, most=6))
    assert all(one.points for one in reader.series(item, until=NOW))


def test_a_plot_shows_no_idle_time_where_nothing_was_measured(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 600)
    save(database, "0", [(NOW - 600, 0, 0), (NOW - 540, 60, 60), (NOW - 480, 80, 60), (NOW - 60, 90, 70)])
    ((_, first, second, third),) = [(s, *s.points) for s in reader.series(item, until=NOW)]
    assert (first.utilization, second.utilization, third.utilization) == (1, None, None)


def test_a_plot_of_counters_without_a_duty_cycle_is_missing(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 600)
    save(database, "0", [(NOW - 600, 0, None), (NOW - 540, 60, None)])
    assert [point.utilization for point in reader.series(item, until=NOW)[0].points] == [None]


def test_a_share_of_a_gpu_is_measured_for_share_times_time(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 600)
    save(database, "0", [(NOW - 600, 0, 0), (NOW - 540, 15, 15)], share=0.25)
    assert [point.utilization for point in reader.series(item, until=NOW)[0].points] == [1]


def test_a_plot_survives_a_restart_of_the_exporter(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 600)
    save(database, "0", [(NOW - 600, 9000, 9000), (NOW - 540, 60, 30), (NOW - 480, 120, 30)])
    assert [point.utilization for point in reader.series(item, until=NOW)[0].points] == [0.5, 0]


def test_a_plot_begins_before_the_incident_and_ends_with_it(database: Database, reader: StoreReader) -> None:
    item = incident(started_at=NOW - 400, state=State.RESOLVED, resolved_at=NOW)
    save(database, "0", [(NOW + t, t + 1000, 0) for t in range(-900, 300, 60)])
    times = [point.t for point in reader.series(item, until=NOW + 300)[0].points]
    assert min(times) >= NOW - 500
    assert min(times) < NOW - 400
    assert max(times) <= NOW


def test_a_job_that_nobody_scraped_has_no_plot(reader: StoreReader) -> None:
    assert reader.series(incident("slurm/none"), until=NOW) == []


# GPUs now


def now_row(gpu: str, t: float, **reading: float) -> dict[str, object]:
    return {
        "node": "gpu1",
        "gpu_uuid": f"GPU-{gpu}",
        "mig": "",
        "gpu": gpu,
        "model": "H200",
        "scraped_at": t,
        "reading": reading,
        "workloads": [["slurm/1", "alice", 0.5]],
    }


def status(**changes: object) -> Status:
    values: dict[str, object] = {
        "now": NOW,
        "time_scale": 1.0,
        "replay": False,
        "last_pass": NOW,
        "first_verdict_at": None,
        "jobs_judged": 0,
        "targets": (),
        "not_evaluable": (),
    }
    return Status(**(values | changes))  # type: ignore[arg-type]


def test_gpus_are_in_order_with_zero_a_value_and_none_missing(database: Database, reader: StoreReader) -> None:
    with database.write() as connection:
        rows = [now_row("10", NOW), now_row("2", NOW, utilization=0.0, power=70.0)]
        counters.save_now(connection, ["gpu1"], rows)
    two, ten = reader.gpus()
    assert (two.gpu.index, two.utilization, two.power, two.temperature) == ("2", 0.0, 70.0, None)
    assert (ten.gpu.index, ten.utilization) == ("10", None)
    assert two.workloads == (("slurm/1", "alice", 0.5),)


def test_a_silent_exporters_gpus_show_no_readings(database: Database, reader: StoreReader, clock: FakeClock) -> None:
    with database.write() as connection:
        save_status(connection, status(), stale_after=30)
        counters.save_now(connection, ["gpu1"], [now_row("0", NOW, utilization=0.9)])
    clock.advance(30)
    assert [(gpu.stale, gpu.utilization) for gpu in reader.gpus()] == [(False, 0.9)]
    clock.advance(1)
    assert [(gpu.stale, gpu.utilization) for gpu in reader.gpus()] == [(True, None)]


# The alerter's own state


def test_before_the_first_pass_the_state_says_so(reader: StoreReader) -> None:
    assert reader.status() == status(last_pass=None)


def test_the_state_comes_back_as_it_was_kept(database: Database, reader: StoreReader, clock: FakeClock) -> None:
    kept = status(
        replay=True,
        first_verdict_at=NOW + 100,
        jobs_judged=3,
        targets=(TargetStatus("http://gpu1/metrics", "gpu1", None, "refused"), TargetStatus("u", "", NOW, "")),
        not_evaluable=(NotEvaluable("stalled", "no gap counters", 2),),
        lists_gpus=False,
    )
    with database.write() as connection:
        save_status(connection, kept, stale_after=30)
    clock.advance(5)
    assert reader.status() == status(
        now=NOW + 5,
        replay=True,
        first_verdict_at=NOW + 100,
        jobs_judged=3,
        targets=kept.targets,
        not_evaluable=kept.not_evaluable,
        lists_gpus=False,
    )


@pytest.fixture
def fast(url: str) -> Iterator[Database]:
    database = open_database(url, time_scale=30)
    yield database
    database.close()


def test_a_store_at_another_time_scale_shows_what_people_would_have_seen(fast: Database, url: str) -> None:
    job = Job("slurm/1", (Gpu("gpu1", "0"),), NOW, user="alice")
    with fast.write() as connection:
        ledger.add(connection, NOW, [(job, Consumption("H200", 120, 120, 30, 10))], hour=120)
    reader = open_reader(url)
    (usage,) = reader.users(since=0, until=NOW + 1)
    assert (usage.allocated, usage.wasted, usage.energy) == (3600, 2700, 300)
    assert reader.status().time_scale == 30
    reader.close()
