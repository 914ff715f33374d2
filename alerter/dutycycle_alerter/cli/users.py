"""`dutycycle users`: who used how much, and how well."""

from __future__ import annotations

import click
from rich.text import Text

from dutycycle_alerter import answers, figures
from dutycycle_alerter.cli.histogram import how_many_low, users_histograms
from dutycycle_alerter.cli.reading import in_seconds, json_option, json_text, opened, store_options
from dutycycle_alerter.cli.tables import LOW, QUIET, bar, outside, show, status_lines, table
from dutycycle_alerter.fleet import empty
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT, UserUsage


@click.command()
@click.option("--since", callback=in_seconds, default="7d", show_default=True, help="How far to look back.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most users to list.")
@json_option
@store_options
@click.pass_context
def users(context: click.Context, since: float, limit: int, as_json: bool) -> None:
    """Who used how many GPU-hours, and how well, most wasted first.

    \b
    Examples:
      dutycycle users --since 30d
      dutycycle users --json | jq '.users[] | select(.mean_utilization_percent < 15) | .user'
    """
    with opened(context) as reader:
        status = reader.status()
        until = status.now
        start = until - since / status.time_scale
        found = reader.users(since=start, until=until)
    if as_json:
        click.echo(json_text(answers.users_answer(found, since=start, until=until, status=status)))
        return
    if not found:
        show(status_lines(status), Text(empty(status, f"Nobody held a GPU in the last {format_duration(since)}.")))
        return
    listed = table(
        ("User", 1), "Mean utilization", "Wasted", "Allocated", "Energy", "Jobs", "Incidents",
        right=("Wasted", "Allocated", "Energy", "Jobs", "Incidents"),
    )  # fmt: skip
    for user in found[:limit]:
        listed.add_row(
            outside(user.user or "unknown user"),
            _mean(user),
            figures.hours(user.wasted if user.observed else None),
            figures.hours(user.allocated),
            figures.energy(user.energy),
            str(user.jobs),
            str(user.incidents),
        )
    summary = f"{figures.count(len(found), 'user')} in the last {format_duration(since)}; {how_many_low(found)}"
    told = Text(f"{summary} Wasted and allocated are GPU-hours.", QUIET)
    show(status_lines(status), listed, Text(), *users_histograms(found), Text(), told)


def _mean(user: UserUsage) -> Text:
    mean = None if user.mean_percent is None else user.mean_percent / 100
    low = mean is not None and 100 * mean < LOW_UTILIZATION_PERCENT
    return bar(mean) + Text(f" {figures.percent(mean)}", LOW if low else "")
