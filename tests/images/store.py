"""Keeps what takes long to make, by a key of all that it is made of; several processes may ask for the same at once."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Store:
    """Directories below one. What was got is kept until `close`; older ones of its name go when a new one is made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: list[int] = []
        directory.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, key: str, make: Callable[[Path], None]) -> Path:
        """The directory of that name and key, made by `make` in an empty one where there is none."""
        target = self._directory / f"{name}-{key[:16]}"
        with self._locked(self._directory / f"{name}.lock", fcntl.LOCK_EX):
            self._hold(target)
            if not target.exists():
                self._prune(name)
                making = self._directory / f"{name}.making"
                shutil.rmtree(making, ignore_errors=True)
                making.mkdir()
                make(making)
                making.rename(target)
        return target

    def close(self) -> None:
        """Others may remove what was got from here on."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()

    def _hold(self, target: Path) -> None:
        descriptor = os.open(f"{target}.used", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._held.append(descriptor)

    def _prune(self, name: str) -> None:
        """What nobody holds."""
        for used in self._directory.glob(f"{name}-*.used"):
            target = used.with_suffix("")
            descriptor = os.open(used, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            else:
                shutil.rmtree(target, ignore_errors=True)
                used.unlink()
            finally:
                os.close(descriptor)

    @contextmanager
    def _locked(self, path: Path, how: int) -> Iterator[None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)
