"""Options that several commands share."""

from __future__ import annotations

import getpass
import logging
import os
import sys
from pathlib import Path

import click

from dutycycle_alerter.config_file import load
from dutycycle_alerter.settings import Settings

config_option = click.option(
    "--config",
    "config_file",
    envvar="DUTYCYCLE_CONFIG",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (YAML). Without it, the defaults apply.",
)

health_listen_option = click.option(
    "--web.health-listen-address",
    "health_listen",
    envvar="DUTYCYCLE_WEB_HEALTH_LISTEN_ADDRESS",
    metavar="[HOST]:PORT",
    help="Overrides web.health_listen_address: where health and metrics are served.",
)

log_level_option = click.option(
    "--log-level",
    envvar="DUTYCYCLE_LOG_LEVEL",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="How much is logged to stderr.",
)


def whoever_runs() -> str:
    """The name of who runs the command; by number where the system has no name for it, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return f"uid {os.getuid()}"


def settings_from(config_file: Path | None) -> Settings:
    """The configuration, or the defaults. Raises ConfigError."""
    return Settings() if config_file is None else load(config_file)


def set_up_logging(level: str) -> None:
    """Log to stderr, one line per record."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    # A line per run of every job, and a warning for each scrape that is left out while a slow one still runs.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # At debug level a line per request, with its path: some services have their secret in it.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
