"""docs/cli.md: what `--help` of every command says, and the variables that stand in for its options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dutycycle_alerter.cli import cli as alerter
from dutycycle_dashboards.cli import cli as dashboards
from dutycycle_exporter.cli import cli as exporter
from tools.markdown import code, heading, paragraph, table

_WIDTH = 100


def document() -> bytes:
    """The whole page."""
    return "\n".join(_lines()).encode()


def _lines() -> Iterator[str]:
    yield from heading("Commands", "the commands' own help")
    yield from paragraph("""
        `dutycycle` is everything an operator does, `dutycycle-exporter` the daemon on every node,
        `dutycycle-dashboards` brings the dashboards into Grafana. Each option can be given by an environment variable
        too; the command line comes first.
    """)
    yield from _command(alerter, "dutycycle", None)
    yield from _command(exporter, "dutycycle-exporter", None)
    yield from _command(dashboards, "dutycycle-dashboards", None)


def _command(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """A command's help, then those of its own commands."""
    context = click.Context(
        command,
        parent=parent,
        info_name=name,
        # Not the terminal's, whatever that is.
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        **command.context_settings,
    )
    yield f"## `{context.command_path}`"
    yield ""
    yield "```text"
    yield from (line.rstrip() for line in command.get_help(context).splitlines())
    yield "```"
    yield ""
    variables = list(_variables(command, context))
    if variables:
        yield from table(("option", "environment variable"), variables)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _command(found, child, context)


def _variables(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Which variable click reads for each option."""
    for option in command.get_params(context):
        if not isinstance(option, click.Option) or option.hidden or option.name is None:
            continue
        if option.is_eager and option.envvar is None:
            continue
        automatic = (
            f"{context.auto_envvar_prefix}_{option.name.upper()}"
            if option.allow_from_autoenv and context.auto_envvar_prefix
            else None
        )
        name = option.envvar or automatic
        if isinstance(name, str):
            yield code(option.opts[0]), code(name)
