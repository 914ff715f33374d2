"""Incidents into Grafana as annotations: each once, changed where it changed, and no annotation of others touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dutycycle_dashboards.grafana import Grafana
from dutycycle_dashboards.marks import TAG, Mark, key_of

_AT_ONCE = 5000
"""Annotations that Grafana is asked for in one go; beyond that each is looked for by itself."""
_ANY_TIME = 2**52
"""Milliseconds, long after everything."""


class Change(StrEnum):
    """What is done, or would be done."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Annotated:
    """One incident's annotation."""

    mark: Mark
    change: Change


def annotate(grafana: Grafana, marks: Iterable[Mark], *, dry_run: bool) -> Iterator[Annotated]:
    """One after the other. An interrupted run is finished by the next."""
    wanted = list(marks)
    if not wanted:
        return
    earliest = max(1, min(mark.start for mark in wanted))
    listed = grafana.annotations([TAG], since=earliest, until=_ANY_TIME, limit=_AT_ONCE)
    present = {(key, one.get("time")): one for one in listed if (key := key_of(one.get("tags"))) is not None}
    for mark in wanted:
        stored: Mapping[str, Any] | None = present.get((mark.key, mark.start))
        if stored is None and len(listed) >= _AT_ONCE:
            stored = _looked_for(grafana, mark)
        if stored is None:
            if not dry_run:
                grafana.add_annotation(mark.fields())
            yield Annotated(mark, Change.CREATED)
            continue
        changes = _changes(stored, mark)
        if changes and not dry_run:
            grafana.change_annotation(stored["id"], changes)
        yield Annotated(mark, Change.CHANGED if changes else Change.UNCHANGED)


def _looked_for(grafana: Grafana, mark: Mark) -> Mapping[str, Any] | None:
    tags = [TAG, f"incident:{mark.key[0]}"]
    listed = grafana.annotations(tags, since=max(1, mark.start), until=_ANY_TIME, limit=100)
    found = (one for one in listed if key_of(one.get("tags")) == mark.key and one.get("time") == mark.start)
    return next(found, None)


def _changes(stored: Mapping[str, Any], mark: Mark) -> dict[str, Any]:
    """What of it has to be written. One without an end comes back with its beginning as its end; an end cannot be
    taken away, so one that was opened again gets that, too.
    """
    changes: dict[str, Any] = {}
    if (stored.get("timeEnd") or mark.start) != (mark.end or mark.start):
        changes["timeEnd"] = mark.end or mark.start
    if stored.get("text") != mark.text:
        changes["text"] = mark.text
    kept = stored.get("tags")
    # Tags that people added are theirs.
    missing = [tag for tag in mark.tags if tag not in kept] if isinstance(kept, list) else []
    if missing and isinstance(kept, list):
        changes["tags"] = [*mark.tags, *(tag for tag in kept if tag not in mark.tags and not _ours(tag))]
    return changes


def _ours(tag: object) -> bool:
    return str(tag).partition(":")[0] in ("rule", "severity", "user", "node", "workload", "cluster", "incident", TAG)
