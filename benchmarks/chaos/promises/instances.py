"""MIG instances are shown as long as there are any, and no longer."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import ExporterPage, Record
from .bounds import SHOWN
from .violation import Found, Occasion, Violation


def instances_come_and_go(record: Record) -> Iterator[Found]:
    """An exporter shows the MIG instances that there are: all of them soon after a GPU was cut, none that is gone."""
    cuts = [fault for fault in record.faults if fault.instances]
    changes = [span for one in cuts for span in ((one.began, one.stood_from), (one.stood_until, one.ended))]
    for page in record.exporters:
        # What could not be read is another promise's. While it is being changed either may be shown.
        changing = any(since <= page.at + page.took and page.at <= until + SHOWN for since, until in changes)
        if page.status != 200 or page.success != 1 or changing:
            continue
        new = [fault for fault in cuts if fault.began <= page.at <= fault.ended]
        always = record.instances.get(page.node, frozenset())
        there = always.union(*(fault.instances for fault in new if page.node in fault.what))
        if there or page.instances:
            yield Occasion(new[0].name if new else "")
        if page.instances != there:
            yield Violation("instances come and go", f"exporter-{page.node}", page.at, _differs(page, there))


def _differs(page: ExporterPage, there: frozenset[str]) -> str:
    lacks, gone = sorted(there - page.instances), sorted(page.instances - there)
    said = [
        f"{what}: {', '.join(uuids)}" for what, uuids in (("not shown", lacks), ("shown and not there", gone)) if uuids
    ]
    return "; ".join(said)
