"""The file that a run leaves once it is over: what was played, what was true, what was seen, and what it took."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from .mechanisms import simulate
from .model import Job, Observed, Phase, Scenario, Truth


@dataclass(frozen=True)
class Played:
    """`scenario` is a digest of what was played: a plan that was changed since is another one."""

    seed: int
    scenario: str
    parameters: str
    settings: Mapping[str, float]
    """The numbers of `play.BoxSettings`."""
    truths: Mapping[int, Truth]
    observed: Observed
    cores: Mapping[str, float] = field(default_factory=dict)
    """That each process kept busy, on average."""


def digest(scenario: Scenario) -> str:
    """Of everything that is played, but what goes on in the jobs, which follows from it."""
    return hashlib.sha256(repr(scenario).encode()).hexdigest()[:16]


def _json(what: object) -> bytes:
    # Truth is computed with numpy, whose numbers are not Python's.
    return msgspec.json.encode(what, enc_hook=float)


def write(path: Path, played: Played) -> None:
    """Whole, or not at all."""
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(_json(played))
    aside.replace(path)


def read(path: Path) -> Played:
    """Raises ValueError where it is not of this form."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Played)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Simulating:
    """The courses of jobs, called for wherever they are played; keeps each job's truth in a file of `directory`."""

    directory: Path

    def __call__(self, job: Job) -> tuple[Phase, ...]:
        simulated = simulate(job)
        (self.directory / f"{job.number}.json").write_bytes(_json(simulated.truth))
        return simulated.course

    def truths(self) -> dict[int, Truth]:
        """Of all jobs that were played, by their numbers."""
        return {
            int(path.stem): msgspec.json.decode(path.read_bytes(), type=Truth) for path in self.directory.glob("*.json")
        }
