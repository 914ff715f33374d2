"""Whether a database can be a store, and how it is: what `dutycycle db check` says. Nothing is changed by looking."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store import postgresql
from dutycycle_alerter.store.database import connect, get_meta, translated
from dutycycle_alerter.store.migrating import head, revision_of, revisions
from dutycycle_alerter.store.schema import event, fleet_hour, incident, metadata, usage_hour

_SHOWN = (incident, event, usage_hour, fleet_hour)
MANY = 1_000_000
"""Rows of which the server's estimate is told: to count them would take longer than a statement may."""

_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ONE_ACTIVE = "uq_incident_active"


class Standing(StrEnum):
    """How one thing is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `remedy` is empty where it is as it should be."""

    name: str
    found: str
    standing: Standing = Standing.OK
    remedy: str = ""


def check_store(url: str, settings: Settings | None, *, now: float) -> tuple[str, list[Check]]:
    """How the database may be shown, and all that was found. `settings` are as configured, None where only the
    database is known. Raises StoreError where the URL cannot be used.
    """
    engine, name = connect(url)
    checks: list[Check] = []
    try:
        with translated(name), engine.connect() as connection:
            for check in _checks(connection, settings, now):
                checks.append(check)
    except StoreError as error:
        checks.append(Check("reached", str(error), Standing.FAILED, _remedy(engine.url, error.__cause__)))
    finally:
        engine.dispose()
    return name, checks


def _remedy(url: sa.URL, error: BaseException | None) -> str:
    if url.get_backend_name() != "sqlite":
        return "check that the server runs and that the URL is right"
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    # What says more about an error is in the higher bits.
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"restore {url.database} from a backup (docs/database.md), or name another file"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return f"run this as the alerter's user, who can write {url.database} and its directory"
        case sqlite3.SQLITE_CANTOPEN:
            # Said of what this user may not read, too.
            return "check that the path is right, and run this as the alerter's user"
        case _:
            return "check that the path is right and that its file system works"


def _checks(connection: sa.Connection, settings: Settings | None, now: float) -> Iterator[Check]:
    server = connection.dialect.name == "postgresql"
    version = _version(connection, server=server)
    yield version
    if version.standing is not Standing.OK:
        return
    yield _encoding(connection, server=server)
    yield _writable(connection, server=server)
    tables = _tables(connection)
    yield tables
    if tables.standing is not Standing.OK:
        return  # other tables than this version knows
    if server:
        yield _rights(connection)
    yield _index(connection, server=server)
    scale = get_meta(connection, "time_scale")
    yield _time_scale(scale, settings)
    yield Check("size", _size(connection, server=server))
    for table in _SHOWN:
        yield Check(f"rows of {table.name}", _rows(connection, table, server=server))
    if settings is not None:
        yield from _retention(connection, settings, now)


def _version(connection: sa.Connection, *, server: bool) -> Check:
    if not server:
        return Check(
            "server", f"SQLite {connection.exec_driver_sql('SELECT sqlite_version()').scalar_one()}, in this process"
        )
    version = connection.exec_driver_sql("SHOW server_version").scalar_one()
    encrypted = connection.exec_driver_sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").scalar()
    found = f"PostgreSQL {version}, {'encrypted' if encrypted else 'not encrypted'}"
    if int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) < postgresql.OLDEST:
        return Check("server", found, Standing.FAILED, f"{postgresql.OLDEST // 10_000} or newer is needed")
    return Check("server", found)


def _encoding(connection: sa.Connection, *, server: bool) -> Check:
    found = connection.exec_driver_sql("SHOW server_encoding" if server else "PRAGMA encoding").scalar_one()
    if not server or found == "UTF8":
        return Check("encoding", found)
    remedy = "create another database with ENCODING 'UTF8' TEMPLATE template0"
    return Check("encoding", found, Standing.FAILED, remedy)


def _writable(connection: sa.Connection, *, server: bool) -> Check:
    if server:
        standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
        read_only = connection.exec_driver_sql("SHOW default_transaction_read_only").scalar_one() == "on"
        if standby or read_only:
            remedy = "name the primary server: add target_session_attrs=read-write to the URL's query"
            return Check("writable", "a standby" if standby else "read-only", Standing.FAILED, remedy)
        return Check("writable", "yes")
    file = Path(str(connection.engine.url.database))
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        return Check("writable", "yes")
    return Check("writable", "no", Standing.FAILED, f"let this user write {file} and its directory")


