"""Incidents into Grafana as annotations: each once, changed where it changed, and no annotation of others touched.

Two runs at once may both find that one is missing and both write it. So what was written is looked for once more, and
of copies the oldest stays; one that a killed run left is found by the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dutycycle_dashboards.errors import GrafanaError
from dutycycle_dashboards.publishing.grafana import Annotation, Grafana
from dutycycle_dashboards.publishing.marks import TAG, Mark, key_of

_AT_ONCE = 5000
"""Annotations that Grafana is asked for in one go; beyond that each is looked for by itself."""
_ANY_TIME = 2**52
"""Milliseconds, long after everything."""
_OF_ONE = (400, 404, 409, 413, 422, 500)
"""Answers that may be about this annotation alone: the others are written all the same."""
_IN_A_ROW = 5
"""Refusals one after the other, after which it is not the annotation."""


class Change(StrEnum):
    """What is done, or would be done."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    MERGED = "merged"
    """Further copies were removed."""
    REFUSED = "refused"
    """Grafana did not take it."""


@dataclass(frozen=True)
class Annotated:
    """One incident's annotation."""

    mark: Mark
    change: Change
    why: str = ""
    """Grafana's words, where it refused."""


def annotate(grafana: Grafana, marks: Iterable[Mark], *, dry_run: bool) -> Iterator[Annotated]:
    """One after the other. An interrupted run is finished by the next."""
    wanted = list(marks)
    if not wanted:
        return
    present, created, refused = _Present(grafana, wanted), [], 0
    for mark in wanted:
        try:
            done = list(_written(grafana, mark, present.copies(mark), dry_run=dry_run))
        except GrafanaError as error:
            refused += 1
            if error.status not in _OF_ONE or refused >= _IN_A_ROW:
                raise
            yield Annotated(mark, Change.REFUSED, str(error))
            continue
        refused = 0
        created += [one.mark for one in done if one.change is Change.CREATED]
        yield from done
    if created and not dry_run:
        present = _Present(grafana, created)
        for mark in created:
            yield from _merged(grafana, mark, present.copies(mark), dry_run=False)


class _Present:
    """What Grafana has of ours, from the earliest of some marks on."""

    def __init__(self, grafana: Grafana, marks: Sequence[Mark]) -> None:
        self._grafana = grafana
        earliest = max(1, min(mark.start for mark in marks))
        listed = grafana.annotations([TAG], since=earliest, until=_ANY_TIME, limit=_AT_ONCE)
        self._complete = len(listed) < _AT_ONCE
        self._found: dict[object, list[Annotation]] = {}
        for one in listed:
            self._found.setdefault((key_of(one.tags), one.time), []).append(one)

    def copies(self, mark: Mark) -> list[Annotation]:
        """A mark's annotations, the oldest first; there should be one at most."""
        found = self._found.get((mark.key, mark.start), []) if self._complete else self._looked_for(mark)
        return sorted(found, key=lambda one: one.number)

    def _looked_for(self, mark: Mark) -> list[Annotation]:
        tags = [TAG, f"incident:{mark.key[0]}"]
        listed = self._grafana.annotations(tags, since=max(1, mark.start), until=_ANY_TIME, limit=100)
        return [one for one in listed if key_of(one.tags) == mark.key and one.time == mark.start]


def _written(grafana: Grafana, mark: Mark, copies: Sequence[Annotation], *, dry_run: bool) -> Iterator[Annotated]:
    if not copies:
        if not dry_run:
            grafana.add_annotation(mark.fields())
        yield Annotated(mark, Change.CREATED)
        return
    yield from _merged(grafana, mark, copies, dry_run=dry_run)
    stored = replace(copies[0], tags=_tags(copies))
    changes = _changes(stored, mark)
    if changes and not dry_run:
        grafana.change_annotation(stored.number, changes)
    yield Annotated(mark, Change.CHANGED if changes else Change.UNCHANGED)


def _merged(grafana: Grafana, mark: Mark, copies: Sequence[Annotation], *, dry_run: bool) -> Iterator[Annotated]:
    """The oldest stays, with the tags that people added to any: whoever else merges at this moment keeps the same."""
    if len(copies) < 2:
        return
    if not dry_run:
        if _tags(copies) != copies[0].tags:
            grafana.change_annotation(copies[0].number, {"tags": list(_tags(copies))})
        for one in copies[1:]:
            grafana.remove_annotation(one.number)
    yield Annotated(mark, Change.MERGED)


def _tags(copies: Sequence[Annotation]) -> tuple[str, ...]:
    added = (tag for one in copies[1:] for tag in one.tags if not _ours(tag))
    return tuple(dict.fromkeys((*copies[0].tags, *added)))


def _changes(stored: Annotation, mark: Mark) -> dict[str, Any]:
    """What of it has to be written. One without an end comes back with its beginning as its end; an end cannot be
    taken away, so one that was opened again gets that, too.
    """
    changes: dict[str, Any] = {}
    if stored.end != (mark.end or mark.start):
        changes["timeEnd"] = mark.end or mark.start
    if stored.text != mark.text:
        changes["text"] = mark.text
    # Tags that people added are theirs.
    if any(tag not in stored.tags for tag in mark.tags):
        changes["tags"] = [*mark.tags, *(tag for tag in stored.tags if tag not in mark.tags and not _ours(tag))]
    return changes


def _ours(tag: str) -> bool:
    return tag.partition(":")[0] in ("rule", "severity", "user", "node", "workload", "cluster", "incident", TAG)
