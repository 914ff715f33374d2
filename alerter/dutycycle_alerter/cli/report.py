"""`dutycycle report`: who used GPUs how well, where GPU-hours went, and how often rules were right."""

from __future__ import annotations

import sys
from datetime import tzinfo
from pathlib import Path

import click

from dutycycle_alerter.cli.moments import parse_moment
from dutycycle_alerter.cli.options import settings_from
from dutycycle_alerter.cli.reading import json_text, opened, store_options
from dutycycle_alerter.cli.report_text import plain, report_text
from dutycycle_alerter.cli.tables import show
from dutycycle_alerter.reports.model import Asked, Kind, Report, read
from dutycycle_alerter.reports.sheet import sheets, sort_keys
from dutycycle_alerter.scale import parse_duration
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.settings.calendar import zone_of
from dutycycle_alerter.views import Status

FORMATS = ("table", "csv", "json", "html", "png")
LISTED = 50
"""Rows for people, where no limit is given."""


@click.command()
@click.argument("kind", type=click.Choice([kind.value for kind in Kind]))
@click.option("--since", default="30d", show_default=True, help="Start: how long ago (30d), a day, or a time.")
@click.option("--until", default="", help="End, in the same forms; now by default.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; stdout by default.")
@click.option("--sort", default="", help="Column to sort by, largest first; wasted by default.")
@click.option("--limit", type=click.IntRange(1), help=f"Most rows to list; {LISTED} in tables and pages.")
@click.option("--cluster", help="Only this cluster.")
@store_options
@click.pass_context
def report(
    context: click.Context,
    kind: str,
    since: str,
    until: str,
    form: str,
    output: Path | None,
    sort: str,
    limit: int | None,
    cluster: str | None,
) -> None:
    """How well users used their GPUs, where GPU-hours went, and how often rules were right: from the hourly ledger.

    \b
    KIND is one of
      users      by user: utilization, waste, energy
      accounts   by account
      models     by model of GPU, with those that were free or out of service
      waste      where GPU-hours went: idle, free while jobs waited, drained, ...
      rules      what became of the incidents of each rule

    Costs, CO2 and the time zone come from the configuration (--config); without it, times are the machine's.

    \b
    Examples:
      dutycycle report users --since 30d
      dutycycle report waste --since 2026-11-01 --until 2026-11-30 --format html --output november.html
      dutycycle report accounts --format csv --output accounts.csv
    """
    _check_sort(Kind(kind), sort)
    if form == "png" and output is None and sys.stdout.isatty():
        raise click.BadParameter("a picture is nothing for a terminal: name a file", param_hint="--output")
    file = context.ensure_object(dict).get("config_file")
    settings = None if file is None else settings_from(file)
    costs = Costs() if settings is None else settings.costs
    zone = None if settings is None else zone_of(settings.notify.timezone)
    with opened(context) as reader:
        status = reader.status()
        begin, end = _range(since, until, status, zone)
        found = read(reader, Asked(Kind(kind), begin, end, cluster))
    most = LISTED if limit is None and form in ("table", "html") else limit
    if form == "table" and output is None:
        show(*report_text(found, sheets(found, costs, sort=sort, limit=most), status, zone))
        return
    content = _content(form, found, costs, status, zone, sort, most)
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        _write(output, content)


def _content(
    form: str, found: Report, costs: Costs, status: Status, zone: tzinfo | None, sort: str, limit: int | None
) -> bytes:
    """The file; each form's module is only imported where it is asked for."""
    if form == "table":
        return plain(report_text(found, sheets(found, costs, sort=sort, limit=limit), status, zone)).encode()
    if form == "csv":
        from dutycycle_alerter.reports.commas import comma_separated  # noqa: PLC0415

        return comma_separated(sheets(found, costs, sort=sort, limit=limit), replay=status.replay).encode()
    if form == "json":
        from dutycycle_alerter.reports.shapes import answer  # noqa: PLC0415

        return f"{json_text(answer(found, costs, replay=status.replay, sort=sort, limit=limit))}\n".encode()
    if form == "html":
        from dutycycle_alerter.web.ledger_page import ledger_page  # noqa: PLC0415

        return ledger_page(found, costs, zone, now=status.now, replay=status.replay, sort=sort, limit=limit).encode()
    from dutycycle_alerter.reports.pictures import picture  # noqa: PLC0415

    return picture(found, zone, sort=sort, limit=limit, note="REPLAY of a recording" if status.replay else "")


def _check_sort(kind: Kind, sort: str) -> None:
    known = sort_keys(kind)
    if sort and not known:
        raise click.BadParameter(f"the report on {kind} has an order of its own", param_hint="--sort")
    if sort and sort not in known:
        raise click.BadParameter(f"{sort[:60]!r} is none of {', '.join(known)}", param_hint="--sort")


def _range(since: str, until: str, status: Status, zone: tzinfo | None) -> tuple[float, float]:
    """The range in wall time, days being those of `zone`; how long ago is on the shown scale."""
    end = _moment(until, status, zone, "--until", end_of_day=True) if until else status.now
    begin = _moment(since, status, zone, "--since")
    if begin >= end:
        raise click.BadParameter("it has to begin before it ends", param_hint="--since")
    return begin, end


def _moment(text: str, status: Status, zone: tzinfo | None, option: str, *, end_of_day: bool = False) -> float:
    try:
        ago = parse_duration(text)
    except ValueError:
        try:
            return parse_moment(text, now=status.now, zone=zone, end_of_day=end_of_day)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=option) from error
    return status.now - ago / status.time_scale


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be written: {error.strerror or error}", param_hint="--output"
        ) from error
