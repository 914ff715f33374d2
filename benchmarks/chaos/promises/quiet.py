"""Times in which nothing was in the way of what has to be seen or done."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..happened import Happened
from ..record import Record

Span = tuple[float, float]

FOREVER = float("inf")


def recovery(record: Record) -> float:
    """Wall seconds within which everything works again once a fault is over: what starts again and connects anew takes
    its own time, what waits for the next scrape, pass or attempt that of the accelerated clock.
    """
    return recovery_at(record.time_scale)


def recovery_at(time_scale: float) -> float:
    """The same of a run that is yet to be."""
    return 15.0 + 600.0 / time_scale


def slack(record: Record) -> float:
    """Wall seconds by which a verdict may come after the moment from which on it is due."""
    return 5.0 + 2 * record.pass_interval + 3 * record.interval + record.scaled(300.0)


def quiet(record: Record, disturbs: Callable[[Happened], bool], since: float, until: float) -> list[Span]:
    """The spans in [since, until] that lie outside all faults that disturb, the time to recover from them, and stalls
    of this machine; oldest first.
    """
    return without(_undisturbed(record, disturbs, since, until), record.stalls)


def untouched(record: Record) -> list[Span]:
    """The spans of the run that lie outside all faults and the time to recover from them; stalls are in them."""
    return _undisturbed(record, lambda _: True, record.began, record.ended)


def _undisturbed(record: Record, disturbs: Callable[[Happened], bool], since: float, until: float) -> list[Span]:
    busy = [(one.began, one.ended + recovery(record)) for one in record.faults if disturbs(one)]
    return without([(since, until)] if until > since else [], busy)


def without(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """What is left of `spans`."""
    left = list(spans)
    for begin, end in taken:
        left = [
            piece
            for since, until in left
            for piece in ((since, min(until, begin)), (max(since, end), until))
            if piece[1] > piece[0]
        ]
    return sorted(left)


def evaluates(fault: Happened) -> bool:
    """Whether a fault is in the way of passes."""
    return "evaluation" in fault.halts


def stalled(record: Record, since: float, until: float) -> bool:
    """Whether the machine had no time for the harness in some part of it."""
    return any(began <= until and ended >= since for began, ended in record.stalls)


def during(record: Record, since: float, until: float) -> list[Happened]:
    """The faults of which some part lies within."""
    return [one for one in record.faults if one.began <= until and one.ended >= since]
