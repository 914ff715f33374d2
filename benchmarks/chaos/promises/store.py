"""What the store may hold, and who may write it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..record import Record, StoredEvent
from .quiet import FOREVER
from .violation import ASKED, Found, Occasion, Violation

_WHILE_ACTIVE = ("rule opened", "rule cleared", "primary changed", "severity changed", "cause found", "snooze expired")


def one_active_incident_each(record: Record) -> Iterator[Found]:
    """At no time a subject has two active incidents of one class."""
    for look in record.looks:
        yield ASKED
        for subject, kind, numbers in look.active:
            if len(numbers) > 1:
                text = f"{len(numbers)} active incidents of class {kind}: {', '.join(map(str, numbers))}"
                yield Violation("one open incident each", subject, look.at, text)


def what_was_seen_stays(record: Record) -> Iterator[Found]:
    """Every incident that the store once held is there at the end, whatever was killed in between."""
    kept = {(one.id, one.subject, one.kind) for one in record.incidents}
    # One of whom there are others may vanish as well: what is compared are numbers.
    seen: dict[tuple[int, str, str], float] = {}
    for look in record.looks:
        for subject, kind, numbers in look.active:
            for number in numbers:
                seen.setdefault((number, subject, kind), look.at)
    for (number, subject, kind), at in seen.items():
        yield ASKED
        if (number, subject, kind) not in kept:
            yield Violation("what was seen stays", subject, at, f"incident {number} of class {kind} is gone")


def history_is_appended_only(record: Record) -> Iterator[Found]:
    """No event is ever changed or taken away."""
    for _ in record.events:
        yield ASKED
    for write in record.writes:
        if write.table == "incident_event":
            yield Violation("history is append-only", write.replica, write.at, "an event was changed or deleted")


def states_follow_each_other(record: Record) -> Iterator[Found]:
    """Opened once; resolved while active, reopened while resolved; and the row agrees with its history."""
    histories: defaultdict[int, list[StoredEvent]] = defaultdict(list)
    for event in record.events:
        histories[event.incident].append(event)
    for incident in record.incidents:
        if incident.kind == "report":
            continue
        yield ASKED
        active: bool | None = None
        before = 0.0
        for event in histories[incident.id]:
            wrong = _wrong(active, event)
            if wrong:
                yield _broken(incident.subject, event.at, f"incident {incident.id}: {wrong}")
            if event.kind in ("opened", "reopened"):
                active = True
            elif event.kind == "resolved":
                active = False
            if event.at < before - record.lease:
                yield _broken(incident.subject, event.at, f"incident {incident.id}: {event.kind} at an earlier time")
            if event.kind not in ("told", "not told"):
                # A message may go out while a pass, whose time is that of its beginning, has yet to commit.
                before = max(before, event.at)
        if active is None or active != (incident.state != "resolved"):
            text = f"incident {incident.id} is {incident.state}, and its history says otherwise"
            yield _broken(incident.subject, incident.opened_at, text)


def _wrong(active: bool | None, event: StoredEvent) -> str:
    if active is None:
        return "" if event.kind == "opened" else f"begins with {event.kind}"
    if event.kind == "opened":
        return "opened twice"
    if event.kind == "reopened" and active:
        return "reopened while active"
    if event.kind in ("resolved", *_WHILE_ACTIVE) and not active:
        return f"{event.kind} while resolved"
    return ""


def _broken(subject: str, at: float, text: str) -> Violation:
    return Violation("states follow each other", subject, at, text)


def only_the_leader_writes(record: Record) -> Iterator[Found]:
    """Every write of an evaluator is that of whoever had the lease, in terms that never go back."""
    epoch = 0
    for write in record.writes:
        yield ASKED
        if write.holder.partition("#")[0] != write.replica:
            text = f"{write.replica} wrote {write.table} while {write.holder} had the lease (epoch {write.epoch})"
            yield Violation("only the leader writes", write.replica, write.at, text)
        if write.epoch < epoch:
            text = f"{write.table} was written in epoch {write.epoch} after one in {epoch}"
            yield Violation("only the leader writes", write.replica, write.at, text)
        epoch = max(epoch, write.epoch)
    terms = sorted((look.at, look.epoch) for look in record.looks if look.epoch)
    for (_, former), (at, later) in pairwise(terms):
        if later < former:
            yield Violation("only the leader writes", "lease", at, f"the epoch went from {former} back to {later}")


def what_was_stopped_is_not_committed(record: Record) -> Iterator[Found]:
    """A pass that was stopped before its commit, until another alerter evaluates, is never committed."""
    for fault in record.faults:
        terms = [look.epoch for look in record.looks if fault.began <= look.at <= fault.ended and look.epoch]
        if fault.interrupts and terms and max(terms) > terms[0]:
            yield Occasion(fault.name)
    begun: dict[int, float] = {}
    for at, epoch in sorted(_terms(record)):
        begun.setdefault(epoch, at)
    for write in record.writes:
        over = min((at for epoch, at in begun.items() if epoch > write.epoch), default=FOREVER)
        if write.committed is not None and write.committed > over:
            text = f"{write.table} of epoch {write.epoch} was committed {write.committed - over:.2f} s after its end"
            yield Violation("only the leader writes", write.replica, write.committed, text)


def _terms(record: Record) -> Iterator[tuple[float, int]]:
    """When which epoch was seen."""
    yield from ((look.at, look.epoch) for look in record.looks if look.epoch)
    yield from ((write.committed, write.epoch) for write in record.writes if write.committed is not None)


def one_says_that_it_leads(record: Record) -> Iterator[Found]:
    """At no time both alerters say for longer than a lease that they evaluate."""
    leading: dict[str, float] = {}
    since: float | None = None
    for page in record.alerters:
        if page.status == 200:
            yield ASKED
        if page.leads:
            leading[page.replica] = page.at
        else:
            leading.pop(page.replica, None)
        both = len(leading) > 1 and max(leading.values()) - min(leading.values()) < record.lease
        since = (since or page.at) if both else None
        if since is not None and page.at - since > 2 * record.lease:
            yield Violation("one leads", "alerters", page.at, f"both say so since {page.at - since:.1f} s")
            since = None
