"""A disk of a few hundred megabytes that can be filled up: a tmpfs of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = bytes(256 * 1024)


def mountable() -> bool:
    """Whether one can be had here."""
    with tempfile.TemporaryDirectory() as directory, suppress(OSError), SmallDisk(Path(directory), 1):
        return True
    return False


class SmallDisk:
    """Mounted on `directory`, which must exist and be empty; a context manager. Raises OSError where it may not be."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self._directory = directory
        self._ballast = directory / "ballast"
        self._megabytes = megabytes

    def __enter__(self) -> Self:
        mode = self._directory.stat().st_mode & 0o777
        options = f"size={self._megabytes}m,mode={mode:o}"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "chaos", str(self._directory)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if done.returncode:
            raise OSError(f"no small disk can be mounted here: {done.stderr.strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()
        # Lazily: a process that is still being buried may have a file open.
        subprocess.run(["umount", "-l", str(self._directory)], capture_output=True, timeout=30, check=False)

    def fill(self) -> None:
        """Not a byte is left."""
        file = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for block in (_BLOCK, _BLOCK[:4096], b"\0"):
                with suppress(OSError):
                    while os.write(file, block):
                        pass
        finally:
            os.close(file)

    def full(self) -> bool:
        """Whether nothing can be written to it."""
        return os.statvfs(self._directory).f_bavail == 0

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