def _tables(connection: sa.Connection) -> Check:
    revision = revision_of(connection)
    if revision == head():
        missing = sorted(metadata.tables.keys() - sa.inspect(connection).get_table_names())
        if missing:
            return Check("tables", f"without {', '.join(missing)}", Standing.FAILED, "restore them from a backup")
        return Check("tables", f"revision {revision}, the newest")
    if revision is None:
        return Check("tables", "none", Standing.FAILED, "dutycycle db upgrade")
    if revision not in revisions():
        remedy = "run the version that created it, or a newer one"
        return Check("tables", f"revision {revision}, of a newer version of Dutycycle", Standing.FAILED, remedy)
    return Check("tables", f"revision {revision}, {head()} is the newest", Standing.FAILED, "dutycycle db upgrade")


def _rights(connection: sa.Connection) -> Check:
    query = sa.text("SELECT has_table_privilege(CAST(:table AS text), CAST(:right AS text))")
    lacking = [
        f"{right} on {table}"
        for table in metadata.tables
        for right in _RIGHTS
        if not connection.execute(query, {"table": table, "right": right}).scalar_one()
    ]
    sequences = "SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema()"
    usage = sa.text("SELECT has_sequence_privilege(CAST(:name AS text), 'USAGE')")
    lacking += [
        f"USAGE on {name}"
        for name in connection.exec_driver_sql(sequences).scalars().all()
        if not connection.execute(usage, {"name": name}).scalar_one()
    ]
    if lacking:
        shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        return Check("rights", f"without {shown}", Standing.FAILED, "GRANT them, or make this user the tables' owner")
    may_create = "SELECT has_schema_privilege(current_schema(), 'CREATE')"
    if not connection.exec_driver_sql(may_create).scalar():
        return Check(
            "rights",
            "all except creating tables",
            Standing.WARNING,
            "upgrades need an owner's `dutycycle db upgrade`",
        )
    return Check("rights", "all")


def _index(connection: sa.Connection, *, server: bool) -> Check:
    name = "one active incident per subject and class"
    found = any(
        index["name"] == _ONE_ACTIVE and index["unique"] and index["column_names"] == ["subject", "kind"]
        for index in sa.inspect(connection).get_indexes(incident.name)
    )
    if found and server:
        query = sa.text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
        found = bool(connection.execute(query, {"name": _ONE_ACTIVE}).scalar())
    if found:
        return Check(name, "by the database")
    return Check(
        name, f"the index {_ONE_ACTIVE} is gone or not valid", Standing.FAILED, "restore it from a backup, or reindex"
    )


def _time_scale(scale: float | None, settings: Settings | None) -> Check:
    if scale is None:
        return Check("time scale", "none yet: no alerter has used it")
    if settings is not None and settings.time_scale != scale:
        remedy = "use another database, or the same time_scale"
        return Check("time scale", f"{scale:g}, configured is {settings.time_scale:g}", Standing.FAILED, remedy)
    return Check("time scale", f"{scale:g}")


def _size(connection: sa.Connection, *, server: bool) -> str:
    if server:
        size = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    else:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        size = pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return f"{size / 1e6:,.1f} MB"


def _rows(connection: sa.Connection, table: sa.Table, *, server: bool) -> str:
    if server:
        known = sa.text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
        about = connection.execute(known, {"name": table.name}).scalar() or 0
        if about >= MANY:
            return f"about {about:,}"
    return f"{connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one():,}"


def _retention(connection: sa.Connection, settings: Settings, now: float) -> Iterator[Check]:
    resolved = sa.select(sa.func.min(incident.c.resolved_at)).where(incident.c.state == "resolved")
    scaled = settings.scaled()
    for name, query, kept in (
        ("oldest resolved incident", resolved, scaled.retention.incidents),
        ("oldest usage", sa.select(sa.func.min(usage_hour.c.hour)), scaled.retention.usage),
    ):
        oldest = connection.execute(query).scalar()
        if oldest is None:
            yield Check(name, "none")
            continue
        age = now - oldest
        found = f"{_length(age, settings)} ago, kept for {_length(kept, settings)}"
        # Twice: one round of housekeeping may just be due.
        if age > kept + 2 * scaled.schedule.housekeeping_interval:
            remedy = "an alerter deletes what is older while it runs, a few hours of it each hour; see its log"
            yield Check(name, found, Standing.WARNING, remedy)
        else:
            yield Check(name, found)


def _length(seconds: float, settings: Settings) -> str:
    return format_duration(max(0.0, seconds) * settings.time_scale)
