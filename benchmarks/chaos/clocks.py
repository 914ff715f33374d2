"""The clock of one process, which can be stepped: a library to preload, and the file through which it is told."""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

_SOURCE = Path(__file__).with_name("stepped_clock.c")
_OFFSET = struct.Struct("d")


def build(directory: Path) -> Path:
    """Compiles the library. Raises RuntimeError with what gcc says."""
    library = directory / "stepped_clock.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(library), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"gcc: {done.stderr}")
    return library


class SteppedClock:
    """What the time of day is for the processes that were started with `environment`; other clocks run on."""

    def __init__(self, file: Path, library: Path) -> None:
        file.write_bytes(_OFFSET.pack(0.0))
        self._file = file.open("r+b")
        self._block = mmap.mmap(self._file.fileno(), _OFFSET.size)
        self.environment = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(file)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.close()
        self._file.close()

    @property
    def offset(self) -> float:
        """Seconds by which it is ahead of this machine's."""
        return float(_OFFSET.unpack_from(self._block)[0])

    def step(self, seconds: float) -> None:
        """Forward, or back where negative; from now on."""
        _OFFSET.pack_into(self._block, 0, self.offset + seconds)
