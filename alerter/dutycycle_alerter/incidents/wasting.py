"""What a job consumes while its incident is open: what was consumed before it opened is none of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Consumption


def with_recent(incident: Incident, recent: Iterable[Consumption]) -> Incident:
    """The incident with what its job did since the previous pass. A source may tell it late, of hours that a pass had
    missed: of that counts what lies after its opening, or after it opened again; of a part that lies on both sides, as
    if all of it had been consumed evenly. What has no times is of the time since the previous pass.
    """
    since = _open_since(incident)
    parts = [(part, _share_after(part, since)) for part in recent]
    if not any(share for _, share in parts):
        return incident
    return replace(
        incident,
        wasted=incident.wasted + sum(part.wasted * share for part, share in parts),
        energy=incident.energy + sum((part.energy or 0.0) * share for part, share in parts),
    )


def _open_since(incident: Incident) -> float:
    """From when on waste is added: its window's is in it from the start."""
    if not incident.reopened:
        return incident.opened_at
    # Of those that joined since then some may have left: better a little less than what was before.
    return min((rule.since for rule in incident.rules), default=incident.known_at)


def _share_after(part: Consumption, since: float) -> float:
    if part.since is None or part.until is None:
        return 1.0
    if part.until <= part.since:
        return float(part.until > since)
    return min(1.0, max(0.0, (part.until - since) / (part.until - part.since)))
