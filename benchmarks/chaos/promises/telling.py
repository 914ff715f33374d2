"""What is away is told by a self-metric of whoever misses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..happened import Happened
from ..record import AlerterPage, ExporterPage, Record
from .bounds import PATIENCE, told_after
from .quiet import evaluates, quiet
from .violation import Found, Occasion, Violation

_PROMISE = "what is away is told"
_UNAVAILABLE = 503


def what_is_away_is_told(record: Record) -> Iterator[Found]:
    """While a source, the store, a receiver, NVML or the kubelet is away it is said."""
    for fault in record.faults:
        for said in sorted(fault.says):
            kind, _, name = said.partition(":")
            yield from _ASKED[kind](record, fault, name, fault.stood_from + told_after(said, record.time_scale))


def never_judged(record: Record, occasions: tuple[Occasion, ...]) -> list[str]:
    """Kinds of faults that happened and have to be told, and for which nobody ever looked whether they were."""
    judged = {one.fault for one in occasions}
    return sorted({fault.name for fault in record.faults if fault.says} - judged)


def _replies(record: Record, fault: Happened, since: float, *, leads: bool) -> list[AlerterPage]:
    """Pages of alerters from then on while it stood, where nothing else was in the way of passes."""
    clear = quiet(record, lambda one: evaluates(one) and one is not fault, since, fault.stood_until)
    return [
        page
        for page in record.alerters
        if page.status == 200
        and (page.leads or not leads)
        and _while_it_stood(page, fault, since)
        and any(begin <= page.at <= end for begin, end in clear)
    ]


def _while_it_stood(page: AlerterPage | ExporterPage, fault: Happened, since: float) -> bool:
    """Whether all of an answer is of the time in which it has to be told: what is being put right may be seen to be
    well before its end is done.
    """
    return since <= page.at and page.at + page.took <= fault.stood_until


def _untold(fault: Happened, program: str, at: float, what: str) -> Violation:
    return Violation(_PROMISE, program, at, f"{fault.name} since {at - fault.began:.0f} s, and {what}")


def _source(record: Record, fault: Happened, source: str, since: float) -> Iterator[Found]:
    pages = [page for page in _replies(record, fault, since, leads=True) if source in page.sources]
    for _ in pages:
        yield Occasion(fault.name)
    if pages and pages[-1].sources[source] != 0:
        yield _untold(fault, f"alerter-{pages[-1].replica}", pages[-1].at, f"source_up of {source} is 1")


def _watch(record: Record, fault: Happened, source: str, since: float) -> Iterator[Found]:
    """Somebody counts that it cannot be watched, or says that it does not answer."""
    pages = [page for page in _replies(record, fault, since, leads=True) if source in page.watch_failures]
    for _ in pages:
        yield Occasion(fault.name)
    for page in pages[-1:]:
        before = [
            one.watch_failures.get(source, 0.0)
            for one in record.alerters
            if one.replica == page.replica and one.at < fault.began and one.status == 200
        ]
        away = any(value == 0 for name, value in page.sources.items() if name.startswith(source))
        if before and page.watch_failures[source] <= before[-1] and not away:
            yield _untold(fault, f"alerter-{page.replica}", page.at, f"no failure of {source} is counted")


def _store(record: Record, fault: Happened, replica: str, since: float) -> Iterator[Found]:
    for page in record.alerters:
        if page.status == 200 and _while_it_stood(page, fault, since) and replica in ("", page.replica):
            yield Occasion(fault.name)
            if page.store:
                yield _untold(fault, f"alerter-{page.replica}", page.at, "store_up is 1")


def _receiver(record: Record, fault: Happened, receiver: str, since: float) -> Iterator[Found]:
    """Only where a message was due to it meanwhile, or what is active had to be told again: who says nothing learns
    nothing.
    """
    needs = since - fault.stood_from
    latest = fault.stood_until - needs
    due = [
        one.at
        for one in record.deliveries
        if one.receiver == receiver
        and fault.began <= one.at <= latest
        and one.failed_at is None
        and (one.sent_at is None or one.sent_at > fault.stood_until)
    ]
    if not record.sinks.get(receiver, receiver):
        due += [look.at for look in record.looks if look.active and fault.stood_from <= look.at <= latest]
    pages = _replies(record, fault, min(due) + needs, leads=False) if due else []
    for _ in pages:
        yield Occasion(fault.name)
    if pages and not any(page.failing.get(receiver) for page in pages):
        yield _untold(fault, f"alerter-{pages[-1].replica}", pages[-1].at, f"{receiver} is not said to fail")


def _pages(record: Record, fault: Happened, node: str, since: float) -> list[ExporterPage]:
    return [page for page in record.exporters if page.node == node and _while_it_stood(page, fault, since)]


def _nvml(record: Record, fault: Happened, node: str, since: float) -> Iterator[Found]:
    pages = [page for page in _pages(record, fault, node, since) if page.status]
    for _ in pages:
        yield Occasion(fault.name)
    for page in pages[-1:]:
        if page.success != 0 and (page.age or 0.0) < PATIENCE:
            yield _untold(fault, f"exporter-{node}", page.at, f"the collector is well: {shown(page)}")
        elif page.utilizations:
            yield _untold(fault, f"exporter-{node}", page.at, "old readings are shown")


def _left_out(record: Record, fault: Happened, node: str, since: float) -> Iterator[Found]:
    """Now and then it is tried again, and is there until it hangs."""
    pages = [page for page in _pages(record, fault, node, since) if page.status]
    for _ in pages:
        yield Occasion(fault.name)
    if pages and not any(page.visible is not None and page.visible < record.gpus[node] for page in pages):
        yield _untold(fault, f"exporter-{node}", pages[-1].at, f"no GPU is left out: {shown(pages[-1])}")


def _kubelet(record: Record, fault: Happened, node: str, since: float) -> Iterator[Found]:
    pages = [page for page in _pages(record, fault, node, since) if page.kubelet is not None]
    for _ in pages:
        yield Occasion(fault.name)
    if pages and pages[-1].kubelet != 0:
        yield _untold(fault, f"exporter-{node}", pages[-1].at, "the collector of the kubelet is well")


def _restart(record: Record, fault: Happened, node: str, since: float) -> Iterator[Found]:
    pages = [page for page in _pages(record, fault, node, since) if page.status]
    for _ in pages:
        yield Occasion(fault.name)
    for page in pages[-1:]:
        if page.alive != _UNAVAILABLE or not page.why.strip():
            what = f"liveness says {page.alive}: {page.why.strip() or 'nothing'}"
            yield _untold(fault, f"exporter-{node}", page.at, what)


def shown(page: ExporterPage) -> str:
    return f"success {page.success}, age {page.age}, visible {page.visible}"


_ASKED: Mapping[str, Callable[[Record, Happened, str, float], Iterator[Found]]] = {
    "source": _source,
    "watch": _watch,
    "store": _store,
    "receiver": _receiver,
    "nvml": _nvml,
    "left-out": _left_out,
    "kubelet": _kubelet,
    "restart": _restart,
}
