"""`dutycycle analyze`: the same rules over recordings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dutycycle_alerter import recordings
from dutycycle_alerter.analysis import Analysis
from dutycycle_alerter.analysis import analyze as analyze_recording
from dutycycle_alerter.cli.options import config_option, settings_from
from dutycycle_alerter.plots import fleet_picture
from dutycycle_alerter.printable import printable
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.settings import Settings

_NAMED = 5
_LINE_LIMIT = 300


def _zone(context: click.Context, parameter: click.Parameter, value: str | None) -> tzinfo | None:
    if value is None:
        return None
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(value, available_timezones(), n=1)
        hint = f"did you mean {near[0]}?" if near else "write it like Europe/Oslo or UTC"
        raise click.BadParameter(f"{value!r} is not a time zone: {hint}", context, parameter) from error


def _fields(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


_output = click.Path(path_type=Path, dir_okay=False, writable=True)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@config_option
@click.option("--timezone", callback=_zone, help="Zone of nvidia-smi's timestamps and of what is shown; local if not.")
@click.option("--fields", callback=_fields, default="", help="What --query-gpu was given, for a log without header.")
@click.option("--user", default="", help="Whose logs of nvidia-smi these are.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="So many users and findings.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.option("--html", type=_output, help="Write one self-contained page.")
@click.option("--png", type=_output, help="Write one picture.")
def analyze(
    files: tuple[Path, ...],
    config_file: Path | None,
    timezone: tzinfo | None,
    fields: tuple[str, ...],
    user: str,
    limit: int,
    as_json: bool,
    html: Path | None,
    png: Path | None,
) -> None:
    """The same rules over recordings: how well GPUs were used, by whom, what went wrong and what to do.

    A FILE is a recording of `dutycycle record`, or the CSV that `nvidia-smi --query-gpu=... --format=csv -l N` writes;
    either may be compressed with gzip. Several files are one fleet.

    \b
    Examples:
      nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 5 > gpu.csv
      dutycycle analyze gpu.csv
      dutycycle analyze --html report.html node*.csv.gz
      dutycycle analyze --json week.csv.gz | jq '.findings[] | {user, cause, wasted_gpu_hours}'
    """
    settings = settings_from(config_file)
    with _progress() as progress:
        recording = _read(files, progress, timezone, fields, user)
        result = _judge(recording, settings, progress)
    _warn(result)
    if html is not None:
        from dutycycle_alerter.web.report import report  # noqa: PLC0415 - only where it is asked for

        _write(html, report(result, timezone).encode(), "--html")
    if png is not None:
        _write(png, fleet_picture(result, timezone=timezone), "--png")
    if as_json:
        from dutycycle_alerter.analysis.answer import answer  # noqa: PLC0415

        click.echo(answer(result).model_dump_json(indent=2))
    else:
        from dutycycle_alerter.cli.analysis_text import analysis_text  # noqa: PLC0415
        from dutycycle_alerter.cli.tables import show  # noqa: PLC0415

        show(analysis_text(result, limit=limit, zone=timezone))


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on stderr, where that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def _read(
    files: tuple[Path, ...], progress: Progress, timezone: tzinfo | None, fields: tuple[str, ...], user: str
) -> Recording:
    task = progress.add_task("Reading", total=sum(path.stat().st_size for path in files if path.is_file()) or None)
    return recordings.load(
        files,
        timezone=timezone,
        fields=fields,
        user=user,
        progress=lambda size: progress.advance(task, size),
    )


def _judge(recording: Recording, settings: Settings, progress: Progress) -> Analysis:
    task = progress.add_task("Judging", total=None)
    return analyze_recording(recording, settings, lambda done, of: progress.update(task, completed=done, total=of))


def _warn(result: Analysis) -> None:
    """What was assumed, and which lines could not be read: on stderr, beside any output."""
    for note in result.recording.notes:
        _say(note)
    skipped = result.recording.skipped
    for line in skipped.first[:_NAMED]:
        _say(str(line))
    if skipped.count > _NAMED:
        _say(f"and {skipped.count - _NAMED} more lines that could not be read")
    if result.tracks.repeated:
        _say(f"{result.tracks.repeated} rows repeat a time of their GPU and count nothing")
    if result.tracks.unowned:
        _say(f"{result.tracks.unowned} rows of GPUs that no workload held count nothing")


def _say(text: str) -> None:
    click.echo(f"dutycycle: {printable(text, _LINE_LIMIT)}", err=True)


def _write(path: Path, content: bytes, option: str) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror or error}", param_hint=option) from error
