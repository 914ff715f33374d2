"""What is kept of a run, to be compared again: what came out of the chain, and of which run that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks import results
from benchmarks.real.chain import Chain
from benchmarks.real.runs import Run
from benchmarks.results import Provenance, Row
from tests.prometheus.server import program

FILE = "chain.json"


@dataclass(frozen=True)
class Kept:
    """`workloads` are those of the runs that were played."""

    made: Provenance
    workloads: tuple[str, ...]
    chain: Chain


def making() -> Provenance:
    """Of a run that begins here and now."""
    return results.provenance(results.command_version(program("prometheus")), results.versions("sqlalchemy"))


def write(kept: Kept, directory: Path) -> None:
    (directory / FILE).write_bytes(msgspec.json.encode(kept))


def read(directory: Path, runs: Iterable[Run]) -> Kept:
    """What `write` wrote of these very runs. Raises OSError, or ValueError where it is of others or something else."""
    file = directory / FILE
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=Kept)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{file}: {error}") from error
    asked, played = {run.workload for run in runs}, set(kept.workloads)
    if asked != played:
        raise ValueError(
            f"{file} is of another selection of runs, by `{kept.made.by}`: {len(asked - played)} of those that are "
            f"asked for were not played, and {len(played - asked)} others were"
        )
    return kept


def stamped(rows: Sequence[Row], made: Provenance, analyzed_by: str) -> list[Row]:
    """The rows as those of the run that they are of; they name the commit whose analyze was compared with it where that
    is another one.
    """
    other = "" if analyzed_by == made.commit else f", analyzed by {analyzed_by.removeprefix('dutycycle ')}"
    return [made.stamped(row, other) for row in rows]
