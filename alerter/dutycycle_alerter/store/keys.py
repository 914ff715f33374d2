"""The store's key, with which links and sessions are signed: every alerter on one database has the same."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.transactions import Transactions

_KEY = "signing_key"
_BYTES = 32


def signing_key(database: Transactions) -> bytes:
    """32 random bytes, made at the first call on a database and kept in it. Raises StoreError.

    To make every link and session invalid, delete the row `signing_key` of the table `meta` and restart.
    """
    with database.read() as connection:
        known = _known(connection)
    if known is not None:
        return known
    with database.write() as connection:
        # Writers wait for each other: another alerter may have made it in between.
        known = _known(connection)
        if known is None:
            known = secrets.token_bytes(_BYTES)
            set_meta(connection, _KEY, known.hex())
    return known


def _known(connection: sa.Connection) -> bytes | None:
    kept = get_meta(connection, _KEY)
    if kept is None:
        return None
    try:
        key = bytes.fromhex(kept)
    except (TypeError, ValueError):
        key = b""
    if len(key) != _BYTES:
        raise StoreError("the store's signing key is damaged: delete the row signing_key of its table meta")
    return key
