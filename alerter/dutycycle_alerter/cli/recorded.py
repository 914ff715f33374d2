"""What the commands on recordings share: reading files, a bar of progress, and what is told of the files on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dutycycle_alerter import recordings
from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.settings.calendar import zone_of

_NAMED = 5
_LINE_LIMIT = 300


def zone(context: click.Context, parameter: click.Parameter, value: str | None) -> tzinfo | None:
    """Callback of an option that is a time zone; None is the machine's own."""
    try:
        return None if value is None else zone_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar on stderr, where that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def read_files(
    files: Sequence[Path],
    progress: Progress,
    *,
    timezone: tzinfo | None = None,
    fields: Sequence[str] = (),
    user: str = "",
) -> Recording:
    """All files as one fleet. Raises RecordingError, also where no row at all could be read."""
    task = progress.add_task("Reading", total=sum(path.stat().st_size for path in files if path.is_file()) or None)
    recording = recordings.load(
        files,
        timezone=timezone,
        fields=fields,
        user=user,
        progress=lambda size: progress.advance(task, size),
    )
    if not len(recording):
        first = recording.skipped.first
        why = f"; the first line that could not be read: {first[0]}" if first else ""
        raise RecordingError(f"{', '.join(map(str, files))}: no row could be read{why}")
    return recording


def tell_of_files(recording: Recording) -> None:
    """What was assumed, and which lines could not be read: on stderr, beside any output."""
    for note in recording.notes:
        say(note)
    skipped = recording.skipped
    for line in skipped.first[:_NAMED]:
        say(str(line))
    if skipped.count > _NAMED:
        say(f"and {skipped.count - _NAMED} more lines that could not be read")


def say(text: str) -> None:
    """One line on stderr."""
    click.echo(f"dutycycle: {printable(text, _LINE_LIMIT)}", err=True)
