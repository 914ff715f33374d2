"""`dutycycle incidents`: list them, look at one, and take care of it."""

from __future__ import annotations

from datetime import datetime

import click
from rich.text import Text

from dutycycle_alerter import answers, figures
from dutycycle_alerter.choices import StateChoice
from dutycycle_alerter.cli.incident_text import incident_text
from dutycycle_alerter.cli.options import whoever_runs
from dutycycle_alerter.cli.reading import in_seconds, json_option, json_text, opened, store_options
from dutycycle_alerter.cli.tables import (
    QUIET,
    SEVERITY_STYLE,
    lines,
    outside,
    places,
    show,
    since,
    status_lines,
    table,
)
from dutycycle_alerter.errors import IncidentNotFoundError
from dutycycle_alerter.fleet import empty
from dutycycle_alerter.headline import headline, shown_subject
from dutycycle_alerter.incidents.expectations import Covered, Scope
from dutycycle_alerter.incidents.model import Incident, Severity
from dutycycle_alerter.settings import Rules
from dutycycle_alerter.views import IncidentFilter, Reader, Status

_number = click.argument("incident_id", metavar="ID", type=click.IntRange(1, 2**53))
_actor = click.option("--as", "actor", metavar="NAME", default=whoever_runs, show_default="you", help="Who does it.")
_until = click.option(
    "--until", type=click.DateTime(["%Y-%m-%dT%H:%M", "%Y-%m-%d"]), help="Until this local time instead."
)
_note = click.option("--note", default="", help="Kept with the change.")


@click.group(invoke_without_command=True)
@click.option(
    "--state",
    type=click.Choice([choice.value for choice in StateChoice]),
    default="active",
    show_default=True,
    help="Which states.",
)
@click.option("--rule", type=click.Choice(tuple(Rules.model_fields)), help="Only this problem.")
@click.option("--severity", type=click.Choice([severity.value for severity in Severity]), help="Only this severity.")
@click.option("--user", default="", help="Only this user's jobs.")
@click.option("--account", default="", help="Only this account's jobs.")
@click.option("--node", default="", help="Only incidents on this node.")
@click.option("--text", default="", help="Search in job, user, account and cause.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most incidents to list.")
@json_option
@store_options
@click.pass_context
def incidents(
    context: click.Context,
    state: str,
    rule: str | None,
    severity: str | None,
    user: str,
    account: str,
    node: str,
    text: str,
    limit: int,
    as_json: bool,
) -> None:
    """List incidents, active ones first; or show, acknowledge, snooze or resolve one, or mark it as intended.

    \b
    Examples:
      dutycycle incidents --user alice
      dutycycle incidents show 7
      dutycycle incidents ack 7 --note "asked her"
      dutycycle incidents --state all --json | jq '.incidents[].wasted_gpu_hours'
    """
    if context.invoked_subcommand is not None:
        return
    wanted = IncidentFilter(
        states=StateChoice(state).states,
        rule=rule or "",
        severity=Severity(severity) if severity else None,
        user=user,
        account=account,
        node=node,
        text=text,
    )
    with opened(context) as reader:
        status = reader.status()
        found, total = reader.incidents(wanted, limit=limit)
    if as_json:
        click.echo(json_text(answers.incidents_answer(found, total, 0, status)))
        return
    listed = table("ID", ("What", 7), ("Whose", 4), ("GPUs", 3), "Since", "Wasted", right=("ID", "Wasted"))
    for incident in found:
        listed.add_row(
            str(incident.id),
            _what(incident),
            lines(
                outside(incident.user or ("unknown user" if incident.about == "job" else "operators")),
                outside(shown_subject(incident), QUIET),
            ),
            places(incident),
            since(incident, status),
            f"{figures.hours(incident.wasted * status.time_scale)} h" if incident.about == "job" else "",
        )
    if found:
        summary = f"{len(found)} of {figures.count(total, 'incident')}. Wasted is GPU-hours."
        show(status_lines(status), listed, Text(summary, QUIET))
    else:
        nothing = "No incidents." if status.jobs_judged else empty(status, "No incidents.")
        show(status_lines(status), Text("No incident matches." if _narrowed(wanted) else nothing))


