"""What a job consumes while its incident is open: what was consumed before it opened is none of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dutycycle_alerter.incidents.model import Incident, OpenRule, showing
from dutycycle_alerter.model import Consumption


def with_recent(incident: Incident, recent: Iterable[Consumption]) -> Incident:
    """The incident with what its job did since the previous pass, of each open rule what its own GPUs wasted. A source
    may tell it late, of hours that a pass had missed: of that counts what lies after its opening, or after it opened
    again; of a part that lies on both sides, as if all of it had been consumed evenly. What has no times is of the time
    since the previous pass.
    """
    recent = tuple(recent)
    parts = _after(recent, _open_since(incident))
    if not recent or not (parts or incident.rules):
        return incident
    changed = replace(
        incident,
        rules=tuple(_of_rule(rule, recent) for rule in incident.rules),
        job_wasted=incident.job_wasted + sum(part.wasted * share for part, share in parts),
    )
    if incident.rules:
        return showing(changed, changed.rules)
    wasted = _added(incident.waste_by_gpu, parts)
    return replace(changed, waste_by_gpu=wasted, wasted=sum(wasted.values()), energy=incident.energy + _energy(parts))


_Part = tuple[Consumption, float]
"""What was consumed, and which share of it counts."""


def _of_rule(rule: OpenRule, recent: Iterable[Consumption]) -> OpenRule:
    parts = _after(recent, rule.since)
    return replace(rule, wasted=_added(rule.wasted, parts), energy=rule.energy + _energy(parts)) if parts else rule


def _after(recent: Iterable[Consumption], since: float) -> list[_Part]:
    shares = ((part, _share_after(part, since)) for part in recent)
    return [(part, share) for part, share in shares if share]


def _added(wasted: Mapping[str, float], parts: Iterable[_Part]) -> dict[str, float]:
    """Return what each of these GPUs wasted, these parts included."""
    sums = dict(wasted)
    for part, share in parts:
        for gpu in sums.keys() & part.by_gpu.keys():
            sums[gpu] += part.by_gpu[gpu] * share
    return sums


def _energy(parts: Iterable[_Part]) -> float:
    return sum((part.energy or 0.0) * share for part, share in parts)


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
