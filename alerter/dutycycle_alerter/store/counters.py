"""The scraped counters of the last days: what lets the alerter see the past after a restart, and plots a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES, HOST_COUNTERS, HOST_GAUGES, Values
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.schema import gpu_counter, gpu_now, gpu_series, host_counter
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.store.types import storable_name

Key = tuple[str, str, str, str]
_KEY = ("node", "gpu_uuid", "mig", "workload")
_INSERT = sa.insert(gpu_series).returning(gpu_series.c.id, sort_by_parameter_order=True)
_UPDATE = sa.update(gpu_series).where(gpu_series.c.id == sa.bindparam("of_id"))


_AT_ONCE = 5_000
"""Points that are read at a time."""

_SERIES_AT_ONCE, _HOST_SECONDS = 100, 3600.0
"""Of how many series, and of how much of the hosts' time, one transaction deletes what is old."""


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One workload on one GPU: who it is, since when, and when it was last scraped."""

    key: Key
    gpu: str
    labels: Mapping[str, str]
    start: float | None
    first_process: float | None
    last_seen: float


@dataclass(frozen=True, slots=True)
class PointRow:
    """Raw counters and gauges of one series at one scrape."""

    t: float
    counters: Values
    gauges: Values


def save(
    connection: sa.Connection,
    series: Iterable[tuple[SeriesRow, PointRow]],
    hosts: Iterable[tuple[tuple[str, str], PointRow]],
) -> None:
    """Add one point to each series, making those that are new. One that is there already (of a commit whose answer was
    lost) stays as it is.
    """
    ids = {row[1:]: row[0] for row in connection.execute(_select_keys())}
    known, new = [], []
    for item, point in series:
        key = tuple(map(storable_name, item.key))
        values: dict[str, Any] = {
            "gpu": item.gpu,
            "labels": dict(item.labels),
            "start": item.start,
            "first_process": item.first_process,
            "last_seen": item.last_seen,
        }
        if key in ids:
            known.append((ids[key], values, point))
        else:
            new.append(({**dict(zip(_KEY, key, strict=True)), **values}, point))
    if known:
        connection.execute(_UPDATE, [values | {"of_id": number} for number, values, _ in known])
    numbers = connection.execute(_INSERT, [row for row, _ in new]).scalars().all() if new else ()
    points = [
        {"series_id": number, **_columns(point, GPU_COUNTERS + GPU_GAUGES)}
        for number, point in (
            *((number, point) for number, _, point in known),
            *zip(numbers, (point for _, point in new), strict=True),
        )
    ]
    if points:
        connection.execute(_insert_once(connection, gpu_counter), points)
    host_points = [
        {"node": node, "workload": workload, **_columns(point, HOST_COUNTERS + HOST_GAUGES)}
        for (node, workload), point in hosts
    ]
    if host_points:
        connection.execute(_insert_once(connection, host_counter), host_points)


def load_series(connection: sa.Connection, since: float) -> Iterator[tuple[SeriesRow, list[PointRow]]]:
    """Every series scraped since a time, with its points since then, oldest first: one in memory at a time."""
    series = {
        row.id: _series(row) for row in connection.execute(sa.select(gpu_series).where(gpu_series.c.last_seen >= since))
    }
    columns = gpu_counter.c
    query = sa.select(gpu_counter).where(columns.t >= since).order_by(columns.series_id, columns.t)
    found = connection.execute(query, execution_options={"yield_per": _AT_ONCE})
    for number, rows in groupby(found, lambda row: row.series_id):
        if number in series:
            yield series.pop(number), [_point(row, GPU_COUNTERS, GPU_GAUGES) for row in rows]
    for row in series.values():
        yield row, []


def load_hosts(connection: sa.Connection, since: float) -> dict[tuple[str, str], list[PointRow]]:
    """CPU and pressure points by (node, workload), oldest first."""
    found: dict[tuple[str, str], list[PointRow]] = {}
    query = sa.select(host_counter).where(host_counter.c.t >= since).order_by(host_counter.c.t)
    for row in connection.execute(query):
        found.setdefault((row.node, row.workload), []).append(_point(row, HOST_COUNTERS, HOST_GAUGES))
    return found


def series_of(connection: sa.Connection, workloads: Sequence[str]) -> list[tuple[int, SeriesRow]]:
    """The GPUs of some workloads, each with the number by which its points are asked for."""
    found = []
    for some in in_parts(workloads):
        rows = connection.execute(sa.select(gpu_series).where(gpu_series.c.workload.in_(some)))
        found += [(row.id, _series(row)) for row in rows]
    return found


def roughly_used(
    connection: sa.Connection, numbers: Sequence[int], since: float, until: float
) -> dict[int, float | None]:
    """About how busy each series' GPU was in a range, 0..1: from its first and its last point there alone, however many
    lie between them. Where its exporter was restarted in between, of the time since. None where nothing was measured.
    """
    found: dict[int, float | None] = {}
    first, last = (_edge(since, until, newest=newest) for newest in (False, True))
    for some in in_parts(numbers):
        for row in connection.execute(sa.select(gpu_series.c.id, *first, *last).where(gpu_series.c.id.in_(some))):
            number, *edges = row
            found[number] = None
            if None in edges:
                continue
            observed, busy, observed_last, busy_last = edges
            if observed_last >= observed and busy_last >= busy:
                observed_last, busy_last = observed_last - observed, busy_last - busy
            if observed_last > 0:
                found[number] = busy_last / observed_last
    return found


def load_points(
    connection: sa.Connection, numbers: Sequence[int], since: float, until: float
) -> Iterator[tuple[int, list[PointRow]]]:
    """The points of some series in a range, oldest first: one series in memory at a time, none for one without."""
    columns = gpu_counter.c
    for some in in_parts(numbers):
        query = (
            sa.select(gpu_counter)
            .where(columns.series_id.in_(some), columns.t >= since, columns.t <= until)
            .order_by(columns.series_id, columns.t)
        )
        rows = connection.execute(query, execution_options={"yield_per": _AT_ONCE})
        for number, points in groupby(rows, lambda row: row.series_id):
            yield number, [_point(point, GPU_COUNTERS, GPU_GAUGES) for point in points]


def forget_after(connection: sa.Connection, after: float) -> None:
    """Delete points that lie later than a time: the clock was set back, and they would mix with those to come.

    Of hosts nothing is kept: between what was read before and after the step, CPU seconds would seem to jump.
    """
    connection.execute(sa.delete(gpu_counter).where(gpu_counter.c.t > after))
    connection.execute(sa.delete(host_counter))
    connection.execute(sa.update(gpu_series).where(gpu_series.c.last_seen > after).values(last_seen=after))
    connection.execute(sa.update(gpu_now).where(gpu_now.c.scraped_at > after).values(scraped_at=after))


def forget(database: Transactions, before: float) -> None:
    """Delete points older than a time, series that have none left, and GPUs that were not seen since: some series, and
    some time of hosts, in each transaction.
    """
    with database.read() as connection:
        numbers = connection.execute(sa.select(gpu_series.c.id).order_by(gpu_series.c.id)).scalars().all()
    for some in in_parts(numbers, _SERIES_AT_ONCE):
        with database.write() as connection:
            connection.execute(
                sa.delete(gpu_counter).where(gpu_counter.c.series_id.in_(some), gpu_counter.c.t < before)
            )
            connection.execute(sa.delete(gpu_series).where(gpu_series.c.id.in_(some), gpu_series.c.last_seen < before))
    while True:
        with database.write() as connection:
            oldest = connection.execute(sa.select(sa.func.min(host_counter.c.t))).scalar()
            if oldest is None or oldest >= before:
                connection.execute(sa.delete(gpu_now).where(gpu_now.c.scraped_at < before))
                return
            connection.execute(sa.delete(host_counter).where(host_counter.c.t < min(before, oldest + _HOST_SECONDS)))


@dataclass(frozen=True, slots=True)
class Missing:
    """How many GPUs of a node are on its PCI bus that NVML does not show, and the node's allocations at `scraped_at`:
    that of a lost GPU goes on until its job ends.
    """

    number: int
    scraped_at: float
    workloads: Mapping[tuple[str, str, str], Sequence[tuple[str, str, float]]]


def save_now(
    connection: sa.Connection,
    nodes: Iterable[str],
    rows: list[dict[str, Any]],
    missing: Mapping[str, Missing] | None = None,
) -> None:
    """Replace what is shown of these nodes' GPUs. Two rows for one GPU (two URLs of one exporter): the last counts.

    As many GPUs as a node misses stay as lost GPUs, those first that were seen last; the time of their last answer is
    kept in `lost_since`.
    """
    by_gpu = {(row["node"], row["gpu_uuid"], row["mig"]): row for row in rows}
    for node, lost in (missing or {}).items():
        known = connection.execute(sa.select(gpu_now).where(gpu_now.c.node == node, gpu_now.c.mig == "")).mappings()
        gone = [dict(row) for row in known if (node, row["gpu_uuid"], "") not in by_gpu]
        for row in gone:
            row["reading"] = {"lost_since": row["reading"].get("lost_since", row["scraped_at"])}
        gone.sort(key=lambda row: -row["reading"]["lost_since"])
        for row in gone[: lost.number]:
            key = (node, row["gpu_uuid"], "")
            by_gpu[key] = row | {"scraped_at": lost.scraped_at, "workloads": lost.workloads.get(key, [])}
    connection.execute(sa.delete(gpu_now).where(gpu_now.c.node.in_(list(nodes))))
    if by_gpu:
        connection.execute(sa.insert(gpu_now), list(by_gpu.values()))


def _insert_once(connection: sa.Connection, table: sa.Table) -> sa.Insert:
    """Leaves a row that is there."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _edge(since: float, until: float, *, newest: bool) -> list[sa.Label[Any]]:
    """`observed` and `busy` of a series' first or newest point in a range that has both: a step in the key's index."""
    columns = gpu_counter.c
    return [
        sa.select(column)
        .where(columns.series_id == gpu_series.c.id, columns.t >= since, columns.t <= until)
        .where(columns.observed.is_not(None), columns.busy.is_not(None))
        .order_by(columns.t.desc() if newest else columns.t)
        .limit(1)
        .correlate(gpu_series)
        .scalar_subquery()
        .label(f"{'last' if newest else 'first'}_{column.name}")
        for column in (columns.observed, columns.busy)
    ]


def _select_keys() -> sa.Select[Any]:
    columns = gpu_series.c
    return sa.select(columns.id, columns.node, columns.gpu_uuid, columns.mig, columns.workload)


def _columns(point: PointRow, names: tuple[str, ...]) -> dict[str, float | None]:
    return {"t": point.t, **dict(zip(names, point.counters + point.gauges, strict=True))}


def _point(row: Any, counters: tuple[str, ...], gauges: tuple[str, ...]) -> PointRow:
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for a row by column
    return PointRow(values["t"], tuple(values[name] for name in counters), tuple(values[name] for name in gauges))


def _series(row: Any) -> SeriesRow:
    return SeriesRow(
        key=(row.node, row.gpu_uuid, row.mig, row.workload),
        gpu=row.gpu,
        labels=row.labels,
        start=row.start,
        first_process=row.first_process,
        last_seen=row.last_seen,
    )
