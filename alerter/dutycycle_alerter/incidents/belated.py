"""What a job consumed while an incident of it was open, and a source tells only after that was resolved: one that asks
an engine is always a little behind, and hours where the engine was overloaded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.incidents.wasting import with_recent
from dutycycle_alerter.model import Consumption


def with_belated(resolved: Incident, recent: Iterable[Consumption]) -> Incident:
    """The resolved incident with what of this lies before its end. What has no times is of the time after it."""
    return with_recent(resolved, _before(recent, resolved.resolved_at or 0.0))


def _before(recent: Iterable[Consumption], end: float) -> Iterator[Consumption]:
    """What was consumed until then; of a part that lies on both sides, as if all of it had been consumed evenly."""
    for part in recent:
        if part.since is None or part.until is None or part.since >= end:
            continue
        share = (end - part.since) / (part.until - part.since) if part.until > end else 1.0
        energy = None if part.energy is None else part.energy * share
        yield replace(
            part,
            observed=part.observed * share,
            busy=part.busy * share,
            energy=energy,
            until=min(part.until, end),
            by_gpu={gpu: wasted * share for gpu, wasted in part.by_gpu.items()},
        )
