"""The command `dutycycle-dashboards`: the dashboards as files, into Grafana, and incidents as annotations in it."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from dutycycle_dashboards.errors import DashboardsError

_COMMANDS = {
    "render": "Write the dashboards as JSON files, or check that they are as they should be.",
    "push": "Make or renew the dashboards in Grafana.",
    "annotate": "Write the alerter's incidents into Grafana as annotations.",
}


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"dutycycle_dashboards.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DUTYCYCLE_DASHBOARDS"},
)
@click.version_option(package_name="dutycycle", prog_name="dutycycle-dashboards")
def cli() -> None:
    """Who uses the GPUs, how well, and what is wrong now, in Grafana 10 to 13.

    \b
    Examples:
      dutycycle-dashboards render /var/lib/grafana/dashboards/dutycycle
      dutycycle-dashboards push --url https://grafana.example.org --token-file grafana.token --dry-run
      dutycycle-dashboards annotate --url https://grafana.example.org --token-file grafana.token \\
        --alerter http://localhost:9837
    """


def main() -> None:
    """Entry point. Exit codes: 0 fine, 1 something failed or differs, 2 wrong usage."""
    try:
        cli(prog_name="dutycycle-dashboards")
    except DashboardsError as error:
        click.echo(f"dutycycle-dashboards: {error}", err=True)
        sys.exit(2 if error.usage else 1)
