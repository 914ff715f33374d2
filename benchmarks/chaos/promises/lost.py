"""What Prometheus had scraped and does not have any more."""

from __future__ import annotations

from ..happened import EVERY_NODE, Happened
from ..record import Record
from .quiet import Span

_SCRAPES = 4
"""Intervals in which there is a scrape of some node."""


def lost(record: Record, fault: Happened) -> Span | None:
    """Until a fault of Prometheus, the span of which it lacks every node's scrapes afterwards; None: it lost nothing.

    It may have been emptied; and where its disk had been full, to be killed may cost it minutes.
    """
    if EVERY_NODE not in fault.blinds or not record.scrapes:
        return None
    last = max((at for times in record.scrapes.values() for at in times if at <= fault.began), default=record.began)
    return (last, fault.began) if fault.began - last > _SCRAPES * record.interval else None
