"""Scraped counters in the store: what is kept makes the same series again, and no more is kept than wanted."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES, HOST_COUNTERS, HOST_GAUGES
from dutycycle_alerter.store import counters, in_parts
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.schema import gpu_counter, gpu_now, gpu_series
from tests.alerter.store.conftest import text, undone

KEY = ("gpu01", "GPU-0", "", "slurm/1")


def series(key: counters.Key = KEY, *, seen: float = 0.0, **changes: object) -> SeriesRow:
    values: dict[str, object] = {
        "key": key,
        "gpu": "0",
        "labels": {"node": key[0], "workload": key[3], "user": "alice"},
        "start": 10.0,
        "first_process": None,
        "last_seen": seen,
    }
    return SeriesRow(**(values | changes))  # type: ignore[arg-type]


def point(t: float, value: float | None = 1.0) -> PointRow:
    return PointRow(t, (value,) * len(GPU_COUNTERS), (value,) * len(GPU_GAUGES))


def host_point(t: float, value: float | None = 1.0) -> PointRow:
    return PointRow(t, (value,) * len(HOST_COUNTERS), (value,) * len(HOST_GAUGES))


def loaded(database: Database, since: float = 0.0) -> dict[counters.Key, tuple[SeriesRow, list[PointRow]]]:
    with database.read() as connection:
        return {row.key: (row, points) for row, points in counters.load_series(connection, since)}


def test_points_come_back_by_series_oldest_first(database: Database) -> None:
    other = ("gpu01", "GPU-1", "MIG-a", "slurm/1")
    for t in (60.0, 120.0, 180.0):
        with database.write() as connection:
            counters.save(connection, [(series(seen=t), point(t, t)), (series(other, seen=t), point(t, None))], [])
    found = loaded(database)
    assert found[KEY] == (series(seen=180), [point(t, t) for t in (60.0, 120.0, 180.0)])
    assert found[other] == (series(other, seen=180), [point(t, None) for t in (60.0, 120.0, 180.0)])


def test_what_a_series_says_of_itself_is_the_newest(database: Database) -> None:
    with database.write() as connection:
        counters.save(connection, [(series(seen=60), point(60))], [])
    changed = series(seen=120, labels={"user": "bob"}, start=20.0, first_process=30.0, gpu="1")
    with database.write() as connection:
        counters.save(connection, [(changed, point(120))], [])
    assert loaded(database)[KEY][0] == changed


def test_only_the_asked_time_is_loaded(database: Database) -> None:
    gone = ("gpu01", "GPU-0", "", "slurm/0")
    with database.write() as connection:
        counters.save(connection, [(series(gone, seen=60), point(60)), (series(seen=60), point(60))], [])
        counters.save(connection, [(series(seen=600), point(600))], [(("gpu01", "slurm/1"), host_point(600))])
    found = loaded(database, 100)
    assert list(found) == [KEY]
    assert found[KEY][1] == [point(600)]
    with database.read() as connection:
        assert counters.load_hosts(connection, 601) == {}


def test_hosts_come_back_by_node_and_workload(database: Database) -> None:
    with database.write() as connection:
        for t in (60.0, 120.0):
            counters.save(connection, [], [(("a", "w"), host_point(t)), (("b", "w"), host_point(t, None))])
    with database.read() as connection:
        found = counters.load_hosts(connection, 0)
    assert found == {
        ("a", "w"): [host_point(60), host_point(120)],
        ("b", "w"): [host_point(60, None), host_point(120, None)],
    }


def test_one_workload_is_loaded_for_its_plot(database: Database) -> None:
    with database.write() as connection:
        for t in (60.0, 120.0, 180.0):
            counters.save(connection, [(series(seen=t), point(t)), (series((*KEY[:3], "slurm/2")), point(t))], [])
    with database.read() as connection:
        ((number, row),) = counters.series_of(connection, ["slurm/1"])
        ((same, points),) = counters.load_points(connection, [number], 100, 180)
        assert counters.series_of(connection, ["slurm/3"]) == []
        assert list(counters.load_points(connection, [number], 300, 400)) == []
    assert row.key == KEY
    assert same == number
    assert [p.t for p in points] == [120, 180]


def test_more_than_one_query_may_name_are_loaded_all(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "AT_ONCE", 2)
    keys = [("gpu01", f"GPU-{n}", "", f"slurm/{n}") for n in range(5)]
    with database.write() as connection:
        counters.save(connection, [(series(key), point(60)) for key in keys], [])
    with database.read() as connection:
        found = dict(counters.series_of(connection, [key[3] for key in keys]))
        assert sorted(row.key for row in found.values()) == keys
        loaded = {number: [p.t for p in points] for number, points in counters.load_points(connection, [*found], 0, 99)}
        assert loaded == {number: [60.0] for number in found}
        assert counters.roughly_used(connection, [*found], 0, 99).keys() == found.keys()


@pytest.mark.parametrize(
    ("readings", "used"),
    [
        ([(100, 0), (160, 30), (220, 90)], 0.75),
        ([(1000, 900), (60, 15), (120, 30)], 0.25),  # the exporter was restarted
        ([(100, None), (160, 30), (220, 90), (280, None)], 1.0),
        ([(100, None), (160, None)], None),
        ([(100, 50)], None),
        ([], None),
    ],
)
def test_about_how_busy_a_gpu_was_is_told_from_two_points(
    database: Database, readings: list[tuple[float, float | None]], used: float | None
) -> None:
    """`readings` are (observed, busy), a minute apart from t = 60; what lies outside of the range does not count."""
    places = {name: GPU_COUNTERS.index(name) for name in ("observed", "busy")}
    with database.write() as connection:
        counters.save(connection, [(series(), point(1, 0.0))], [])
        counters.save(connection, [(series(), point(9000, 1e6))], [])
        for n, (observed, busy) in enumerate(readings, 1):
            values: list[float | None] = [None] * len(GPU_COUNTERS)
            values[places["observed"]], values[places["busy"]] = observed, busy
            row = PointRow(60.0 * n, tuple(values), (1.0,) * len(GPU_GAUGES))
            counters.save(connection, [(series(), row)], [])
    with database.read() as connection:
        ((number, _),) = counters.series_of(connection, [KEY[3]])
        assert counters.roughly_used(connection, [number], 60, 600) == {number: used}


def test_forgetting_takes_points_and_series_and_nothing_newer(database: Database) -> None:
    old = ("gpu01", "GPU-0", "", "slurm/0")
    with database.write() as connection:
        counters.save(connection, [(series(old, seen=60), point(60)), (series(seen=60), point(60))], [])
        counters.save(connection, [(series(seen=600), point(600))], [(("gpu01", "slurm/1"), host_point(60))])
        counters.save_now(connection, ["gpu01", "gpu02"], [now_row("gpu01", t=60), now_row("gpu02", t=600)])
    counters.forget(database, 100)
    assert {key: [p.t for p in points] for key, (_, points) in loaded(database).items()} == {KEY: [600]}
    with database.read() as connection:
        assert counters.load_hosts(connection, 0) == {}
        assert len(connection.execute(gpu_series.select()).all()) == 1
        assert len(connection.execute(gpu_counter.select()).all()) == 1
        assert [row.node for row in connection.execute(gpu_now.select())] == ["gpu02"]


def test_a_forgotten_series_that_comes_back_is_a_new_one(database: Database) -> None:
    with database.write() as connection:
        counters.save(connection, [(series(seen=60), point(60))], [])
    counters.forget(database, 100)
    with database.write() as connection:
        counters.save(connection, [(series(seen=600), point(600))], [])
    assert loaded(database)[KEY][1] == [point(600)]


def test_of_many_series_and_of_days_of_hosts_all_that_is_old_is_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_SERIES_AT_ONCE", 2)
    monkeypatch.setattr(counters, "_HOST_SECONDS", 30.0)
    keys = [("gpu01", f"GPU-{number}", "", "slurm/1") for number in range(5)]
    with database.write() as connection:
        for t in (60, 90, 200, 600):
            hosts = [(("gpu01", "slurm/1"), host_point(t))]
            counters.save(connection, [(series(key, seen=t), point(t)) for key in keys], hosts)
    counters.forget(database, 500)
    assert {key: [p.t for p in points] for key, (_, points) in loaded(database).items()} == {key: [600] for key in keys}
    with database.read() as connection:
        assert [p.t for p in counters.load_hosts(connection, 0)["gpu01", "slurm/1"]] == [600]


def test_points_that_are_there_already_are_no_error(database: Database) -> None:
    """The answer of the commit that wrote them was lost."""
    for _ in range(2):
        with database.write() as connection:
            counters.save(connection, [(series(seen=60), point(60))], [(("gpu01", "slurm/1"), host_point(60))])
    assert loaded(database)[KEY][1] == [point(60)]


def now_row(node: str, uuid: str = "GPU-0", *, t: float = 0.0, utilization: float = 0.5) -> dict[str, object]:
    return {
        "node": node,
        "gpu_uuid": uuid,
        "mig": "",
        "gpu": "0",
        "model": "H200",
        "scraped_at": t,
        "reading": {"utilization": utilization},
        "workloads": [],
    }


def nodes_now(database: Database) -> list[tuple[str, str, float]]:
    with database.read() as connection:
        rows = connection.execute(gpu_now.select().order_by(gpu_now.c.node, gpu_now.c.gpu_uuid)).all()
    return [(row.node, row.gpu_uuid, row.reading["utilization"]) for row in rows]


def test_a_nodes_gpus_are_replaced_and_other_nodes_stay(database: Database) -> None:
    with database.write() as connection:
        counters.save_now(connection, ["a", "b"], [now_row("a"), now_row("a", "GPU-1"), now_row("b")])
    with database.write() as connection:
        counters.save_now(connection, ["a"], [now_row("a", utilization=0.9)])
    assert nodes_now(database) == [("a", "GPU-0", 0.9), ("b", "GPU-0", 0.5)]
    with database.write() as connection:
        counters.save_now(connection, [], [])
    assert len(nodes_now(database)) == 2


def test_two_urls_of_one_exporter_do_no_harm(database: Database) -> None:
    with database.write() as connection:
        counters.save_now(connection, ["a"], [now_row("a", utilization=0.1), now_row("a", utilization=0.2)])
    assert nodes_now(database) == [("a", "GPU-0", 0.2)]


TEXT = text(20)
COLUMNS = (*GPU_COUNTERS, *GPU_GAUGES)
VALUE = st.none() | st.floats(0, 2.0**53)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.tuples(TEXT, TEXT, TEXT, TEXT),
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.lists(VALUE, min_size=len(COLUMNS), max_size=len(COLUMNS)),
    st.none() | st.floats(0, 4e9),
)
def test_any_text_and_any_value_come_back(
    database: Database, key: counters.Key, labels: dict[str, str], values: list[float | None], start: float | None
) -> None:
    row = series(key, seen=5, labels=labels, start=start)
    saved = PointRow(5, tuple(values[: len(GPU_COUNTERS)]), tuple(values[len(GPU_COUNTERS) :]))
    with undone(database) as connection:  # each example has an empty store
        counters.save(connection, [(row, saved)], [])
        assert list(counters.load_series(connection, 0)) == [(row, [saved])]
