"""One incident as text for a terminal: the same content as its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dutycycle_alerter import figures
from dutycycle_alerter.cli.tables import QUIET, SEVERITY_STYLE, outside, places
from dutycycle_alerter.headline import duration, headline, rule_name, shown_subject, subject_name
from dutycycle_alerter.incidents.model import Event, Incident
from dutycycle_alerter.incidents.reasons import reasons
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.rules.purposes import by_purpose
from dutycycle_alerter.views import Status

_LIMIT = 2000

Moment = Callable[[float], str]


def incident_text(incident: Incident, events: Sequence[Event], status: Status, zone: tzinfo | None = None) -> Group:
    """What, whose, since when, what it cost, why, what to do, and its history."""
    return Group(*_parts(incident, events, status, zone))


def _parts(
    incident: Incident, events: Sequence[Event], status: Status, zone: tzinfo | None
) -> Iterator[RenderableType]:
    def moment(timestamp: float) -> str:
        return figures.moment(timestamp, now=status.now, zone=zone, seconds=status.time_scale > 1)

    title = Text(f"#{incident.id} {headline(incident)}  ", "bold")
    yield title + Text(incident.severity, SEVERITY_STYLE[incident.severity]) + Text(f"  {_state(incident, moment)}")
    yield Text(f"{subject_name(incident)} {_job(incident)}")
    yield Text()
    yield _facts(incident, status, moment)
    diagnosis = incident.diagnosis
    yield Text()
    if len(diagnosis.causes) == 1:
        yield Text("Likely cause: ", "bold") + Text(diagnosis.causes[0].label, "bold cyan")
    else:
        yield Text("Likely one of: ", "bold") + Text(" / ".join(cause.label for cause in diagnosis.causes), "bold cyan")
    if incident.about == "job":
        yield Text(f"In guides on GPU utilization: {reasons(diagnosis.causes)}", QUIET)
    yield from _items(diagnosis.evidence)
    if diagnosis.tell_apart:
        yield Text("To tell them apart", "bold")
        yield from _items(diagnosis.tell_apart.rstrip(".").split("; "))
    others = [
        f"{rule_name(rule.rule)}, since {moment(rule.since)}" for rule in incident.rules if rule.rule != incident.rule
    ]
    if others:
        yield Text("Also found", "bold")
        yield from _items(others)
    if diagnosis.advice:
        yield Text("\nWhat to do", "bold")
        yield from _items(diagnosis.advice, numbered=True)
    if diagnosis.commands:
        yield Text("\nCommands", "bold")
        if incident.about == "job":
            for purpose, commands in by_purpose(diagnosis.commands).items():
                yield Text(f"  {purpose.label}:", QUIET)
                yield from _commands(commands)
        else:
            yield from _commands(diagnosis.commands)
    yield Text("\nTimeline", "bold")
    yield _timeline(incident, events, moment)


def _state(incident: Incident, moment: Moment) -> str:
    if incident.snoozed_until is not None:
        return f"snoozed until {moment(incident.snoozed_until)}"
    return f"{incident.state} ({incident.resolution})" if incident.resolution is not None else incident.state.value


def _job(incident: Incident) -> str:
    said = printable(shown_subject(incident), NAME_LIMIT)
    if incident.user:
        said += f" of {printable(incident.user, NAME_LIMIT)}"
    for label in ("account", "partition", "namespace", "cluster"):
        if value := getattr(incident, label):
            said += f", {label} {printable(value, NAME_LIMIT)}"
    return said


def _facts(incident: Incident, status: Status, moment: Moment) -> Table:
    lasted = duration(incident, status.now, status.time_scale)
    facts = Table.grid(padding=(0, 2, 0, 0))
    said: list[tuple[str, RenderableType]] = [
        ("Since", f"{moment(incident.started_at)}, for {lasted}"),
        ("GPUs", f"{len(incident.gpus)} of {max(incident.job_gpus, len(incident.gpus))}"),
        ("", places(incident)),
        *_costs(incident, status),
    ]
    for name, value in said:
        facts.add_row(Text(name, QUIET), value)
    return facts


def _costs(incident: Incident, status: Status) -> list[tuple[str, RenderableType]]:
    """What a job has cost; a GPU's fault costs nothing that could be told."""
    if incident.about != "job":
        return [("For", "operators; it is not tied to a job")]
    return [
        ("Wasted", f"{figures.hours(incident.wasted * status.time_scale)} GPU-hours"),
        ("", f"all GPUs of the job: {figures.hours(incident.job_wasted * status.time_scale)} GPU-hours"),
        ("Energy drawn", figures.energy(incident.energy * status.time_scale)),
    ]


def _items(texts: Sequence[str], *, numbered: bool = False) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=4, justify="right")
    grid.add_column(overflow="fold")
    for number, text in enumerate(texts, 1):
        grid.add_row(f"{number}." if numbered else "-", outside(text, limit=_LIMIT))
    yield grid


def _commands(commands: Sequence[str]) -> Iterator[RenderableType]:
    """Never cut: half a command is a different one."""
    return (Padding(Text(printable(command), "green"), (0, 0, 0, 2)) for command in commands)


def _timeline(incident: Incident, events: Sequence[Event], moment: Moment) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {moment(incident.started_at)}", QUIET), "the condition began")
    for event in events:
        said = Text(event.kind.value, "bold")
        if event.actor:
            said += outside(f" by {event.actor}")
        if event.text and event.text != f"{event.kind} by {event.actor}":
            said += outside(f": {event.text}", limit=_LIMIT)
        grid.add_row(Text(f"  {moment(event.at)}", QUIET), said)
    return grid
