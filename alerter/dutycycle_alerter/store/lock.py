"""One alerter per store: a lock beside an SQLite file, held for as long as the process lives.

Two alerters on one file would both add what they scraped to the same ledger. The kernel releases the lock with the
process, however that ends. Reading the store, and acting on incidents, need no lock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.url import parse_url


class StoreLock:
    """Held from construction to `release`."""

    def __init__(self, url: str) -> None:
        """Take the lock of an SQLite file; other databases have none. Raises StoreError where another holds it, or the
        URL cannot be used.
        """
        self._file: int | None = None
        parsed = parse_url(url)
        if parsed.get_backend_name() != "sqlite" or not parsed.database:
            return
        path = Path(f"{parsed.database}.lock")
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: the store cannot be locked: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 32).decode("ascii", "replace").strip()
            os.close(file)
            raise StoreError(
                f"{parsed.database}: another alerter (process {holder or 'unknown'}) works on this store; "
                "end it, or use another database or --state-dir"
            ) from error
        # The number is only for the message above. Where the disk is full, the store says so by its own name.
        with suppress(OSError):
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
        self._file = file

    @property
    def held(self) -> bool:
        """Whether no other alerter can work on this store."""
        return self._file is not None

    def release(self) -> None:
        """Let another alerter have the store; harmless when not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
