"""`dutycycle-dashboards render`: the dashboards as files, for provisioning, a sidecar or an import by hand."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from dutycycle_dashboards.adapting import adapted
from dutycycle_dashboards.cli.options import alerter_url_option, datasource_option
from dutycycle_dashboards.errors import DashboardsError, UsageError
from dutycycle_dashboards.publishing.address import base_url
from dutycycle_dashboards.render import dashboards, text

_PACKAGE = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a file is not as it would be written.")
@alerter_url_option
@datasource_option
def render(directory: Path | None, check: bool, alerter_url: str | None, datasource: str | None) -> None:
    """Write each dashboard into DIR as UID.json.

    Without DIR, in a checkout of Dutycycle: into dashboards/json. What is as it should be is not written again, and no
    other file is touched.

    Exit codes: 0 fine, 1 a file could not be read or written, or with --check where something differs, 2 wrong usage.

    \b
    Examples:
      dutycycle-dashboards render /var/lib/grafana/dashboards/dutycycle --alerter-url https://gpus.example.org
      dutycycle-dashboards render --check
    """
    chosen = directory or _of_the_checkout()
    url = None if alerter_url is None else base_url(alerter_url, "--alerter-url", secret=False)
    files = {
        f"{uid}.json": text(adapted(model, alerter_url=url, datasource=datasource)).encode()
        for uid, model in dashboards().items()
    }
    try:
        stale = [name for name, content in files.items() if _content(chosen / name) != content]
        if not check:
            _write(chosen, {name: files[name] for name in stale})
            click.echo(f"{chosen}: {len(stale)} written, {len(files) - len(stale)} as they were")
            return
        left = sorted(path.name for path in chosen.glob("dutycycle-*.json") if path.name not in files)
    except OSError as error:
        raise DashboardsError(f"{error.filename or chosen}: {error.strerror or error}") from error
    command = _command(chosen, alerter_url, datasource)
    for name in stale:
        state = "differs" if (chosen / name).exists() else "is missing"
        click.echo(f"{chosen / name} {state}: run `{command}`", err=True)
    for name in left:
        click.echo(f"{chosen / name} is no dashboard any more: remove it", err=True)
    if stale or left:
        sys.exit(1)


def _command(directory: Path, alerter_url: str | None, datasource: str | None) -> str:
    """What writes what was compared: without these options every dashboard would lose them."""
    options = {"--alerter-url": alerter_url, "--datasource": datasource}
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    return shlex.join(["dutycycle-dashboards", "render", str(directory), *given])


def _of_the_checkout() -> Path:
    if not (_PACKAGE.parent / "pyproject.toml").exists():
        raise UsageError("give the directory to write into: dutycycle-dashboards render DIR")
    return _PACKAGE / "json"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        # Grafana reads the directory every few seconds: no file is ever there by half, whoever else renders.
        partial = directory / f".{name}.{os.getpid()}.part"
        try:
            partial.write_bytes(content)
            partial.replace(directory / name)
        finally:
            partial.unlink(missing_ok=True)
