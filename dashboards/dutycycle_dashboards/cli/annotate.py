"""`dutycycle-dashboards annotate`: the alerter's incidents as annotations, for every dashboard that asks for them."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from dutycycle_dashboards.cli.options import connected, grafana_options
from dutycycle_dashboards.publishing.address import base_url, token
from dutycycle_dashboards.publishing.alerter_api import Alerter
from dutycycle_dashboards.publishing.annotating import Change
from dutycycle_dashboards.publishing.annotating import annotate as annotated
from dutycycle_dashboards.publishing.marks import Mark, mark

_SELDOM = (Change.MERGED, Change.REFUSED)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([1-9]\d{0,4})([mhdw])", str(value), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is no duration; write it like 12h or 7d", param, ctx)
        return timedelta(**{_UNITS[found[2]]: int(found[1])}).total_seconds()


@click.command()
@grafana_options
@click.option(
    "--alerter",
    envvar="DUTYCYCLE_ALERTER_URL",
    metavar="URL",
    default="http://localhost:9837",
    show_default=True,
    help="The alerter's address.",
)
@click.option(
    "--alerter-token-file",
    envvar="DUTYCYCLE_ALERTER_TOKEN_FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with a token of the alerter's (role viewer), where it wants one.",
)
@click.option(
    "--alerter-ca-file",
    envvar="DUTYCYCLE_ALERTER_CA_FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Certificates (PEM) to trust for the alerter instead of the system's.",
)
@click.option(
    "--since",
    type=_Duration(),
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="Incidents that are open, or were within this time.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written.")
def annotate(
    url: str,
    token_file: Path,
    ca_file: Path | None,
    timeout: float,
    alerter: str,
    alerter_token_file: Path | None,
    alerter_ca_file: Path | None,
    since: float,
    dry_run: bool,
) -> None:
    """Write the alerter's incidents into Grafana as annotations.

    Each has the tags dutycycle, incident, cluster, rule, severity, user, workload and node. A second run writes only
    what has changed; run it every few minutes from a timer or cron. Annotations of others are never touched, and
    none is removed but a second copy of the same. One that Grafana refuses does not stop the others.

    Exit codes: 0 fine, 1 Grafana or the alerter was not reached or refused, or there are more than 20,000 incidents, 2
    wrong usage.

    \b
    Examples:
      dutycycle-dashboards annotate --url https://grafana.example.org --token-file grafana.token \\
        --alerter http://localhost:9837 --dry-run
    """
    secret = alerter_token_file is not None
    source = Alerter(
        base_url(alerter, "--alerter", secret=secret),
        None if alerter_token_file is None else token(alerter_token_file, "--alerter-token-file"),
        ca_file=alerter_ca_file,
        timeout=timeout,
    )
    grafana = connected(url, token_file, ca_file, timeout)
    counts: Counter[Change] = Counter()
    for one in annotated(grafana, _marks(source, since), dry_run=dry_run):
        counts[one.change] += 1
        if one.change is not Change.UNCHANGED:
            click.echo(f"{one.change:<9} {one.mark.text}")
        if one.change is Change.REFUSED:
            click.echo(f"dutycycle-dashboards: {one.why}", err=True)
    shown = [change for change in Change if change not in _SELDOM or counts[change]]
    summary = ", ".join(f"{counts[change]} {change}" for change in shown)
    click.echo(f"would be: {summary}" if dry_run else summary)
    if source.left_out:
        click.echo(
            f"{source.left_out} more incidents are not read, those that were opened first; a shorter --since has fewer",
            err=True,
        )
    if counts[Change.REFUSED] or source.left_out:
        sys.exit(1)


def _marks(source: Alerter, within: float) -> Iterator[Mark]:
    since = time.time() - within
    skipped: list[str] = []
    for incident in source.incidents(within):
        try:
            found = mark(incident)
        except (ValueError, OverflowError):
            skipped.append(str(incident["id"])[:20])
            continue
        if found.end is None or found.end >= since * 1000:
            yield found
    if skipped:
        more = f" and {len(skipped) - 10} more" if len(skipped) > 10 else ""
        click.echo(
            f"left out for want of a time that Grafana takes: incident {', '.join(skipped[:10])}{more}", err=True
        )
