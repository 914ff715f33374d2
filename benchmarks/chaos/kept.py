"""What is kept of a run: the programs' logs, and the evidence as JSON that people can read (`zcat`, `jq`)."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from .record import Record

EVIDENCE = "record.json.gz"
_RECORDS = TypeAdapter(Record)


def move(directory: Path, wanted: Path | None) -> Path:
    """What a run wrote goes to where it is wanted, but for its sockets and Prometheus' data; returns where it is."""
    if wanted is None:
        return directory
    wanted.mkdir(parents=True, exist_ok=True)
    shutil.copytree(directory, wanted, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "data"))
    shutil.rmtree(directory, ignore_errors=True)
    return wanted


def write(record: Record, directory: Path) -> None:
    """The evidence, beside the logs; the same bytes for the same evidence."""
    # Where it was made is nobody's business.
    record = replace(record, logs=tuple(Path(log.name) for log in record.logs))
    # Python's own JSON has what programs under test may say: NaN, and bytes that were no text.
    text = json.dumps(_RECORDS.dump_python(record, mode="json"))
    (directory / EVIDENCE).write_bytes(gzip.compress(text.encode(), mtime=0))


def read(where: Path) -> Record:
    """What `write` wrote, wherever it was moved since and whatever it is called: a directory, or the file itself. Logs
    that are no longer beside it are left out. Raises OSError, or ValueError where it is something else.
    """
    file = where / EVIDENCE if where.is_dir() else where
    try:
        text = gzip.decompress(file.read_bytes())
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{file} is cut off or spoilt: {error}") from error
    record = _RECORDS.validate_python(json.loads(text))
    logs = (file.parent / log.name for log in record.logs)
    return replace(record, logs=tuple(log for log in logs if log.exists()))
