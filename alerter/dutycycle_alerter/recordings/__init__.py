"""Recordings: files of what GPUs did, in our format or as nvidia-smi writes them, read into one columnar Recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from itertools import chain
from pathlib import Path

from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.recordings import foreign, nvidia_smi
from dutycycle_alerter.recordings import format as own_format
from dutycycle_alerter.recordings.lines import Chunk, Progress
from dutycycle_alerter.recordings.lines import read as read_lines
from dutycycle_alerter.recordings.model import Recording, Skipped, SkippedLine, join

__all__ = ["Recording", "Skipped", "SkippedLine", "is_log", "load"]


def load(
    paths: Sequence[Path],
    *,
    timezone: tzinfo | None = None,
    fields: Sequence[str] = (),
    user: str = "",
    progress: Progress = lambda _: None,
) -> Recording:
    """Read files as one fleet; the format of each is told by its content.

    `timezone` (None: the machine's own), `fields` (for a file without header) and `user` are for logs of nvidia-smi.
    Raises RecordingError for a file that cannot be read as a whole.
    """
    labels = _labels(paths)
    parts = []
    for path in paths:
        chunks = read_lines(path, progress)
        parts.append(_read(str(path), chunks, labels[path], timezone=timezone, fields=fields, user=user))
    return join(parts)


def is_log(path: Path) -> bool:
    """Whether a file is a log of nvidia-smi, with or without a header. Raises RecordingError."""
    for chunk in read_lines(path, lambda _: None):
        lines = [line for line in chunk.lines if line.strip()]
        if lines:
            return not own_format.is_header(lines[0]) and (_has_header(lines) or _has_row(lines))
    return False


def _has_header(lines: Sequence[str]) -> bool:
    return any(nvidia_smi.is_header(line) for line in lines)


def _has_row(lines: Sequence[str]) -> bool:
    return any(nvidia_smi.is_row(line) for line in lines[:100])


def _read(
    file: str, chunks: Iterator[Chunk], label: str, *, timezone: tzinfo | None, fields: Sequence[str], user: str
) -> Recording:
    first = next((chunk for chunk in chunks if chunk.cut or any(line.strip() for line in chunk.lines)), None)
    if first is None or not any(line.strip() for line in first.lines):
        raise RecordingError(f"{file}: empty" if first is None else f"{file}: {first.cut}")
    lines = [line for line in first.lines if line.strip()]
    chunks = chain([first], chunks)
    if own_format.is_header(lines[0]):
        return own_format.read(file, chunks, label=label)
    header = _has_header(lines)
    if not header and (other := foreign.named(lines)):
        raise RecordingError(f"{file}: {other}")
    if fields or header:
        # The header of the file is right where it is not what --fields says.
        fields = () if nvidia_smi.is_header(lines[0]) else fields
        return nvidia_smi.read(file, chunks, label=label, user=user, fields=fields, timezone=timezone)
    if _has_row(lines):
        raise RecordingError(
            f"{file}: a log of nvidia-smi without header: say what was given to --query-gpu, for example"
            " --fields timestamp,index,utilization.gpu,memory.used"
        )
    raise RecordingError(
        f"{file}: neither a recording (a header with t,node,gpu,utilization_ratio,...) nor the CSV of nvidia-smi"
        " --query-gpu"
    )


def _labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Each file's name without its endings, with as much of its folders as tells it from the others."""
    unique = list(dict.fromkeys(paths))
    labels = {path: _stem(path) for path in unique}
    if len(set(labels.values())) < len(labels):
        labels = {path: f"{path.parent / _stem(path)}" for path in unique}
    if len(set(labels.values())) < len(labels):
        labels = {path: str(path) for path in unique}
    return labels


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".csv", ".txt", ".log"):
        name = name.removesuffix(ending) or name
    return name
