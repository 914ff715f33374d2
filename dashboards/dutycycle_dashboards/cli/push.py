"""`dutycycle-dashboards push`: folder and dashboards into Grafana."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from dutycycle_dashboards.adapting import adapted
from dutycycle_dashboards.cli.options import alerter_url_option, connected, datasource_option, grafana_options
from dutycycle_dashboards.publishing.address import base_url
from dutycycle_dashboards.publishing.pushing import Change, Pushed
from dutycycle_dashboards.publishing.pushing import push as pushed
from dutycycle_dashboards.render import dashboards

_COLORS = {Change.CREATED: "green", Change.CHANGED: "yellow", Change.UNCHANGED: None}
_LINES, _COLUMNS = 400, 400
"""Of a difference, such as one from what somebody else put in its place."""
_SIGNS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@grafana_options
@click.option("--folder", default="Dutycycle", show_default=True, help="The folder's title, where it has to be made.")
@datasource_option
@alerter_url_option
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written.")
@click.option("--full", is_flag=True, help="Show differences to their last line.")
@click.option("--overwrite", is_flag=True, help="Also where somebody changes the same dashboard at the same time.")
def push(
    url: str,
    token_file: Path,
    ca_file: Path | None,
    timeout: float,
    folder: str,
    datasource: str | None,
    alerter_url: str | None,
    dry_run: bool,
    full: bool,
    overwrite: bool,
) -> None:
    """Make the folder and the dashboards in Grafana, or renew those that differ.

    What is as it should be is not written again. Changes that people made to these dashboards in Grafana are replaced;
    Grafana keeps them among the dashboard's versions. Copy a dashboard to keep a variant of it.

    Exit codes: 0 fine, also where --dry-run found differences, 1 Grafana was not reached or refused, 2 wrong usage.

    \b
    Examples:
      dutycycle-dashboards push --url https://grafana.example.org --token-file grafana.token --dry-run
      dutycycle-dashboards push --url https://grafana.example.org --token-file grafana.token \\
        --alerter-url https://gpus.example.org
    """
    page = None if alerter_url is None else base_url(alerter_url, "--alerter-url", secret=False)
    models = {uid: adapted(model, alerter_url=page, datasource=datasource) for uid, model in dashboards().items()}
    grafana = connected(url, token_file, ca_file, timeout)
    counts: Counter[Change] = Counter()
    for one in pushed(grafana, models, title=folder, dry_run=dry_run, overwrite=overwrite):
        _say(one, dry_run=dry_run, full=full)
        counts[one.change] += 1
    summary = ", ".join(f"{counts[change]} {change}" for change in Change)
    click.echo(f"would be: {summary}" if dry_run else summary)


def _say(one: Pushed, *, dry_run: bool, full: bool) -> None:
    """A line as soon as a dashboard is done: a push over a slow line shows where it is."""
    change = click.style(f"{one.change:<9}", fg=_COLORS[one.change])
    first, _, rest = one.detail.partition("\n") if not dry_run else ("", "", one.detail)
    click.echo(f"{change} {one.uid}  {one.title}{f' ({first})' if first else ''}")
    if one.change is not Change.UNCHANGED:
        lines = rest.splitlines()
        for line in lines if full else lines[:_LINES]:
            shown = line if full or len(line) <= _COLUMNS else line[: _COLUMNS - 1] + "…"
            click.secho(f"    {shown}", fg=_SIGNS.get(line[:1]))
        if len(lines) > _LINES and not full:
            click.echo(f"    … {len(lines) - _LINES} more lines: --dry-run --full")
