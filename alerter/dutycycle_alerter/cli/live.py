"""What happens, one line each, for whoever watches `dutycycle up`: incidents, exporters, and the first verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Protocol

import click

from dutycycle_alerter import figures
from dutycycle_alerter.headline import headline, rule_name, shown_subject
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Severity
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.views import Status, TargetStatus

_SEVERITY_COLOUR = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_COLOUR = {EventKind.RESOLVED: "green", EventKind.ACKNOWLEDGED: "cyan", EventKind.SNOOZED: "cyan"}
_LOUD = (EventKind.OPENED, EventKind.REOPENED, EventKind.SEVERITY_CHANGED)
_TEXT_LIMIT = 300


class Events(Protocol):
    """What the lines are made from; the store's reader."""

    def last_event_id(self) -> int:
        """The newest event's number."""
        ...

    def events_after(self, event_id: int) -> Sequence[tuple[int, Incident, Event]]:
        """(event number, incident as it is now, event), oldest first."""
        ...

    def status(self) -> Status:
        """The alerter's own state."""
        ...


class LiveLines:
    """Remembers what was told; `new` gives what happened since. What happened before the construction is not told."""

    def __init__(self, store: Events, *, colour: bool = False, zone: tzinfo | None = None) -> None:
        self._store = store
        self._colour = colour
        self._zone = zone
        self._told = store.last_event_id()
        self._first_verdict_told = False
        self._failing: dict[str, str] = {}

    def new(self) -> Iterator[str]:
        """One line per thing that happened since the last call, oldest first. Raises StoreError."""
        status = self._store.status()
        if status.last_pass is None:
            return
        for line in (*self._of_status(status), *self._of_events(status)):
            replay = click.style("REPLAY ", fg="magenta", bold=True) if self._colour else "REPLAY "
            yield replay + line if status.replay else line

    def _of_status(self, status: Status) -> Iterator[str]:
        if status.first_verdict_at is not None and not self._first_verdict_told:
            self._first_verdict_told = True
            yield f"{self._clock(status.now)} observing, first verdict at {self._clock(status.first_verdict_at)}"
        failing = {target.url: target.error for target in status.targets if target.error}
        for target in status.targets:
            if target.url in failing and target.url not in self._failing:
                error = printable(target.error, _TEXT_LIMIT)
                yield self._styled(
                    f"{self._clock(status.now)} source {_target_name(target)} does not answer: {error}", "red"
                )
            elif target.url in self._failing and target.url not in failing:
                yield f"{self._clock(status.now)} exporter {_target_name(target)} answers again"
        self._failing = failing

    def _of_events(self, status: Status) -> Iterator[str]:
        for number, incident, event in self._store.events_after(self._told):
            self._told = number
            yield self._event(incident, event, status)

    def _event(self, incident: Incident, event: Event, status: Status) -> str:
        colour = _SEVERITY_COLOUR[incident.severity] if event.kind in _LOUD else _COLOUR.get(event.kind)
        word = self._styled(event.kind.value, colour, bold=event.kind in _LOUD)
        return f"{self._clock(event.at)} {word} #{incident.id} {_said(incident, event, status.time_scale)}"

    def _clock(self, timestamp: float) -> str:
        return figures.local(timestamp, self._zone).strftime("%H:%M:%S")

    def _styled(self, text: str, colour: str | None, *, bold: bool = False) -> str:
        return click.style(text, fg=colour, bold=bold) if self._colour and colour else text


def _said(incident: Incident, event: Event, time_scale: float) -> str:
    """What happened, and to whom: a whole sentence when an incident begins, the difference afterwards."""
    what = headline(incident)
    if event.kind in (EventKind.OPENED, EventKind.REOPENED):
        return f"{incident.severity}: {what} ({incident.diagnosis.summary}): {_whose(incident)}, {_where(incident)}"
    if event.kind is EventKind.RESOLVED:
        cost = f"; {figures.hours(incident.wasted * time_scale)} GPU-hours wasted" if incident.about == "job" else ""
        return f"{what}: {printable(event.text, _TEXT_LIMIT)}{cost} ({_whose(incident)})"
    actor = f" by {printable(event.actor, NAME_LIMIT)}" if event.actor else ""
    note = "" if event.text == f"{event.kind} by {event.actor}" else f": {printable(event.text, _TEXT_LIMIT)}"
    return f"{rule_name(incident.rule)}{actor}{note} ({_whose(incident)})"


def _whose(incident: Incident) -> str:
    subject = printable(shown_subject(incident), NAME_LIMIT)
    return f"{printable(incident.user, NAME_LIMIT)}, {subject}" if incident.user else subject


def _where(incident: Incident) -> str:
    places = [
        f"{printable(node, NAME_LIMIT)}:{printable(gpus, 60)}" if gpus else printable(node, NAME_LIMIT)
        for node, gpus in figures.gpu_places(incident.gpus)
    ]
    return "; ".join(places[:4]) + (f" and {len(places) - 4} more nodes" if len(places) > 4 else "")


def _target_name(target: TargetStatus) -> str:
    return printable(target.node or target.url, NAME_LIMIT)
