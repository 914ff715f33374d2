"""`dutycycle config`: is this configuration right, and what does it come to?"""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from dutycycle_alerter.config_file import load
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.url import mask_url


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
def config(file: Path | None) -> None:
    """Check FILE and print the effective configuration, defaults included.

    \b
    Examples:
      dutycycle config                             every default
      dutycycle config /etc/dutycycle/config.yaml  check a file (exit code 2 names what is wrong)
    """
    settings = Settings() if file is None else load(file)
    shown = settings.model_dump(mode="json")
    shown["database"] = mask_url(settings.database)
    if settings.prometheus is not None:
        # Nothing is scraped then, and a file that gave both would be refused.
        del shown["source"]["targets"]
    click.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
