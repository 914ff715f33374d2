"""`dutycycle db`: tables are made and upgraded once; what is wrong with a store is found, told, and left as it is."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from alembic import command
from click.testing import CliRunner, Result

from dutycycle_alerter.cli.config import config as print_config
from dutycycle_alerter.cli.db import db
from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.incidents.model import Resolution, State
from dutycycle_alerter.store import postgresql, sqlite
from dutycycle_alerter.store.database import connect, get_meta, open_database
from dutycycle_alerter.store.migrating import configuration, head
from tests.alerter.store.test_incidents import NOW, add, incident
from tests.postgres.server import PASSWORD, USER, PostgresServer

DAY = 86400.0


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(db, arguments)
    assert PASSWORD not in result.output
    return result


def checked(url: str, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = run("check", "--json", "--database", url, *arguments)
    answer = json.loads(result.stdout)
    assert answer["ok"] == (result.exit_code == 0)
    return result.exit_code, {item["name"]: item for item in answer["checks"]}


def failed(url: str, *arguments: str) -> dict[str, str]:
    """What is wrong, with its remedy; the exit code says that something is."""
    code, checks = checked(url, *arguments)
    assert code == 1
    wrong = {name: item["remedy"] for name, item in checks.items() if item["standing"] == "failed"}
    assert all(wrong.values())
    return wrong


def execute(url: str, *statements: str) -> None:
    engine, _ = connect(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def test_upgrade_makes_the_tables_says_so_and_does_nothing_twice(empty_url: str) -> None:
    first, second = run("upgrade", "--database", empty_url), run("upgrade", "--database", empty_url)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert f"created, now at {head()}" in first.output
    assert "nothing to do" in second.output


def test_an_old_store_is_upgraded_from_its_revision_and_only_looked_at_by_check(empty_url: str) -> None:
    engine, _ = connect(empty_url)
    with engine.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    assert failed(empty_url) == {"tables": "dutycycle db upgrade"}
    assert failed(empty_url) == {"tables": "dutycycle db upgrade"}
    assert f"upgraded from revision 0001, now at {head()}" in run("upgrade", "--database", empty_url).output
    assert checked(empty_url)[0] == 0


def test_check_of_a_database_without_tables_makes_none(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        result = run("check", "--database", empty_url)
        assert isinstance(result.exception, ConfigError)
        assert not Path(empty_url.removeprefix("sqlite:///")).exists()
    else:
        assert failed(empty_url) == {"tables": "dutycycle db upgrade"}


def test_a_good_store_is_described(url: str) -> None:
    database = open_database(url, time_scale=1)
    add(database, incident("a"), incident("b"))
    database.close()
    code, checks = checked(url)
    assert code == 0
    assert {item["standing"] for item in checks.values()} == {"ok"}
    assert checks["rows of incident"]["found"] == "2"
    assert checks["time scale"]["found"] == "1"
    assert "SQLite" in checks["server"]["found"] or "PostgreSQL" in checks["server"]["found"]
    shown = run("check", "--database", url)
    assert (shown.exit_code, "rows of incident: 2" in shown.output) == (0, True)


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "tables"),
        ("DROP TABLE lease", "tables"),
        ("DROP INDEX uq_incident_active", "one active incident per subject and class"),
    ],
)
def test_what_is_wrong_is_named(url: str, statement: str, wrong: str) -> None:
    open_database(url).close()
    execute(url, statement)
    assert set(failed(url)) == {wrong}


def config(tmp_path: Path, **settings: object) -> str:
    path = tmp_path / "dutycycle.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def test_what_the_configuration_says_is_compared(url: str, tmp_path: Path) -> None:
    database = open_database(url, time_scale=30)
    resolved = incident(state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=NOW - 100 * DAY)
    add(database, resolved)
    database.close()
    file = config(tmp_path, time_scale=30, retention={"incidents": "36000d"})
    code, checks = checked(url, "--config", file)
    assert (code, checks["oldest resolved incident"]["standing"]) == (0, "ok")
    file = config(tmp_path, time_scale=30, retention={"incidents": "30d"})
    code, checks = checked(url, "--config", file)
    assert (code, checks["oldest resolved incident"]["standing"]) == (0, "warning")
    assert set(failed(url, "--config", config(tmp_path))) == {"time scale"}


def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer) -> None:
    name = postgres.create(template="template0", more="ENCODING 'LATIN1' LOCALE 'C'")
    url = postgres.url(name)
    assert set(failed(url)) == {"encoding", "tables"}
    result = run("upgrade", "--database", url)
    assert "ENCODING 'UTF8'" in str(result.exception)
    postgres.drop(name)


def test_rights_that_are_missing_are_named(postgres: PostgresServer, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres.execute("DROP ROLE IF EXISTS reader")
    postgres.execute("CREATE ROLE reader LOGIN PASSWORD 'reads'")
    url = postgres.url(name, user="reader", password="reads")
    for grant in ("SELECT", "INSERT, UPDATE, DELETE"):
        postgres.execute(f"GRANT {grant} ON ALL TABLES IN SCHEMA public TO reader", database=name)
        assert set(failed(url)) == {"rights"}
    postgres.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader", database=name)
    code, checks = checked(url)
    assert (code, checks["rights"]["standing"]) == (0, "warning")
    # With those, an alerter works.
    database = open_database(url, time_scale=1)
    add(database, incident())
    database.close()
    postgres.execute("DROP OWNED BY reader", database=name)
    postgres.execute("DROP ROLE reader")


def test_a_server_that_is_too_old_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "OLDEST", 990_000)
    assert failed(postgres_url) == {"server": "99 or newer is needed"}
    with pytest.raises(StoreError, match="too old: 99 or newer"):
        open_database(postgres_url)


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace(PASSWORD, "wrong-" + PASSWORD[::-1]),
        lambda url: url.rpartition("/")[0] + "/nosuch",
        lambda url: f"postgresql://{USER}:{PASSWORD}@127.0.0.1:1/dutycycle",
        lambda url: f"postgresql://{USER}:{PASSWORD}@host.invalid/dutycycle",
    ],
    ids=["password", "database", "port", "host"],
)
def test_a_server_that_is_not_reached_is_an_answer(postgres_url: str, change: Callable[[str], str]) -> None:
    result = run("check", "--database", change(postgres_url))
    assert result.exit_code == 1
    assert "failed   reached: database postgresql://dutycycle:***@" in result.output
    assert "-> check that the server runs and that the URL is right" in result.output
    assert PASSWORD[::-1] not in result.output


def malformed(file: Path) -> None:
    """Whole at its beginning, where SQLite looks first."""
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\x5a" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("spoil", "said", "remedy"),
    [
        (malformed, "malformed", "restore {file} from a backup (docs/database.md), or name another file"),
        (
            lambda file: file.write_bytes(b"hello" * 1000),
            "file is not a database",
            "restore {file} from a backup (docs/database.md), or name another file",
        ),
        (
            lambda file: (file.unlink(), file.mkdir()),
            "unable to open database file",
            "check that the path is right, and run this as the alerter's user",
        ),
    ],
    ids=["malformed", "another file", "a directory"],
)
def test_a_file_that_cannot_be_used_has_the_remedy_of_a_file(
    tmp_path: Path, spoil: Callable[[Path], object], said: str, remedy: str
) -> None:
    file = tmp_path / "store.sqlite3"
    url = f"sqlite:///{file}"
    open_database(url).close()
    spoil(file)
    assert failed(url)["reached"] == remedy.format(file=file)
    assert said in checked(url)[1]["reached"]["found"]


def test_a_file_that_this_user_may_not_write_is_for_the_alerters_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "store.sqlite3"
    open_database(f"sqlite:///{file}").close()

    def refused(connection: sqlite3.Connection, _record: object) -> None:
        # As SQLite says it to a user who may not write the file; root may.
        connection.execute("PRAGMA query_only=ON")
        connection.execute("DELETE FROM meta")

    monkeypatch.setattr(sqlite, "_configure", refused)
    assert failed(f"sqlite:///{file}") == {
        "reached": f"run this as the alerter's user, who can write {file} and its directory"
    }


def test_looking_writes_nothing(url: str) -> None:
    open_database(url).close()
    checked(url)
    database = open_database(url)
    with database.read() as connection:
        assert get_meta(connection, "time_scale") is None
    database.close()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("sqlite:////var/lib/x.sqlite3", "sqlite:////var/lib/x.sqlite3"),
        ("postgresql://me@h/n?sslmode=require", "postgresql://me@h/n?sslmode=require"),
        (f"postgresql://me:{PASSWORD}@h/n?password_file=/x", "postgresql://me:***@h/n?password_file=%2Fx"),
        (f"postgres://h/n?password={PASSWORD}&user=me", "postgres://h/n?password=hidden&user=me"),
        (
            f"postgresql://h/n?pasword={PASSWORD}&sslpassword={PASSWORD}",
            "postgresql://h/n?pasword=hidden&sslpassword=hidden",
        ),
        (f"postgresql://me:{PASSWORD}@[::1/n", "***"),
        (f"postgresql://me:p@{PASSWORD}@h/n", "***"),
    ],
)
def test_the_configuration_is_printed_without_the_password(tmp_path: Path, written: str, shown: str) -> None:
    result = CliRunner().invoke(print_config, [config(tmp_path, database=written)])
    assert result.exit_code == 0
    assert yaml.safe_load(result.output)["database"] == shown
