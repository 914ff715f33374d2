"""The address of a store: which URLs name one, its password from a file, and how it is shown."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from dutycycle_alerter.errors import StoreError

_EXAMPLES = "sqlite:////var/lib/dutycycle/dutycycle.sqlite3 or postgresql://user@host/name"
_POSTGRESQL = ("postgresql", "postgres")
_DRIVER = "postgresql+psycopg"
_FILE = "password_file"
_LONGEST_SECRET = 64 * 1024


def parse_url(text: str) -> sa.URL:
    """A URL that SQLAlchemy can open. Raises StoreError with the remedy.

    PostgreSQL is spoken to through psycopg, whatever SQLAlchemy's default is. The query may have libpq's options, and
    `password_file`, which holds the password alone. What libpq reads from the environment (PGPASSWORD, PGPASSFILE,
    PGSSLMODE, ...) holds where the URL is silent.
    """
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        # Neither the URL nor what the parser says of it: one that cannot be read may show its password anywhere.
        raise StoreError(
            f"the database's URL cannot be read: write it like {_EXAMPLES}, with special characters in a password as "
            "%XX"
        ) from None
    backend, _, driver = url.drivername.partition("+")
    if backend in _POSTGRESQL:
        if driver not in ("", "psycopg"):
            raise StoreError(
                f"database {show_url(url)}: PostgreSQL is spoken to through psycopg 3: write postgresql://... "
                "without a driver"
            )
        url = url.set(drivername=_DRIVER)
        return _with_password(url) if _FILE in url.query else url
    if backend != "sqlite":
        raise StoreError(f"database {show_url(url)}: a store is SQLite or PostgreSQL: write {_EXAMPLES}")
    if _FILE in url.query:
        raise StoreError(f"database {show_url(url)}: SQLite has no password: remove {_FILE}")
    if url.database in (None, "", ":memory:"):
        raise StoreError(f"database {show_url(url)}: a store needs a file: write it like sqlite:///dutycycle.sqlite3")
    return url


def show_url(url: sa.URL) -> str:
    """The URL without its password, which may also be among the options, and without the driver's name."""
    backend = url.drivername.partition("+")[0]
    return url.set(query={}, drivername=backend).render_as_string(hide_password=True)


def mask_url(text: str) -> str:
    """A URL as it is configured, without its password. Of one that cannot be read nothing is shown."""
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        return "***"
    if "password" in url.query:
        url = url.update_query_dict({"password": "hidden"})
    return url.render_as_string(hide_password=True)


def _with_password(url: sa.URL) -> sa.URL:
    named = url.query[_FILE]
    if url.password is not None or "password" in url.query or not isinstance(named, str):
        raise StoreError(f"database {show_url(url)}: it has a password, and {_FILE} names another")
    file = Path(named)
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST_SECRET + 1)
        if len(content) > _LONGEST_SECRET:
            raise StoreError(f"{file}: too large for a password")
        # Editors and `echo` end a file with a newline, which is no part of the password.
        password = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise StoreError(f"{file}: the database's password cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise StoreError(f"{file}: the database's password is not UTF-8") from None
    if not password or "\0" in password:
        raise StoreError(f"{file}: there is no password in it")
    return url.difference_update_query([_FILE]).set(password=password)
