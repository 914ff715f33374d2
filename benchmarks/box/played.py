"""The file that a run leaves once it is over: what was played and by which code, what was seen, and what it took.

What was true is not in it: it follows from the plan, and is computed again whenever a run is scored.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from benchmarks.results import Provenance

from .mechanisms import playing, simulate
from .mechanisms.truth import losses, reports
from .model import Job, Observed, Phase, Scenario, Truth
from .pace import Pace

ROOT = Path(__file__).resolve().parents[2]
CHAIN = ("exporter/dutycycle_exporter", "alerter/dutycycle_alerter", "benchmarks/box/nodes")
"""The code whose work is judged, and that which shows it the fleet."""
JOBS = ("benchmarks/box/mechanisms",)
"""The code that says what goes on in jobs; what is true of them is in no run."""
OF_THE_MACHINE = ("time_scale",)
"""Settings in which runs of one figure may differ: a machine plays as fast as it keeps pace with, which is checked."""

NOT_ALL = "not all jobs were played"
"""The note of a run whose jobs could not be made in time."""
UNSETTLED = "not everything was resolved, told and accounted for when the wait for it was given up"
"""The note of a run after which something stayed open. Of all notes this one is about what is judged: it counts."""


@dataclass(frozen=True)
class Played:
    """`scenario` is a digest of what was played: a plan that was changed since is another one."""

    seed: int
    scenario: str
    parameters: str
    settings: Mapping[str, float]
    """The numbers of `play.BoxSettings`."""
    observed: Observed
    cores: Mapping[str, float] = field(default_factory=dict)
    """That each process kept busy, on average."""
    pace: Pace = field(default_factory=Pace)
    chain: str = ""
    """A digest of the code of CHAIN, and of that of JOBS."""
    jobs: str = ""
    made: Provenance = field(default_factory=Provenance)

    def unlike(self, other: Played | None, scenario: Scenario) -> str:
        """Why it cannot be told in one figure with the other, or with what is planned; empty where it can."""
        if self.scenario != digest(scenario):
            return "of another plan than today's"
        if self.jobs != code(JOBS):
            return f"of jobs whose mechanisms have changed since ({self.made.commit or 'nobody knows of which commit'})"
        if other is None:
            return ""
        names = self.settings.keys() | other.settings.keys()
        differing = {name for name in names if self.settings.get(name) != other.settings.get(name)}
        if changed := sorted(differing.difference(OF_THE_MACHINE)):
            return f"played with another {', '.join(changed).replace('_', ' ')}"
        return "" if self.chain == other.chain else f"played by other code ({self.made.commit})"

    def same_code(self, other: Played) -> bool:
        return (self.chain, self.jobs) == (other.chain, other.jobs)

    def spoilt(self, *, late_counts: bool = False) -> tuple[str, ...]:
        """Why it does not count: what came late, unless that is to count, and what went wrong in the harness. Empty
        where it does.
        """
        late = self.pace.reasons()
        trouble = [note for note in self.observed.notes if note not in (UNSETTLED, *late)]
        return (*(() if late_counts else late), *trouble)


def code(folders: Sequence[str]) -> str:
    """A digest of their sources, without the part that only says what is true."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "truth" not in path.parts:
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


def digest(scenario: Scenario) -> str:
    """Of everything that is played, but what goes on in the jobs, which follows from it. Of numbers six digits count:
    the last of an exponential or a power are not the same on processors with other vector instructions.
    """
    rounded = re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", lambda number: f"{float(number[0]):.6g}", repr(scenario))
    return hashlib.sha256(rounded.encode()).hexdigest()[:16]


def file_name(seed: int) -> str:
    """Of the file, which people can read with `zcat` and `jq`."""
    return f"seed-{seed}.json.gz"


def write(path: Path, played: Played) -> None:
    """Whole, or not at all; the same bytes for the same outcome."""
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(gzip.compress(msgspec.json.encode(played), mtime=0))
    aside.replace(path)


def read(path: Path) -> Played:
    """Raises ValueError where it is not of this form."""
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Played)
    except (msgspec.MsgspecError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from error


def course(job: Job) -> tuple[Phase, ...]:
    """What goes on in a job, called for wherever it is played."""
    return simulate(job).course


def truths(jobs: Iterable[Job]) -> dict[int, Truth]:
    """What is true of jobs, by their numbers."""
    return {job.number: whole_truth(job) for job in jobs}


def whole_truth(job: Job) -> Truth:
    """Also what only a score asks for."""
    stretches = playing.play(job)
    return replace(
        playing.truth(job, stretches), losses=losses(stretches, job.partition), reports=reports(job, stretches)
    )