def _what(incident: Incident) -> Text:
    """What is wrong, how badly and where it stands, and why."""
    how = Text(incident.severity, SEVERITY_STYLE[incident.severity]) + Text(f", {incident.state}", QUIET)
    return lines(
        Text(headline(incident), "bold"),
        how,
        outside(" / ".join(cause.label for cause in incident.diagnosis.causes), QUIET),
    )


def _narrowed(wanted: IncidentFilter) -> bool:
    return bool(wanted.rule or wanted.severity or wanted.user or wanted.account or wanted.node or wanted.text)


@incidents.command("show")
@_number
@json_option
@store_options
@click.pass_context
def show_incident(context: click.Context, incident_id: int, as_json: bool) -> None:
    """One incident: what, since when, why, and what to do."""
    with opened(context) as reader:
        status, incident, events = reader.status(), _get(reader, incident_id), reader.events(incident_id)
    if as_json:
        click.echo(json_text(answers.incident_answer(incident, events, status)))
    else:
        show(status_lines(status), incident_text(incident, events, status))


@incidents.command("ack")
@_number
@_actor
@_note
@store_options
@click.pass_context
def acknowledge(context: click.Context, incident_id: int, actor: str, note: str) -> None:
    """Acknowledge it: somebody takes care of it."""
    with opened(context) as store:
        _changed(store.acknowledge(incident_id, actor=actor, note=note), store.status())


@incidents.command()
@_number
@click.option("--for", "length", callback=in_seconds, default="8h", show_default=True, help="How long.")
@_until
@_actor
@_note
@store_options
@click.pass_context
def snooze(
    context: click.Context, incident_id: int, length: float, until: datetime | None, actor: str, note: str
) -> None:
    """Keep it quiet for a while; it opens again if the condition still holds."""
    with opened(context) as store:
        end = _end(length, until, store.status())
        _changed(store.snooze(incident_id, until=end, actor=actor, note=note), store.status())


@incidents.command()
@_number
@_actor
@_note
@store_options
@click.pass_context
def resolve(context: click.Context, incident_id: int, actor: str, note: str) -> None:
    """Close it; it does not open again before its condition has cleared once."""
    with opened(context) as store:
        _changed(store.resolve(incident_id, actor=actor, note=note), store.status())


@incidents.command()
@_number
@click.option("--reason", required=True, help="Why: one line, kept with it and shown to operators.")
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    default=Scope.JOB.value,
    show_default=True,
    help="This job, or all jobs of its user in its cluster.",
)
@click.option(
    "--rules",
    type=click.Choice([covered.value for covered in Covered]),
    default=Covered.OPEN.value,
    show_default=True,
    help="The rules that are open in the incident, or all: a job that is meant to idle may be underused next.",
)
@click.option("--for", "length", callback=in_seconds, default="7d", show_default=True, help="For how long.")
@_until
@_actor
@store_options
@click.pass_context
def intend(
    context: click.Context,
    incident_id: int,
    reason: str,
    scope: str,
    rules: str,
    length: float,
    until: datetime | None,
    actor: str,
) -> None:
    """Mark it as intended: it is resolved, and its rules do not judge the job for that time."""
    with opened(context) as store:
        end = _end(length, until, store.status())
        changed = store.intend(
            incident_id, actor=actor, reason=reason, scope=Scope(scope), until=end, covered=Covered(rules)
        )
        status = store.status()
        kept = "" if changed.resolution is None else f" ({changed.resolution})"
        said = f"Intended until {_moment(end, status)}: incident {changed.id} is {changed.state}{kept}."
        show(status_lines(status), Text(said))


def _end(length: float, until: datetime | None, status: Status) -> float:
    """The instant in so many of the store's seconds, by its own clock: other machines' may be off."""
    return status.now + length / status.time_scale if until is None else until.timestamp()


def _get(reader: Reader, incident_id: int) -> Incident:
    incident = reader.incident(incident_id)
    if incident is None:
        raise IncidentNotFoundError(incident_id)
    return incident


def _changed(incident: Incident, status: Status) -> None:
    until = "" if incident.snoozed_until is None else f" until {_moment(incident.snoozed_until, status)}"
    show(status_lines(status), Text(f"Incident {incident.id} is now {incident.state}{until}: {headline(incident)}."))


def _moment(timestamp: float, status: Status) -> str:
    return figures.moment(timestamp, now=status.now, zone=None, seconds=status.time_scale > 1)
