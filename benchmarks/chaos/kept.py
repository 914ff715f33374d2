"""What is kept of a run: the programs' logs, and the evidence as JSON that people can read (`zcat`, `jq`)."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from .record import Record

EVIDENCE = "record.json.gz"
_RECORDS = TypeAdapter(Record)
_ROOT = Path(__file__).resolve().parents[2]


def move(directory: Path, wanted: Path | None) -> Path:
    """What a run wrote goes to where it is wanted, but for its sockets and Prometheus' data; returns where it is."""
    if wanted is None:
        return directory
    wanted.mkdir(parents=True, exist_ok=True)
    shutil.copytree(directory, wanted, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "data"))
    shutil.rmtree(directory, ignore_errors=True)
    return wanted


def without_places(record: Record) -> Record:
    """It, with no path of this machine in anything that was said, but for its logs' own places."""
    told = _RECORDS.validate_python(_anonymous(_RECORDS.dump_python(replace(record, logs=()))))
    return replace(told, logs=record.logs)


def _anonymous(value: object) -> object:
    """What a record is made of, without places in any text."""
    if isinstance(value, str):
        return _without_places(value)
    if isinstance(value, Mapping):
        return {key: _anonymous(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_anonymous(one) for one in value]
    return value


def _without_places(text: str) -> str:
    # The innermost first: one may lie within another.
    places = {str(_ROOT): "REPOSITORY", tempfile.gettempdir(): "TMP", str(Path.home()): "HOME"}
    for place in sorted(places, key=len, reverse=True):
        if place != "/":
            text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w.-])", places[place], text)
    return text


def write(record: Record, directory: Path) -> None:
    """The evidence, beside the logs; the same bytes for the same evidence."""
    # Where it was made is nobody's business.
    record = replace(record, logs=tuple(Path(log.name) for log in record.logs))
    # Python's own JSON has what programs under test may say: NaN, and bytes that were no text.
    text = json.dumps(_RECORDS.dump_python(record, mode="json"))
    (directory / EVIDENCE).write_bytes(gzip.compress(text.encode(), mtime=0))


def read(where: Path) -> Record:
    """What `write` wrote, wherever it was moved since and whatever it is called: a directory, or the file itself. Logs
    that are no longer beside it are left out, and counted. Raises OSError, or ValueError where it is something else.
    """
    file = where / EVIDENCE if where.is_dir() else where
    try:
        text = gzip.decompress(file.read_bytes())
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{file} is cut off or spoilt: {error}") from error
    record = _RECORDS.validate_python(json.loads(text))
    logs = tuple(log for one in record.logs if (log := file.parent / one.name).exists())
    return replace(record, logs=logs, unread=len(record.logs) - len(logs))
