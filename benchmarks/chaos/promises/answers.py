"""What the programs say of themselves, while something is wrong and after it."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import ExporterPage, Happened, Record
from .quiet import during, evaluates, quiet, recovery, slack
from .violation import Violation

_PATIENCE = 5.0
"""Wall seconds within which a page is to be there: half of what Prometheus waits by default."""
_NOTICED = 6.0
"""Wall seconds after which a part that is away is said to be, beside two passes: the time-out of a question, twice."""
_BEGINNING = frozenset({"database", "evaluation", "a", "b"})
"""What is in the way of a beginning alerter."""
_STARTS = 30.0
"""Wall seconds that a program may need on a machine that does much else until it answers once it was started."""


def _stalled(record: Record, at: float, took: float) -> bool:
    return any(since <= at + took and until >= at for since, until in record.stalls)


def _silenced(record: Record, program: str, at: float) -> bool:
    return any(program in one.silences for one in during(record, at - _STARTS, at + _PATIENCE)) or (
        at < record.began + _STARTS
    )


def _excused(record: Record, program: str, at: float, took: float) -> bool:
    return _silenced(record, program, at) or _stalled(record, at, took)


def metrics_answer(record: Record) -> Iterator[Violation]:
    """/metrics answers within its time, whatever NVML, the kubelet, the network or the database do."""
    for page in record.exporters:
        name = f"exporter-{page.node}"
        if page.status != 200 and not _excused(record, name, page.at, page.took):
            text = f"status {page.status or 'none'} after {page.took:.1f} s"
            yield Violation("/metrics answers", name, page.at, text)
    for reply in record.alerters:
        name = f"alerter-{reply.replica}"
        if reply.status != 200 and not _excused(record, name, reply.at, reply.took):
            text = f"status {reply.status or 'none'} after {reply.took:.1f} s"
            yield Violation("/metrics answers", name, reply.at, text)


def what_failed_is_never_zero(record: Record) -> Iterator[Violation]:
    """A read that failed is absent: no page shows 0 GPUs where there are some."""
    for page in record.exporters:
        if page.visible == 0 and record.gpus[page.node]:
            yield Violation("missing is not zero", f"exporter-{page.node}", page.at, "gpu_visible is 0")


def liveness_asks_for_restarts_that_help(record: Record) -> Iterator[Violation]:
    """Liveness fails only where a restart of the container helps."""
    for page in record.exporters:
        name = f"exporter-{page.node}"
        near = during(record, page.at - recovery(record), page.at)
        helps = any(page.node in one.restart_helps for one in near)
        if page.alive not in (0, 200) and not helps:
            yield Violation("liveness", name, page.at, f"/-/healthy says {page.alive}")


def sources_that_are_away_are_said_to_be(record: Record) -> Iterator[Violation]:
    """While Prometheus or Slurm cannot be asked the leading alerter says so; while NVML cannot, its exporter."""
    for fault in record.faults:
        for said in sorted(fault.says):
            kind, _, name = said.partition(":")
            if kind == "source":
                yield from _source(record, fault, name)
            elif kind == "nvml":
                yield from _stale(record, fault, name)


def _source(record: Record, fault: Happened, source: str) -> Iterator[Violation]:
    since = fault.began + _NOTICED + 2 * record.pass_interval + record.scaled(120.0)
    clear = quiet(record, lambda one: evaluates(one) and one is not fault, since, fault.ended)
    pages = [
        page
        for page in record.alerters
        if page.leads and source in page.sources and any(begin <= page.at <= end for begin, end in clear)
    ]
    if pages and pages[-1].sources[source] != 0:
        text = f"{fault.name} since {pages[-1].at - fault.began:.0f} s, and source_up of {source} is 1"
        yield Violation("what is away is told", f"alerter-{pages[-1].replica}", pages[-1].at, text)


def _stale(record: Record, fault: Happened, node: str) -> Iterator[Violation]:
    since = fault.began + _PATIENCE + _NOTICED
    pages = [page for page in record.exporters if page.node == node and since <= page.at <= fault.ended and page.status]
    for page in pages[-1:]:
        if page.success != 0 and (page.age or 0.0) < _PATIENCE:
            text = f"{fault.name} since {page.at - fault.began:.0f} s, and the collector is well: {_shown(page)}"
            yield Violation("what is away is told", f"exporter-{node}", page.at, text)
        elif page.utilizations:
            text = f"{fault.name} since {page.at - fault.began:.0f} s, and old readings are shown"
            yield Violation("what is away is told", f"exporter-{node}", page.at, text)


def _shown(page: ExporterPage) -> str:
    return f"success {page.success}, age {page.age}, visible {page.visible}"


def children_are_replaced(record: Record) -> Iterator[Violation]:
    """A child that is gone or hangs is replaced, and that is counted."""
    for fault in record.faults:
        for node in fault.replaces:
            pages = [page for page in record.exporters if page.node == node and page.status == 200]
            # Where NVML could not be read before, there may have been no child.
            before = [page for page in pages if page.at < fault.began and page.success][-1:]
            if any(not page.success for page in pages if fault.began - _PATIENCE < page.at < fault.began):
                continue
            after = [page for page in pages if fault.began < page.at < fault.ended + recovery(record)][-1:]
            if before and after and after[0].restarts <= before[0].restarts and not _begun_anew(record, node, fault):
                text = f"{fault.name}: restarts {before[0].restarts:g} and then {after[0].restarts:g}"
                yield Violation("the child is replaced", f"exporter-{node}", after[0].at, text)


def _begun_anew(record: Record, node: str, fault: Happened) -> bool:
    near = during(record, fault.began, fault.ended + recovery(record))
    return any(f"exporter-{node}" in one.silences for one in near)


def everything_recovers(record: Record) -> Iterator[Violation]:
    """Within a bounded time after the last fault of several is over, all works as before."""
    bound = recovery(record) + slack(record)
    ends = sorted({one.ended for one in record.faults})
    for ended in ends:
        later = [one for one in record.faults if one.began < ended + bound and one.ended > ended]
        if later or ended + bound > record.ended or _stalled(record, ended, bound):
            continue
        what = ", ".join(one.name for one in during(record, ended - 0.1, ended))
        yield from _recovered(record, ended, bound, what)


def _recovered(record: Record, ended: float, bound: float, what: str) -> Iterator[Violation]:
    for node, gpus in record.gpus.items():
        pages = [page for page in record.exporters if page.node == node and ended < page.at <= ended + bound]
        if pages and not any(page.status == 200 and page.visible == gpus and page.success == 1 for page in pages):
            text = f"after {what}: not all GPUs are read within {bound:.0f} s; last: {_shown(pages[-1])}"
            yield Violation("everything recovers", f"exporter-{node}", ended + bound, text)
    replies = [page for page in record.alerters if ended < page.at <= ended + bound and page.leads]
    if not any(page.last_pass > ended and page.store for page in replies):
        text = f"after {what}: nobody evaluates within {bound:.0f} s"
        yield Violation("everything recovers", "alerters", ended + bound, text)
    elif not any(all(value == 1 for value in page.sources.values()) for page in replies):
        text = f"after {what}: sources are still away: {dict(replies[-1].sources)}"
        yield Violation("everything recovers", f"alerter-{replies[-1].replica}", ended + bound, text)


def nothing_ends_by_itself(record: Record) -> Iterator[Violation]:
    """No fault of another part ends one of our programs."""
    for one in record.ended_by_themselves:
        # One that cannot reach its database where it begins says so and ends, and is started again by whatever runs it.
        started = any(one.name in fault.silences for fault in during(record, one.at - _STARTS, one.at))
        unreachable = any(fault.halts & _BEGINNING for fault in during(record, one.at - _STARTS, one.at))
        if started and unreachable and "Traceback" not in one.said:
            continue
        yield Violation("nothing ends by itself", one.name, one.at, one.said.strip()[-400:])
