"""What Slurm's accounting has of the jobs' GPUs, and between which bounds the alerter's ledger must lie."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.slurm.cluster import Cluster

from .loads import Hold, Life, PlaceInSlurm

_FORMAT = "JobIDRaw,AllocTRES,ElapsedRaw,Start,End,State"
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")


@dataclass(frozen=True)
class AccountedRun:
    """One run of a job as `sacct` has it; times are whole Unix seconds."""

    job: int
    gpus: int
    elapsed: float
    start: float
    end: float
    state: str


def accounted(cluster: Cluster) -> dict[Life, AccountedRun]:
    """Every run that is over, of a requeued job each of them, from `sacct`."""
    command = ["sacct", "-a", "-X", "-D", "-n", "-P", "-S", "now-2days", f"--format={_FORMAT}"]
    environment = {**os.environ, **cluster.environment, "SLURM_TIME_FORMAT": "%s"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    runs = []
    for line in done.stdout.splitlines():
        job, tres, elapsed, start, end, state = line.split("|")
        gpus = _GPUS.search(tres)
        if gpus is not None and end.isdigit():
            runs.append(AccountedRun(int(job), int(gpus[1]), float(elapsed), float(start), float(end), state))
    found: dict[Life, AccountedRun] = {}
    for run in sorted(runs, key=lambda run: run.start):
        found[Life(run.job, sum(life.job == run.job for life in found))] = run
    return found


@dataclass(frozen=True)
class Blind:
    """A time in which a node's exporter was dead, in Unix seconds."""

    node: str
    since: float
    until: float

    def of(self, node: str, hold: Hold, interval: float) -> float:
        """What of a GPU's hold is not in the ledger: that time, and what was not scraped before it."""
        assert hold.until is not None
        if self.node != node or self.since > hold.until or self.until < hold.since:
            return 0.0
        return min(self.until, hold.until) - max(self.since, hold.since) + interval


@dataclass(frozen=True)
class Unscraped:
    """A time in which nobody read any exporter, in Unix seconds: what one counts meanwhile is read afterwards, but for
    what ended within.
    """

    since: float
    until: float

    def of(self, _node: str, hold: Hold, interval: float) -> float:
        """What of a GPU's hold is not in the ledger."""
        assert hold.until is not None
        if not self.since <= hold.until <= self.until:
            return 0.0
        return hold.until - max(self.since, hold.since) + interval


def bounds(
    runs: Mapping[Life, AccountedRun],
    holds: Mapping[Life, Mapping[PlaceInSlurm, Hold]],
    blind: Sequence[Blind | Unscraped],
    interval: float,
) -> dict[int, tuple[float, float]]:
    """Least and most GPU-seconds that the ledger may have of each job, where Slurm has accounted for these runs.

    Slurm counts without the time that its prologs and epilogs take; when the nodes had the GPUs is known from what
    these wrote. A GPU that waits for its epilog need not be charged to the run that Slurm calls over. Beyond that the
    ledger may be off by one interval for each GPU of a run, and by the second to which the prolog's own time is whole;
    and it lacks what no exporter saw.
    """
    least: defaultdict[int, float] = defaultdict(float)
    most: defaultdict[int, float] = defaultdict(float)
    slack = interval + 1.0
    for life, run in runs.items():
        assert len(holds[life]) == run.gpus, f"{life} had {holds[life]}, and Slurm accounts for {run.gpus} GPUs"
        for (node, _), hold in holds[life].items():
            assert hold.until is not None, f"{life} still has a GPU of {node}"
            begun_late, unseen = hold.since - run.start, sum(one.of(node, hold, interval) for one in blind)
            least[life.job] += run.elapsed - begun_late + min(0.0, hold.seen - run.end) - unseen - slack
            most[life.job] += run.elapsed - begun_late + (hold.until - run.end) + slack
    return {job: (least[job], most[job]) for job in least}
