"""`dutycycle db`: make or migrate the store's tables, see how the store is, and copy it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from dutycycle_alerter.cli.reading import asked, store_options
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.store.backup import back_up
from dutycycle_alerter.store.checking import Check, Standing, check_store
from dutycycle_alerter.store.database import connect, open_database, translated
from dutycycle_alerter.store.migrating import head, revision_of


@click.group()
def db() -> None:
    """Create or upgrade the store's tables; check or copy the store.

    Without an option it is the default of `dutycycle serve`, if it is there; else the newest store in `state/`, the
    directory of `dutycycle up`.

    \b
    Examples:
      dutycycle db upgrade --config /etc/dutycycle/config.yaml
      dutycycle db check --database postgresql://dutycycle@db.example.org/dutycycle
      dutycycle db backup /backup/dutycycle.sqlite3 --config /etc/dutycycle/config.yaml
    """


@db.command()
@store_options
@click.pass_context
def upgrade(context: click.Context) -> None:
    """Create the tables, or upgrade them to this version. An alerter does the same when it starts.

    It is done once, whoever else does it at that moment, and in one transaction. Where there is nothing to do, nothing
    is done. Exit codes: 0 the tables are as they should be, 1 they are not, 2 wrong usage or configuration.

    \b
    Examples:
      dutycycle db upgrade --config /etc/dutycycle/config.yaml
      PGPASSWORD=... dutycycle db upgrade --database postgresql://owner@db.example.org/dutycycle
    """
    url = asked(context).url_to_make()
    engine, name = connect(url)
    try:
        with translated(name), engine.connect() as connection:
            before = revision_of(connection)
    finally:
        engine.dispose()
    open_database(url).close()
    if before == head():
        click.echo(f"{name}: at revision {before}, the newest; nothing to do")
    else:
        click.echo(f"{name}: {'created' if before is None else f'upgraded from revision {before}'}, now at {head()}")


@db.command()
@store_options
@click.option("--json", "as_json", is_flag=True, help="Output for programs.")
@click.pass_context
def check(context: click.Context, *, as_json: bool) -> None:
    """Check whether the store can be used, and its state; nothing is changed.

    Can it be reached and written, is its encoding UTF-8, are its tables this version's, may this user do what an
    alerter does, does it hold what is past its retention. Exit codes: 0 all is well or there are warnings only, 1
    something is wrong, 2 wrong usage or configuration.

    \b
    Examples:
      dutycycle db check --config /etc/dutycycle/config.yaml
      dutycycle db check --json | jq '.checks[] | select(.standing != "ok")'
    """
    where = asked(context)
    url = where.url_to_make()
    _refuse_missing(url, ", or create it with `dutycycle db upgrade`")
    name, checks = check_store(url, where.settings(), now=time.time())
    ok = all(item.standing is not Standing.FAILED for item in checks)
    if as_json:
        click.echo(json.dumps({"database": name, "ok": ok, "checks": [asdict(item) for item in checks]}, indent=2))
    else:
        click.echo(name)
        for item in checks:
            click.echo(_line(item))
    sys.exit(0 if ok else 1)


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_options
@click.pass_context
def backup(context: click.Context, file: Path) -> None:
    """Copy the store to FILE, while an alerter may write to it. For SQLite; PostgreSQL has `pg_dump`.

    FILE is not there yet, and only its owner may read it: it holds the key of links and sessions. To restore it, stop
    the alerter, put the copy in the place of the store, and remove the files beside that with the same name and -wal or
    -shm. Exit codes: 0 FILE is complete, 1 it could not be written, 2 wrong usage or configuration, or FILE exists.

    \b
    Examples:
      dutycycle db backup /backup/dutycycle.sqlite3 --config /etc/dutycycle/config.yaml
      dutycycle db backup "dutycycle-$(date +%F).sqlite3" --database sqlite:////var/lib/dutycycle/dutycycle.sqlite3
    """
    url = asked(context).url_to_make()
    name = _refuse_missing(url)
    size = back_up(url, file)
    click.echo(f"{printable(str(file))}: {size / 1e6:,.1f} MB, a copy of {name}")


def _refuse_missing(url: str, remedy: str = "") -> str:
    """Looking must not make an empty SQLite file. `remedy` is what else may be done. Returns what the store is called.
    Raises ConfigError.
    """
    engine, name = connect(url)
    file = engine.url.database
    if engine.dialect.name == "sqlite" and not Path(str(file)).exists():
        raise ConfigError(f"database {name}: there is no such file; name one with --state-dir or --database{remedy}")
    return name


def _line(item: Check) -> str:
    remedy = f" -> {item.remedy}" if item.remedy else ""
    return f"  {item.standing.value:<8} {item.name}: {printable(item.found)}{remedy}"
