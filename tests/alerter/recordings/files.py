"""Recordings on disk for tests."""

import gzip
from datetime import UTC, tzinfo
from pathlib import Path

from dutycycle_alerter import recordings
from dutycycle_alerter.recordings import Recording


def load(
    folder: Path, content: str | bytes, *, name: str = "a.csv", fields: str = "", user: str = "", zone: tzinfo = UTC
) -> Recording:
    """The recording that a file with this content holds; compressed where the name says so."""
    data = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    wanted = [field for field in fields.split(",") if field]
    return recordings.load([path], timezone=zone, fields=wanted, user=user)


def column(recording: Recording, name: str) -> list[str]:
    """A text column, row by row."""
    text = recording.texts[name]
    return [text.names[code] for code in text.codes]


def reasons(recording: Recording) -> list[tuple[int, str]]:
    """Line and reason of each line that could not be read."""
    assert recording.skipped.count == len(recording.skipped.first)
    return [(skipped.line, skipped.why) for skipped in recording.skipped.first]
