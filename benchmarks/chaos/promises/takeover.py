"""Where the alerter that evaluates is gone, another one does."""

from __future__ import annotations

from collections.abc import Iterator

from ..happened import Happened
from ..record import Record
from .bounds import taken_over_after
from .quiet import evaluates, quiet
from .violation import Found, Occasion, Violation

_ALERTER = "alerter-"


def another_takes_over(record: Record) -> Iterator[Found]:
    """When the alerter that evaluates is killed or paused, the other one does within a lease and two passes."""
    for fault in record.faults:
        gone, due = _gone(fault), _due(record, fault)
        if not gone or due is None:
            continue
        seen = _seen(record, fault, gone, due)
        if seen:
            yield Occasion(fault.name)
        if seen and not any(seen):
            text = f"{fault.name} since {fault.stood_until - fault.stood_from:.0f} s, and nobody else evaluates"
            yield Violation("another takes over", f"{_ALERTER}{gone}", due, text)


def _gone(fault: Happened) -> str:
    """The one alerter that evaluates no more; empty where that is not what a fault does."""
    silent = _silent(fault)
    return silent[0] if evaluates(fault) and len(silent) == 1 else ""


def _silent(fault: Happened) -> list[str]:
    return [name.removeprefix(_ALERTER) for name in fault.silences if name.startswith(_ALERTER)]


def _due(record: Record, fault: Happened) -> float | None:
    """When the other one must have taken over; None where something else was in the way of either for too long."""

    def disturbs(one: Happened) -> bool:
        return one is not fault and (evaluates(one) or bool(_silent(one)))

    needs = taken_over_after(record.time_scale)
    spans = quiet(record, disturbs, fault.stood_from, fault.stood_until)
    return next((begin + needs for begin, end in spans if begin + needs <= end), None)


def _seen(record: Record, fault: Happened, gone: str, due: float) -> list[bool]:
    """Of each look at the other one from then on while the fault stood, whether that leads, and a pass has ended since
    the first look: who has the lease and comes to the end of none evaluates nothing.
    """
    pages = [
        page
        for page in sorted(record.alerters, key=lambda page: page.at)
        if page.replica != gone and page.status == 200 and fault.stood_from <= page.at <= fault.stood_until
    ]
    # Unlike and not later: its clock may have been set meanwhile.
    return [page.leads and page.last_pass != pages[0].last_pass for page in pages if page.at >= due]
