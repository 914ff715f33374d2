"""What the programs say of themselves, while something is wrong and after it."""

from __future__ import annotations

from collections.abc import Iterator

from ..happened import Happened
from ..record import AlerterPage, Record
from .bounds import PATIENCE, READ
from .quiet import during, recovery, slack, stalled
from .telling import shown
from .violation import ASKED, Found, Occasion, Violation

_BEGINNING = frozenset({"database", "evaluation", "a", "b"})
"""What is in the way of a beginning alerter."""
_STARTS = 30.0
"""Wall seconds that a program may need on a machine that does much else until it answers once it was started."""


def _silenced(record: Record, program: str, at: float) -> bool:
    return any(program in one.silences for one in during(record, at - _STARTS, at + PATIENCE)) or (
        at < record.began + _STARTS
    )


def _excused(record: Record, program: str, at: float, took: float) -> bool:
    return _silenced(record, program, at) or stalled(record, at, at + took)


def _read_was_under_way(record: Record, reply: AlerterPage) -> bool:
    """Whether its database went away while it read: one statement is waited for as long as statements may take."""
    return any(
        reply.at <= fault.began <= reply.at + READ and fault.halts & {"database", reply.replica}
        for fault in record.faults
    )


def metrics_answer(record: Record) -> Iterator[Found]:
    """/metrics answers within its time, whatever NVML, the kubelet, the network or the database do."""
    for page in record.exporters:
        name = f"exporter-{page.node}"
        if _excused(record, name, page.at, page.took):
            continue
        yield ASKED
        if page.status != 200:
            text = f"status {page.status or 'none'} after {page.took:.1f} s"
            yield Violation("/metrics answers", name, page.at, text)
    for reply in record.alerters:
        name = f"alerter-{reply.replica}"
        if _excused(record, name, reply.at, reply.took) or _read_was_under_way(record, reply):
            continue
        yield ASKED
        if reply.status != 200:
            text = f"status {reply.status or 'none'} after {reply.took:.1f} s"
            yield Violation("/metrics answers", name, reply.at, text)


def what_failed_is_never_zero(record: Record) -> Iterator[Found]:
    """A read that failed is absent: no page shows 0 GPUs where there are some."""
    for page in record.exporters:
        if page.status == 200 and record.gpus[page.node]:
            yield ASKED
        if page.visible == 0 and record.gpus[page.node]:
            yield Violation("missing is not zero", f"exporter-{page.node}", page.at, "gpu_visible is 0")


def liveness_asks_for_restarts_that_help(record: Record) -> Iterator[Found]:
    """Liveness fails only where a restart of the container helps."""
    for page in record.exporters:
        name = f"exporter-{page.node}"
        if page.status != 200 or _excused(record, name, page.at, page.took):
            continue
        yield ASKED
        near = during(record, page.at - recovery(record), page.at)
        helps = any(page.node in one.restart_helps for one in near)
        if page.alive != 200 and not helps:
            yield Violation("liveness", name, page.at, f"/-/healthy says {page.alive or 'nothing'}")


def children_are_replaced(record: Record) -> Iterator[Found]:
    """A child that is gone or hangs is replaced, and that is counted."""
    for fault in record.faults:
        for node in fault.replaces:
            pages = [page for page in record.exporters if page.node == node and page.status == 200]
            # Where NVML could not be read before, there may have been no child.
            before = [page for page in pages if page.at < fault.began and page.success][-1:]
            if any(not page.success for page in pages if fault.began - PATIENCE < page.at < fault.began):
                continue
            after = [page for page in pages if fault.began < page.at < fault.ended + recovery(record)][-1:]
            if not before or not after or _begun_anew(record, node, fault):
                continue
            yield Occasion(fault.name)
            if after[0].restarts <= before[0].restarts:
                text = f"{fault.name}: restarts {before[0].restarts:g} and then {after[0].restarts:g}"
                yield Violation("the child is replaced", f"exporter-{node}", after[0].at, text)


def _begun_anew(record: Record, node: str, fault: Happened) -> bool:
    near = during(record, fault.began, fault.ended + recovery(record))
    return any(f"exporter-{node}" in one.silences for one in near)


def everything_recovers(record: Record) -> Iterator[Found]:
    """Within a bounded time after the last fault of several is over, all works as before."""
    bound = recovery(record) + slack(record)
    ends = sorted({one.ended for one in record.faults})
    for ended in ends:
        later = [one for one in record.faults if one.began < ended + bound and one.ended > ended]
        if later or ended + bound > record.ended or stalled(record, ended, ended + bound):
            continue
        what = ", ".join(one.name for one in during(record, ended - 0.1, ended))
        yield Occasion(what)
        yield from _recovered(record, ended, bound, what)


def _recovered(record: Record, ended: float, bound: float, what: str) -> Iterator[Found]:
    for node, gpus in record.gpus.items():
        pages = [page for page in record.exporters if page.node == node and ended < page.at <= ended + bound]
        if pages and not any(page.status == 200 and page.visible == gpus and page.success == 1 for page in pages):
            text = f"after {what}: not all GPUs are read within {bound:.0f} s; last: {shown(pages[-1])}"
            yield Violation("everything recovers", f"exporter-{node}", ended + bound, text)
    replies = [page for page in record.alerters if ended < page.at <= ended + bound and page.leads]
    if not any(page.last_pass > ended and page.store for page in replies):
        text = f"after {what}: nobody evaluates within {bound:.0f} s"
        yield Violation("everything recovers", "alerters", ended + bound, text)
    elif not any(all(value == 1 for value in page.sources.values()) for page in replies):
        text = f"after {what}: sources are still away: {dict(replies[-1].sources)}"
        yield Violation("everything recovers", f"alerter-{replies[-1].replica}", ended + bound, text)


def nothing_ends_by_itself(record: Record) -> Iterator[Found]:
    """No fault of another part ends one of our programs."""
    for _ in record.faults:
        yield ASKED
    for one in record.ended_by_themselves:
        # One that cannot reach its database where it begins says so and ends, and is started again by whatever runs it.
        started = any(one.name in fault.silences for fault in during(record, one.at - _STARTS, one.at))
        unreachable = any(fault.halts & _BEGINNING for fault in during(record, one.at - _STARTS, one.at))
        if started and unreachable and "Traceback" not in one.said:
            continue
        yield Violation("nothing ends by itself", one.name, one.at, one.said.strip()[-400:])
