"""The address of a store: which URLs name one, its password from a file, and how it is shown."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from dutycycle_alerter.errors import StoreError, StoreUrlError
from dutycycle_alerter.printable import printable

_EXAMPLES = "sqlite:////var/lib/dutycycle/dutycycle.sqlite3 or postgresql://user@host/name"
_POSTGRESQL = ("postgresql", "postgres")
_DRIVER = "postgresql+psycopg"
_FILE = "password_file"
_SEVERAL = ("host", "port")
_LONGEST_SECRET = 64 * 1024


def parse_url(text: str) -> sa.URL:
    """A URL that SQLAlchemy can open. Raises StoreUrlError with the remedy, StoreError where the password's file
    cannot be read.

    PostgreSQL is spoken to through psycopg, whatever SQLAlchemy's default is. The query may have libpq's options, and
    `password_file`, which holds the password alone. What libpq reads from the environment (PGPASSWORD, PGPASSFILE,
    PGSSLMODE, ...) holds where the URL is silent.
    """
    url = _read(text)
    if url is None:
        # Neither the URL nor what the parser says of it: one that cannot be read may show its password anywhere.
        raise StoreUrlError(
            f"the database's URL cannot be read: write it like {_EXAMPLES}, with special characters in a password as "
            "%XX"
        )
    backend, _, driver = url.drivername.partition("+")
    if backend in _POSTGRESQL:
        if driver not in ("", "psycopg"):
            raise StoreUrlError(
                f"database {show_url(url)}: PostgreSQL is spoken to through psycopg 3: write postgresql://... "
                "without a driver"
            )
        url = url.set(drivername=_DRIVER)
        _refuse_others(url)
        return _with_password(url) if _FILE in url.query else url
    if backend != "sqlite":
        raise StoreUrlError(f"database {show_url(url)}: a store is SQLite or PostgreSQL: write {_EXAMPLES}")
    if _FILE in url.query:
        raise StoreUrlError(f"database {show_url(url)}: SQLite has no password: remove {_FILE}")
    if url.database in (None, "", ":memory:"):
        raise StoreUrlError(
            f"database {show_url(url)}: a store needs a file: write it like sqlite:///dutycycle.sqlite3"
        )
    return url


def show_url(url: sa.URL) -> str:
    """The URL without its password, which may also be among the options, and without the driver's name."""
    backend = url.drivername.partition("+")[0]
    return url.set(query={}, drivername=backend).render_as_string(hide_password=True)


def mask_url(text: str) -> str:
    """A URL as it is configured, without its password. Of one that cannot be read nothing is shown."""
    url = _read(text)
    if url is None:
        return "***"
    if url.query:
        # One whose name is misspelt may hold the password as well.
        shown = {_FILE} | {name for name, secret in _options().items() if not secret}
        url = url.update_query_dict({name: "hidden" for name in url.query if name not in shown})
    return url.render_as_string(hide_password=True)


def _read(text: str) -> sa.URL | None:
    """None where it cannot be read as it was meant."""
    try:
        text.encode()  # what a command line holds that is no text can be shown nowhere
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        return None
    # Nothing in it can have a NUL. An @ in a password that is not written as %40 leaves the password's end in the name
    # of the host.
    return None if "\0" in unquote(text) or "@" in (url.host or "") else url


def _refuse_others(url: sa.URL) -> None:
    """What psycopg would take for an argument of its own, or libpq does not know. Raises StoreUrlError."""
    for name, value in url.query.items():
        if name != _FILE and name not in _options():
            shown = printable(name, 40)
            raise StoreUrlError(f"database {show_url(url)}: libpq has no option {shown}: correct its name")
        if not isinstance(value, str) and name not in _SEVERAL:
            raise StoreUrlError(f"database {show_url(url)}: {name} is given more than once")


@cache
def _options() -> dict[str, bool]:
    """libpq's options, and whether they are secret. Those that change what a connection is for are left out."""
    import psycopg  # noqa: PLC0415 - it takes half a second to import, and 10 MB

    return {
        option.keyword.decode(): option.dispchar == b"*"
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.dispchar != b"D"
    }


def _with_password(url: sa.URL) -> sa.URL:
    named = url.query[_FILE]
    if url.password is not None or "password" in url.query or not isinstance(named, str):
        raise StoreUrlError(f"database {show_url(url)}: it has a password, and {_FILE} names another")
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
