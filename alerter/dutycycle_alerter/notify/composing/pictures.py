"""The pictures in mails: what the GPUs of an incident did. A mail goes without one rather than not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import tzinfo

from dutycycle_alerter import plots
from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.model import Picture
from dutycycle_alerter.plots.spans import row_of
from dutycycle_alerter.views import GpuSeries

LARGEST = 100_000
"""Bytes of one picture."""
_IN_WORDS = 8

Series = Callable[[Incident, float], Sequence[GpuSeries]]

_logger = logging.getLogger(__name__)


def picture(incident: Incident, series: Series, *, now: float, zone: tzinfo | None) -> Picture | None:
    """Utilization of each GPU from before the incident until now or its end; None where there is nothing to draw, or
    where drawing fails.
    """
    end = now if incident.resolved_at is None else incident.resolved_at
    try:
        curves = series(incident, end)
        if not any(point.utilization is not None for curve in curves for point in curve.points):
            return None
        png = plots.utilization_picture(
            curves,
            began=incident.started_at,
            until=max(end, incident.started_at),
            largest=LARGEST,
            timezone=zone,
        )
        words = _words(curves)
    except Exception:
        # The store, matplotlib, a font, an odd curve: none of them is a reason to tell nobody.
        _logger.exception("incident %s: its email goes without a picture", incident.id)
        return None
    if len(png) > LARGEST:
        _logger.warning("incident %s: its email goes without a picture, which has %s bytes", incident.id, len(png))
        return None
    return Picture(name=f"incident-{incident.id}", png=png, alt=words)


def _words(curves: Sequence[GpuSeries]) -> str:
    """What the picture shows to who does not see it."""
    rows = [row_of(curve) for curve in curves]
    if len(rows) <= _IN_WORDS:
        each = ", ".join(f"{row.name} {'not measured' if row.mean is None else percent(row.mean)}" for row in rows)
        return f"Mean utilization of each GPU: {each}."
    known = [row.mean for row in rows if row.mean is not None]
    lowest, highest = percent(min(known)), percent(max(known))
    return f"Mean utilization of {len(rows)} GPUs: {lowest} at the least used, {highest} at the busiest."
