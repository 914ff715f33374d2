"""What people do to an incident: pure transitions; `now` comes in, the changed incident and its event go out."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.expectations import Expectation, in_history
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Resolution, State, Step


def acknowledge(incident: Incident, *, actor: str, now: float, note: str = "") -> Step:
    """Somebody takes care of it. Raises TransitionError for a resolved incident."""
    _require_active(incident, "acknowledged")
    changed = replace(incident, state=State.ACKNOWLEDGED, actor=actor, snoozed_until=None, updated_at=now)
    return Step(changed, (_by(actor, now, EventKind.ACKNOWLEDGED, note),))


def snooze(incident: Incident, *, until: float, actor: str, now: float, note: str = "") -> Step:
    """Quiet until a wall time. Raises TransitionError for a resolved incident or a time that has passed."""
    _require_active(incident, "snoozed")
    if until <= now:
        raise TransitionError(f"incident {incident.id} cannot be snoozed until a time that has passed")
    changed = replace(incident, state=State.SNOOZED, actor=actor, snoozed_until=until, updated_at=now)
    return Step(changed, (_by(actor, now, EventKind.SNOOZED, note, until=until),))


def snooze_ended(*, holds: bool) -> str:
    """What is said of a snooze that is over, by itself; `holds`: the condition is known to hold."""
    return "the snooze has ended and the condition still holds" if holds else "the snooze has ended"


def resolve(incident: Incident, *, actor: str, now: float, note: str = "") -> Step:
    """Closed by a person; its open rules stay noted, so that it does not open again before they clear once."""
    _require_active(incident, "resolved")
    changed = replace(
        incident,
        state=State.RESOLVED,
        resolution=Resolution.OPERATOR,
        resolved_at=now,
        updated_at=now,
        actor=actor,
        snoozed_until=None,
    )
    return Step(changed, (_by(actor, now, EventKind.RESOLVED, note, resolution=Resolution.OPERATOR.value),))


def intend(incident: Incident, expectation: Expectation) -> Step:
    """Somebody said that it was intended: an active incident is resolved, one that is resolved stays as it is.

    Its open rules stay noted, for who says the same a second time; once the expectation is over, they open it anew.
    """
    actor, now, reason = expectation.actor, expectation.at, expectation.reason
    said = in_history(expectation, now=now)
    if not incident.state.active:
        return Step(replace(incident, updated_at=now), (said,))
    changed = replace(
        incident,
        state=State.RESOLVED,
        resolution=Resolution.INTENDED,
        resolved_at=now,
        updated_at=now,
        actor=actor,
        snoozed_until=None,
    )
    data = {"resolution": Resolution.INTENDED.value}
    return Step(changed, (said, _by(actor, now, EventKind.RESOLVED, f"intended: {reason}", **data)))


def withdraw(incident: Incident, expectation: Expectation, *, actor: str, now: float) -> Step:
    """Somebody took back that it was intended: its history tells so. What still holds opens an incident anew."""
    return Step(replace(incident, updated_at=now), (taken_back(expectation, actor=actor, now=now),))


def taken_back(expectation: Expectation, *, actor: str, now: float) -> Event:
    """What histories tell of an expectation that counts no longer."""
    data = {"scope": expectation.scope.value, "rules": list(expectation.rules), "said_by": expectation.actor}
    return _by(actor, now, EventKind.WITHDRAWN, f"no longer intended: {expectation.reason}", **data)


def _require_active(incident: Incident, what: str) -> None:
    if not incident.state.active:
        raise TransitionError(f"incident {incident.id} is resolved and cannot be {what}")


def _by(actor: str, now: float, kind: EventKind, note: str, **data: object) -> Event:
    return Event(at=now, kind=kind, text=note or f"{kind.value} by {actor or 'somebody'}", actor=actor, data=dict(data))
