"""`dutycycle analyze`: the same rules over recordings."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path

import click
from rich.progress import Progress

from dutycycle_alerter.analysis import Analysis
from dutycycle_alerter.analysis import analyze as analyze_recording
from dutycycle_alerter.cli.options import config_option, settings_from
from dutycycle_alerter.cli.reading import json_text
from dutycycle_alerter.cli.recorded import progress_bar, read_files, say, tell_of_files, zone
from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.plots import fleet_picture
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.settings import Settings


def _fields(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


_output = click.Path(path_type=Path, dir_okay=False, writable=True)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@config_option
@click.option("--timezone", callback=zone, help="Time zone of timestamps (nvidia-smi's) and output; local by default.")
@click.option("--fields", callback=_fields, default="", help="The value of --query-gpu, for a log without a header.")
@click.option("--user", default="", help="The user whose nvidia-smi logs these are.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Users and findings shown.")
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
    """Apply the same rules to recordings: how well GPUs were used, by whom, what went wrong and what to do.

    A FILE is a recording of `dutycycle record`, or the CSV that `nvidia-smi --query-gpu=... --format=csv -l N` writes;
    either may be compressed with gzip. Several files are one fleet.

    \b
    Examples:
      nvidia-smi --query-gpu=timestamp,index,uuid,utilization.gpu,memory.used --format=csv -l 5 > gpu.csv
      dutycycle analyze gpu.csv
      dutycycle analyze --html report.html node*.csv.gz
      dutycycle analyze --json week.csv.gz | jq '.findings[] | {user, cause, wasted_gpu_hours}'
    """
    settings = settings_from(config_file)
    with progress_bar() as progress:
        recording = read_files(files, progress, timezone=timezone, fields=fields, user=user)
        result = _judge(recording, settings, progress)
    _warn(result)
    _refuse_unmeasured(files, result)
    if html is not None:
        from dutycycle_alerter.web.report import report  # noqa: PLC0415 - only where it is asked for

        _write(html, report(result, timezone).encode(), "--html")
    if png is not None:
        _write(png, fleet_picture(result, timezone=timezone), "--png")
    if as_json:
        from dutycycle_alerter.analysis.answer import answer  # noqa: PLC0415

        click.echo(json_text(answer(result)))
    else:
        from dutycycle_alerter.cli.analysis_text import analysis_text  # noqa: PLC0415
        from dutycycle_alerter.cli.tables import show  # noqa: PLC0415

        show(analysis_text(result, limit=limit, zone=timezone))


def _judge(recording: Recording, settings: Settings, progress: Progress) -> Analysis:
    task = progress.add_task("Judging", total=None)
    return analyze_recording(recording, settings, lambda done, of: progress.update(task, completed=done, total=of))


def _refuse_unmeasured(files: tuple[Path, ...], result: Analysis) -> None:
    """Raise RecordingError where workloads held GPUs, and no time of theirs has a utilization."""
    if not result.tracks.tracks or result.fleet.observed:
        return
    if result.fleet.weighted:
        why = "no row has a utilization: nvidia-smi gives none in MIG mode and on a Jetson"
    else:
        why = "each GPU has a row at one time only, which stands for no time: record with nvidia-smi -l 5"
    raise RecordingError(f"{', '.join(map(str, files))}: {why}")


def _warn(result: Analysis) -> None:
    """What was assumed, and what counts nothing: on stderr, beside any output."""
    tell_of_files(result.recording)
    if result.tracks.repeated:
        say(f"{result.tracks.repeated} rows repeat a time of their GPU and count nothing")
    if result.tracks.unowned:
        say(f"{result.tracks.unowned} rows of GPUs that no workload held count nothing")


def _write(path: Path, content: bytes, option: str) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror or error}", param_hint=option) from error
