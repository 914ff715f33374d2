"""What is in one answer of slurmrestd or of a command with --json: the same documents from both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.slurm.fields import Fields, Nonsense
from dutycycle_alerter.slurm.jobs import read_job
from dutycycle_alerter.slurm.model import JobState, PendingRequest, SlurmJob, SlurmNode
from dutycycle_alerter.slurm.nodes import read_node

NOTHING_FOUND = 9003
"""The number of the error that slurmdbd's answers have where a query matches no job."""

_T = TypeVar("_T")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Table:
    """All jobs, as of the server's time `updated` where it tells that."""

    jobs: Mapping[int, SlurmJob] = field(default_factory=dict)
    updated: int | None = None


def parse(content: bytes, where: str) -> dict[str, object]:
    """The JSON object in an answer. Raises SourceError, which names `where` it came from.

    Slurm copies what users call their jobs as it is: bytes that are no UTF-8 are shown as such, and hide no job.
    """
    try:
        document = json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SourceError(f"{where}: the answer is not JSON: {printable(reason, _SHOWN)}") from error
    if not isinstance(document, dict):
        raise SourceError(f"{where}: the answer is not a JSON object")
    return document


def complaint(document: Mapping[str, object]) -> str:
    """The first of the errors that an answer lists, harmless to show; empty where there is none."""
    errors = document.get("errors")
    if not isinstance(errors, list) or not errors:
        return ""
    first = errors[0]
    if not isinstance(first, dict):
        return printable(str(first), _SHOWN)
    words = [first.get(name) for name in ("description", "error")]
    return printable(": ".join(word for word in words if isinstance(word, str) and word) or "unknown error", _SHOWN)


def error_number(document: Mapping[str, object]) -> int | None:
    """The number of the first error that an answer lists."""
    errors = document.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        number = errors[0].get("error_number")
        return number if isinstance(number, int) else None
    return None


def read_jobs(document: Mapping[str, object], where: str, nonsense: Nonsense) -> Table:
    """Every job in an answer, by its raw id. Raises SourceError."""
    found = {job.id: job for job in _listed(document, "jobs", where, nonsense, read_job)}
    return Table(found, Fields(document, nonsense).number("last_update"))


def read_nodes(document: Mapping[str, object], where: str, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
    """Every node in an answer, by its name. Raises SourceError."""
    return {node.name: node for node in _listed(document, "nodes", where, nonsense, read_node)}


def listed(document: Mapping[str, object], name: str, where: str) -> list[object]:
    """The list in an answer. Raises SourceError for its errors, or where there is no list."""
    if wrong := complaint(document):
        raise SourceError(f"{where}: {wrong}")
    items = document.get(name)
    if not isinstance(items, list):
        raise SourceError(f"{where}: the answer has no list of {name}: is that Slurm?")
    return items


def _listed(
    document: Mapping[str, object],
    name: str,
    where: str,
    nonsense: Nonsense,
    read: Callable[[Fields], _T | None],
) -> Iterable[_T]:
    try:
        items = listed(document, name, where)
    except SourceError as error:
        raise SourceError(f"{error}. Is slurmctld up (scontrol ping)?") from error
    found = [read(Fields(item, nonsense, name)) for item in items]
    known = [item for item in found if item is not None]
    if items and not known:
        raise SourceError(f"{where}: none of {len(items)} {name} has the fields that Slurm writes")
    return known


def pending(jobs: Iterable[SlurmJob]) -> tuple[PendingRequest, ...]:
    """What waiting jobs ask for, by partition and reason; those that want no GPUs are left out."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for job in jobs:
        if job.state is JobState.PENDING and job.gpus_requested:
            key = job.partition, job.reason
            count, gpus = sums.get(key, (0, 0))
            sums[key] = count + job.tasks, gpus + job.gpus_requested * job.tasks
    return tuple(PendingRequest(*key, *counted) for key, counted in sorted(sums.items()))
