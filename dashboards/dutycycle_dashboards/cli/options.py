"""Options that several commands share: which Grafana, and how to reach it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dutycycle_dashboards.publishing.address import base_url, token
from dutycycle_dashboards.publishing.grafana import Grafana

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path, dir_okay=False)

_GRAFANA = (
    click.option("--url", envvar="DUTYCYCLE_GRAFANA_URL", metavar="URL", required=True, help="Grafana's address."),
    click.option(
        "--token-file",
        envvar="DUTYCYCLE_GRAFANA_TOKEN_FILE",
        type=_FILE,
        required=True,
        help="A file with the token of a service account of Grafana's that has the role Editor.",
    ),
    click.option(
        "--ca-file",
        envvar="DUTYCYCLE_GRAFANA_CA_FILE",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="Certificates (PEM) to trust for Grafana instead of the system's.",
    ),
    click.option(
        "--timeout",
        envvar="DUTYCYCLE_GRAFANA_TIMEOUT",
        type=click.FloatRange(0.1, 600),
        default=30,
        show_default=True,
        help="Seconds that an answer may take.",
    ),
)

alerter_url_option = click.option(
    "--alerter-url", metavar="URL", help="Where people reach the alerter's page, for links to it."
)

datasource_option = click.option(
    "--datasource", metavar="UID", help="The data source that they open with, instead of the default one."
)


def grafana_options(command: Command) -> Command:
    """Adds what `connected` takes."""
    for option in reversed(_GRAFANA):
        command = option(command)
    return command


def connected(url: str, token_file: Path, ca_file: Path | None, timeout: float) -> Grafana:
    """The Grafana of the options. Raises UsageError."""
    return Grafana(
        base_url(url, "--url", secret=True), token(token_file, "--token-file"), ca_file=ca_file, timeout=timeout
    )
