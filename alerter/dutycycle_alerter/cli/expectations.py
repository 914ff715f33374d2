"""`dutycycle expectations`: what people said was intended, and taking it back."""

from __future__ import annotations

import click
from rich.text import Text

from dutycycle_alerter import answers, figures
from dutycycle_alerter.cli.options import whoever_runs
from dutycycle_alerter.cli.reading import json_option, json_text, opened, store_options
from dutycycle_alerter.cli.tables import QUIET, lines, outside, show, status_lines, table
from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.expectations import LONGEST_REASON, Expectation, Scope
from dutycycle_alerter.views import Status


@click.group(invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Include those that expired or were withdrawn.")
@json_option
@store_options
@click.pass_context
def expectations(context: click.Context, every: bool, as_json: bool) -> None:
    """List what people marked as intended, for jobs and for users; or withdraw an entry.

    \b
    Examples:
      dutycycle incidents intend 7 --reason "waits for data" --for 2d
      dutycycle expectations
      dutycycle expectations withdraw 3
    """
    if context.invoked_subcommand is not None:
        return
    with opened(context) as reader:
        status, found = reader.status(), reader.expectations(current=not every)
    if as_json:
        click.echo(json_text(answers.expectations_answer(found, len(found), 0, status)))
        return
    listed = table("ID", ("Whose", 4), ("Rules and reason", 7), ("Said", 3), ("Until", 3), right=("ID",))
    for said in found:
        listed.add_row(
            str(said.id),
            _whose(said),
            lines(", ".join(rule_name(rule) for rule in said.rules), outside(said.reason, QUIET, LONGEST_REASON)),
            lines(outside(said.actor), Text(_moment(said.at, status), QUIET)),
            _until(said, status),
        )
    show(status_lines(status), listed if found else Text("Nothing was marked as intended."))


@expectations.command()
@click.argument("expectation_id", metavar="ID", type=click.IntRange(1, 2**53))
@click.option("--as", "actor", metavar="NAME", default=whoever_runs, show_default="you", help="Who does it.")
@store_options
@click.pass_context
def withdraw(context: click.Context, expectation_id: int, actor: str) -> None:
    """Withdraw one: its rules apply again, and a condition that still holds opens a new incident."""
    with opened(context) as store:
        said = store.withdraw(expectation_id, actor=actor)
        show(status_lines(store.status()), Text(f"Expectation {said.id} is withdrawn."))


def _whose(said: Expectation) -> Text:
    cluster = [outside(said.cluster, QUIET)] if said.cluster else []
    return lines(
        outside(said.subject), Text("jobs of this user" if said.scope is Scope.USER else "job", QUIET), *cluster
    )


def _until(said: Expectation, status: Status) -> Text:
    until = Text(_moment(said.expires_at, status))
    if said.withdrawn_at is not None:
        return lines(until, outside(f"withdrawn by {said.withdrawn_by}", QUIET))
    return until if said.in_force(status.now) else lines(until, Text("expired", QUIET))


def _moment(timestamp: float, status: Status) -> str:
    return figures.moment(timestamp, now=status.now, zone=None, seconds=status.time_scale > 1)
