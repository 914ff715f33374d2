"""What is told of GPUs and nodes themselves: of one that is lost while it is, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from ..happened import Happened
from ..record import Record
from .bounds import lost_told_after
from .incidents import JOBS, OPENS, active_spans
from .quiet import Span, evaluates, quiet, recovery, slack
from .violation import ASKED, Found, Occasion, Violation

_LOST = "gpu_fault"


def device_incidents_are_true(record: Record) -> Iterator[Found]:
    """Operators hear of a GPU that is lost, and of nothing that is not the case."""
    for event in record.events:
        incident = record.incident[event.incident]
        if event.kind not in OPENS or incident.kind in (JOBS, "report"):
            continue
        yield ASKED
        late = recovery(record) + slack(record)
        broken = [
            fault
            for fault in record.faults
            if fault.broken & incident.nodes and fault.began <= event.at <= fault.ended + late
        ]
        if incident.kind != _LOST or not broken:
            text = f"incident {incident.id}: {incident.kind}, {incident.rule}"
            yield Violation("no incident is made up", incident.subject, event.at, text)
    for node, fault in _losses(record):
        spans = _seen(record, node, fault.stood_from, fault.stood_until, but=fault)
        if not any(end - begin > lost_told_after(fault.says, record.time_scale) for begin, end in spans):
            continue
        yield Occasion(fault.name)
        if not _told(record, node, fault):
            text = f"a GPU of {node} was lost for {fault.stood_until - fault.began:.0f} s"
            yield Violation("no incident is lost", node, fault.ended, text)


def device_incidents_last_as_long(record: Record) -> Iterator[Found]:
    """While a GPU is lost nobody says that it is back; once it is, and that can be seen, its incident is resolved."""
    for node, fault in _losses(record):
        for _, until in _told(record, node, fault):
            yield Occasion(fault.name)
            if until < fault.stood_until:
                text = f"a GPU of {node} was lost for {fault.stood_until - until:.0f} s more"
                yield Violation("no resolution is false", node, until, text)
        yield from _is_over(record, node, fault)


def _losses(record: Record) -> Iterator[tuple[str, Happened]]:
    return ((node, fault) for fault in record.faults for node in sorted(fault.broken))


def _seen(record: Record, node: str, since: float, until: float, *, but: Happened | None = None) -> list[Span]:
    """The spans in which nothing (`but` for one fault) was in the way of what has to be told of the node."""
    mine = frozenset({node})
    return quiet(record, lambda one: one is not but and (one.blinds_any(mine) or evaluates(one)), since, until)


def _active(record: Record, node: str) -> list[Span]:
    mine = [one for one in record.incidents if one.kind == _LOST and node in one.nodes]
    return active_spans(record, mine)


def _told(record: Record, node: str, fault: Happened) -> list[Span]:
    """When incidents told of this loss: opened while it lasted, or left from the one before and not resolved since."""
    known = fault.stood_from + lost_told_after(fault.says, record.time_scale)
    return [
        (since, until)
        for since, until in _active(record, node)
        if since <= fault.stood_until and (since >= fault.began or until > known)
    ]


def _is_over(record: Record, node: str, fault: Happened) -> Iterator[Found]:
    """What tells of a loss clears with the first pass that counts the GPU again: the rule waits for nothing but where
    there was an XID, of which none of these faults leaves one.
    """
    again = [one.began for other, one in _losses(record) if other == node and one.began > fault.began]
    spans = _seen(record, node, fault.ended + recovery(record), min([record.ended, *again]))
    due = next((begin + slack(record) for begin, end in spans if begin + slack(record) <= end), None)
    if due is None:
        return
    yield Occasion(fault.name)
    if any(since <= due < until for since, until in _active(record, node)):
        text = f"all GPUs of {node} have been there for {due - fault.ended:.0f} s"
        yield Violation("what is over is resolved", node, due, text)
