"""The store's signing key: made once, the same for everybody on the database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.database import Database, open_database, set_meta
from dutycycle_alerter.store.keys import signing_key


def test_it_is_made_once_and_stays(url: str) -> None:
    """Also where several ask at the same time for the first time."""
    databases = [open_database(url, time_scale=1) for _ in range(3)]
    try:
        with ThreadPoolExecutor(3) as pool:
            keys = set(pool.map(signing_key, databases))
        assert len(keys) == 1
        assert len(keys.pop()) == 32
    finally:
        for database in databases:
            database.close()


@pytest.mark.parametrize("kept", ["", "00", "zz" * 32, 7, None, ["00" * 32]])
def test_a_damaged_key_is_no_key(database: Database, kept: object) -> None:
    with database.write() as connection:
        set_meta(connection, "signing_key", kept)
    if kept is None:
        assert len(signing_key(database)) == 32
        return
    with pytest.raises(StoreError, match="damaged"):
        signing_key(database)
