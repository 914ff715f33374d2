"""The parcels that `dutycycle notify preview` shows: of one incident, of all that are open, of a week."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.errors import ConfigError, IncidentNotFoundError
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, State
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Recipient, Telling, To
from dutycycle_alerter.notify.owners import due
from dutycycle_alerter.notify.reasons import clause
from dutycycle_alerter.notify.routing import rules_of
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter

KEY = "preview"
_EVENTS = {
    News.OPENED: EventKind.OPENED,
    News.REOPENED: EventKind.REOPENED,
    News.ESCALATED: EventKind.SEVERITY_CHANGED,
    News.RESOLVED: EventKind.RESOLVED,
}
_CHANGES = (EventKind.ACKNOWLEDGED, EventKind.SNOOZED, EventKind.PRIMARY_CHANGED, EventKind.CAUSE_FOUND)
_ACTIVE = frozenset(state for state in State if state.active)
_LISTED = 1000
_WEEK = 7 * 86400.0


def of_incident(
    reader: StoreReader, incident_id: int, settings: Settings, *, to: To | None, news: News | None, now: float
) -> Parcel:
    """About one incident; to None: to the user of the job, where it has one. `settings` are scaled, `now` is in Unix
    seconds.

    Raises IncidentNotFoundError, ConfigError where there is no user whom it could be for, and StoreError.
    """
    incident = reader.incident(incident_id)
    if incident is None:
        raise IncidentNotFoundError(incident_id)
    owned = incident.about == "job" and incident.user != ""
    if to is To.OWNER and not owned:
        raise ConfigError(f"incident {incident_id} has no owner to notify: unknown user, or not about a job")
    recipient = Recipient(To.OWNER, incident.user) if owned and to is not To.OPERATORS else OPERATORS
    told = _telling(incident, reader.events(incident_id), news)
    because = _because(reader, incident, settings, now) if recipient.user else ""
    return Parcel(KEY, ParcelKind.INCIDENTS, recipient, (Item(incident, (told,), because=because),), now)


def digest(reader: StoreReader, *, now: float) -> Parcel:
    """All incidents that are not resolved, to operators. Raises StoreError."""
    incidents, total = reader.incidents(IncidentFilter(states=_ACTIVE), limit=_LISTED)
    items = tuple(Item(incident, (_telling(incident, (), News.OPENED),)) for incident in incidents)
    return Parcel(KEY, ParcelKind.DIGEST, OPERATORS, items, now, left_out=total - len(items))


def week(settings: Settings, *, now: float) -> Parcel:
    """The weekly report until now, from as far back as the first that is configured. `settings` are scaled (wall
    seconds).
    """
    configured = settings.notify.weekly
    since = configured[0].since if configured else _WEEK / settings.time_scale
    return Parcel(KEY, ParcelKind.REPORT, OPERATORS, (), now, report=(now - since, now))


def _because(reader: StoreReader, incident: Incident, settings: Settings, now: float) -> str:
    """Return why the user would be notified; empty where there is no reason yet."""
    owners = settings.notify.owners
    wasted = reader.wasted(incident.user, since=now - owners.within)
    found = due(rules_of(incident), wasted, owners, time_scale=settings.time_scale)
    return "" if found is None else clause(found, incident, settings)


def _telling(incident: Incident, events: Sequence[Event], news: News | None) -> Telling:
    """What is new, in the words of the newest event of its kind."""
    news = news or (News.OPENED if incident.state.active else News.RESOLVED)
    kinds = (_EVENTS[news],) if news in _EVENTS else _CHANGES
    found = next((event for event in reversed(events) if event.kind in kinds), None)
    if found is None or news is News.OPENED:
        return Telling(news, incident.updated_at)
    return Telling(news, found.at, found.text, found.actor)
