"""Asking a real Slurm as the alerter does, and waiting for what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.model import Gpu, Job
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, Snapshot
from dutycycle_alerter.slurm.watching import Watch
from tests.exporter.daemon import eventually

from .truth import Owner

GAMES, MAIL, NEWS = "games", "mail", "news"
VIEWER = "list"
"""Whose token the alerter has: somebody who has no rights but to look."""

WAYS = ("tcp", "unix", "commands")
Connect = Callable[..., Watch]


def snapshot(watch: Watch) -> Snapshot:
    return watch.snapshot(time.time())


def wait(watch: Watch, right: Callable[[Snapshot], bool], what: str) -> Snapshot:
    found: list[Snapshot] = []

    def look() -> bool:
        found[:] = [snapshot(watch)]
        return right(found[0])

    eventually(look, what)
    return found[0]


def undisturbed(watches: Sequence[Watch]) -> list[Snapshot]:
    """What each tells, once Slurm changed nothing meanwhile: why a job waits, it finds out in its own time."""
    found: list[Snapshot] = []

    def look() -> bool:
        found[:] = [snapshot(watch) for watch in (*watches, watches[0])]
        again = found.pop()
        return (again.jobs, again.nodes, again.pending) == (found[0].jobs, found[0].nodes, found[0].pending)

    eventually(look, "Slurm changes nothing while it is asked")
    return found


def in_state(job: int, state: JobState) -> Callable[[Snapshot], bool]:
    return lambda shot: job in shot.jobs and shot.jobs[job].state is state


def ours(known: SlurmJob, start: float | None = None) -> Job:
    """The job as its exporters show it."""
    begun = known.start if start is None else start
    assert begun is not None
    return Job(f"slurm/{known.id}", (Gpu("n", "0"),), begun, scheduler="slurm", job_id=str(known.id))


def owners(shot: Snapshot) -> dict[tuple[str, int], frozenset[Owner]]:
    found: dict[tuple[str, int], set[Owner]] = {}
    for job in shot.jobs.values():
        for node, gpus in job.gpus.items():
            for part in gpus:
                for index in part.indexes or ():
                    found.setdefault((node, index), set()).add(Owner(job.id, job.user))
    return {gpu: frozenset(holders) for gpu, holders in found.items()}


def told(watch: Watch, job: int) -> tuple[FinalFigures, ...]:
    try:
        return watch.ended([job], time.time() - 3600).get(job, ())
    except SourceError:
        return ()


def refusals(asking: Iterable[Callable[[], object]]) -> list[str]:
    """What each says who cannot answer, all at once: Slurm tries for ten seconds."""

    def refused(ask: Callable[[], object]) -> str:
        with pytest.raises(SourceError) as error:
            ask()
        return str(error.value)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(refused, asking))
