"""The command `dutycycle`: everything an operator does. Each command is a module, imported when it runs."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from dutycycle_alerter import __version__
from dutycycle_alerter.errors import AlerterError

_COMMANDS = {
    "up": "Run exporter and alerter on this machine, in the foreground.",
    "serve": "Run the alerter: evidence, rules, incidents, page.",
    "analyze": "Apply the same rules to recordings.",
    "backtest": "Compare two configurations over the same past, before anyone gets an email.",
    "record": "Write a recording from a running exporter.",
    "incidents": "List incidents; show, acknowledge, snooze or resolve one, or mark it as intended.",
    "expectations": "What people marked as intended.",
    "users": "Who used how much, and how well.",
    "report": "Users, accounts, models, waste and rules over weeks: table, CSV, JSON, page or picture.",
    "gpus": "Every GPU now.",
    "notify": "Preview messages, test a receiver, list what is pending.",
    "db": "Create or upgrade the store's tables; check or copy the store.",
    "config": "Check a configuration file and print the effective configuration.",
}


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for: `dutycycle users` needs no web framework and no plots."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        try:
            module = import_module(f"dutycycle_alerter.cli.{cmd_name}")
        except ModuleNotFoundError as error:
            missing, _, _ = str(error.name).partition(".")
            if missing.startswith("dutycycle"):
                raise
            text = f"{missing} is missing: dutycycle was installed without the extra `alerter`"
            raise click.ClickException(text) from error
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DUTYCYCLE"}
)
@click.version_option(__version__, prog_name="dutycycle")
def cli() -> None:
    """Who uses the GPUs, how well, why not better, and what to do about it.

    \b
    Examples:
      dutycycle up                          monitor this machine
      dutycycle analyze recording.csv.gz    judge a recording
      dutycycle incidents --user alice      what is wrong with alice's jobs
    """


def main() -> None:
    """Entry point. Exit codes: 0 fine, 1 something failed, 2 wrong usage, configuration or input."""
    try:
        cli(prog_name="dutycycle")
    except AlerterError as error:
        click.echo(f"dutycycle: {error}", err=True)
        sys.exit(2 if error.usage else 1)
