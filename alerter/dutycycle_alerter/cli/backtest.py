"""`dutycycle backtest`: what another configuration would have made of the past, before anyone is mailed."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path

import click
from rich.progress import Progress

from dutycycle_alerter import backtest as rules_over_history
from dutycycle_alerter.backtest import Backtest, History, RecordedHistory
from dutycycle_alerter.cli.moments import parse_moment, write_moment
from dutycycle_alerter.cli.options import settings_from
from dutycycle_alerter.cli.reading import in_seconds, json_text
from dutycycle_alerter.cli.recorded import progress_bar, read_files, say, tell_of_files, zone
from dutycycle_alerter.errors import ConfigError, RecordingError, SourceError
from dutycycle_alerter.settings import Settings

_MOST_INSTANTS = 1_000_000
_LONGEST_STEP = 3600.0
_config = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("recordings", metavar="[RECORDING]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--from", "since", metavar="T", help="Start of the range; by default that of the recordings.")
@click.option("--to", "until", metavar="T", help="End of the range; by default that of the recordings, or now.")
@click.option("--config", "new_file", required=True, type=_config, help="The configuration to try.")
@click.option(
    "--against",
    "current_file",
    envvar="DUTYCYCLE_CONFIG",
    type=_config,
    help="The present configuration, to compare with. Without it, the defaults apply.",
)
@click.option("--step", default="5m", show_default=True, callback=in_seconds, help="Time between two judgements.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Users and incidents shown.")
@click.option("--timezone", callback=zone, help="Time zone of days and times, and of the output; local by default.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def backtest(
    recordings: tuple[Path, ...],
    since: str | None,
    until: str | None,
    new_file: Path,
    current_file: Path | None,
    step: float,
    limit: int,
    timezone: tzinfo | None,
    as_json: bool,
) -> None:
    """What another configuration would have reported: incidents, users, emails, compared with the present one.

    The past comes from recordings, or from the PromQL engine of the new configuration's `prometheus` section. Nothing
    is stored and no email is sent. T is a day (2026-11-20), a time (2026-11-20T08:30:00Z) or how long ago (7d, counted
    from the end of recordings).

    \b
    Examples:
      dutycycle backtest --config new.yaml week.csv.gz
      dutycycle backtest --config new.yaml --against /etc/dutycycle/config.yaml --from 7d
      dutycycle backtest --config new.yaml --from 2026-11-01 --to 2026-11-14 --step 15m
      dutycycle backtest --config new.yaml --json week.csv.gz | jq '.added[] | {user, rule, severity}'
    """
    new, current = settings_from(new_file), settings_from(current_file)
    with progress_bar() as progress, ExitStack() as stack:
        history, other = _histories(recordings, new, current, stack, progress, timezone)
        if step > _LONGEST_STEP:
            raise click.BadParameter("at most 1h: what is shorter than a step is not seen", param_hint="--step")
        wall_step = step / new.time_scale
        start, end = _range(history, (since, until), timezone)
        if (end - start) / wall_step > _MOST_INSTANTS:
            raise click.BadParameter(
                f"more than {_MOST_INSTANTS:,} times to judge at: give a longer step", param_hint="--step"
            )
        task = progress.add_task("Judging", total=None)
        result = rules_over_history.backtest(
            history,
            current_history=other,
            new=new,
            current=current,
            since=start,
            until=end,
            step=wall_step,
            progress=lambda done, of: progress.update(task, completed=done, total=of),
        )
    _tell_gaps(result)
    if as_json:
        from dutycycle_alerter.backtest.answer import answer  # noqa: PLC0415 - only what is asked for

        click.echo(json_text(answer(result)))
    else:
        from dutycycle_alerter.cli.backtest_text import backtest_text  # noqa: PLC0415
        from dutycycle_alerter.cli.tables import show  # noqa: PLC0415

        show(backtest_text(result, limit=limit, zone=timezone))


def _histories(
    files: tuple[Path, ...],
    new: Settings,
    current: Settings,
    stack: ExitStack,
    progress: Progress,
    timezone: tzinfo | None,
) -> tuple[History, History | None]:
    """The history, and another one for the current configuration where the same would not do for it."""
    if files:
        recording = read_files(files, progress, timezone=timezone)
        tell_of_files(recording)
        recorded = RecordedHistory(recording, time_scale=new.time_scale)
        if recorded.extent() is None:
            raise RecordingError("the recordings have no job of which anything is known")
        return recorded, None
    engine = new.prometheus or current.prometheus
    if engine is None:
        raise ConfigError("no past to judge: name recordings, or a configuration with a prometheus section")
    from dutycycle_alerter.backtest.prometheus import PrometheusHistory, read_alike  # noqa: PLC0415 - only here

    new, current = (one.model_copy(update={"prometheus": engine}) for one in (new, current))
    history = stack.enter_context(PrometheusHistory(new))
    return history, None if read_alike(new, current) else stack.enter_context(PrometheusHistory(current))


def _tell_gaps(result: Backtest) -> None:
    """Where an engine knew nothing: on stderr, beside any output. Raises SourceError where it never knew anything."""
    if not result.gaps:
        return
    if result.gaps == result.instants:
        span = f"from {write_moment(result.since)} to {write_moment(result.until)}"
        raise SourceError(f"the engine knows nothing of our exporters {span}")
    say(f"the engine knew nothing of our exporters at {result.gaps} of {result.instants} instants")


def _range(history: History, wanted: tuple[str | None, str | None], timezone: tzinfo | None) -> tuple[float, float]:
    """The range to judge: what was asked for, as far as the history reaches."""
    extent = history.extent()
    if extent is None and wanted[0] is None:
        raise click.UsageError("the past of a PromQL engine has no beginning: give --from, such as --from 7d")
    now = time.time()
    first, last = (float("-inf"), now) if extent is None else extent
    since = first if wanted[0] is None else _moment(wanted[0], "--from", last, timezone)
    until = last if wanted[1] is None else _moment(wanted[1], "--to", last, timezone, end_of_day=True)
    if extent is None:
        until = min(until, now)
    if since >= until:
        raise click.BadParameter(
            f"{write_moment(since)} is not before --to, {write_moment(until)}", param_hint="--from"
        )
    if extent is not None and (until <= first or since >= last):
        raise RecordingError(
            f"nothing is known from {write_moment(since)} to {write_moment(until)}: what there is reaches from"
            f" {write_moment(first)} to {write_moment(last)}"
        )
    if extent is None:
        return since, until
    if since < first or until > last:
        since, until = max(since, first), min(until, last)
        say(f"what there is reaches from {write_moment(first)} to {write_moment(last)}: only that is judged")
    return since, until


def _moment(text: str, option: str, now: float, timezone: tzinfo | None, *, end_of_day: bool = False) -> float:
    try:
        return parse_moment(text, now=now, zone=timezone, end_of_day=end_of_day)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
