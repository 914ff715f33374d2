"""Writes our recording format, so that a process killed at any moment loses at most the rows it was writing."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dutycycle_alerter.errors import AlerterError, RecordingError
from dutycycle_alerter.recordings.format import COLUMNS

Row = Mapping[str, str | float | None]
"""Values by column; None, or a column that is not there, is missing."""


class NotWrittenError(AlerterError):
    """A recording could not be written: no room, no permission, no such folder."""


class RecordingWriter:
    """A new recording at `path`, compressed where the name ends in .gz.

    Raises RecordingError where the file exists, and NotWrittenError where it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: IO[bytes] = path.open("xb")
        except FileExistsError as error:
            raise RecordingError(f"{path}: exists already: choose another name") from error
        except OSError as error:
            raise NotWrittenError(f"{path}: cannot be written: {error.strerror or error}") from error
        self._gzip = gzip.GzipFile(fileobj=self._file, mode="wb", mtime=0) if path.suffix == ".gz" else None
        self._write(",".join(COLUMNS) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, rows: Iterable[Row]) -> None:
        """Append rows; they are with the operating system when this returns. Raises NotWrittenError."""
        text = "".join(map(line, rows))
        if text:
            self._write(text)

    def close(self) -> None:
        """End the file properly. Raises NotWrittenError."""
        try:
            if self._gzip is not None:
                self._gzip.close()
            self._file.close()
        except OSError as error:
            raise NotWrittenError(f"{self._path}: cannot be written: {error.strerror or error}") from error

    def _write(self, text: str) -> None:
        try:
            if self._gzip is not None:
                self._gzip.write(text.encode())
                self._gzip.flush()
            else:
                self._file.write(text.encode())
            self._file.flush()
        except OSError as error:
            raise NotWrittenError(f"{self._path}: cannot be written: {error.strerror or error}") from error


def line(row: Row) -> str:
    """One row as a line of CSV, with its end."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([_cell(row.get(name)) for name in COLUMNS])
    return buffer.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        # A line is a row: what would break it becomes a space.
        return "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in value).strip()
    return str(int(value)) if value == int(value) else repr(float(value))
