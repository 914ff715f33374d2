"""What Prometheus had scraped and does not have any more."""

from __future__ import annotations

from ..happened import EVERY_NODE, Happened
from ..record import Record
from .quiet import Span, recovery

_SCRAPES = 4
"""Intervals in which there is a scrape of some node."""


def lost(record: Record, fault: Happened) -> Span | None:
    """Since when, and until a fault that stopped it, Prometheus lacks every node's scrapes; None: it lost nothing then.

    Where its disk had been full, to be killed may cost it minutes; when one that was emptied had scraped may be known.
    Whether a fault had stopped it is told by the next scrape, which comes as soon as the fault is over: during another
    one there are some, and what a later fault made it lose is missing for longer.
    """
    if EVERY_NODE not in fault.blinds:
        return None
    scrapes = [at for times in record.scrapes.values() for at in times]
    last = max((at for at in scrapes if at <= fault.began), default=record.began)
    again = min((at for at in scrapes if at > fault.began), default=record.ended)
    stopped = fault.stood_until <= again <= fault.ended + recovery(record)
    return (last, fault.began) if stopped and fault.began - last > _SCRAPES * record.interval else None
