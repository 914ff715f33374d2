"""Whether memory stays flat over a day: exporter, its child and alerter while jobs come and go, on a faster clock.

    python -m benchmarks.load.flat                         # 24 hours at 60 times their speed: 24 minutes
    python -m benchmarks.load.flat --hours 72              # longer
    python -m benchmarks.load.flat --quick                 # that it works: its trend says nothing

One node of the NVML double, the real exporter with everything on, a real Prometheus that keeps four hours, the real
`dutycycle serve` with mail, whose metrics are read as often as Prometheus would, and people who look at its pages.
Snapshots, scrapes and passes are as many as in the hours at full length, as every duration is divided by the time
scale; where the machine is too slow for that there are fewer, and the figures say how many. The trend is that of the
hours' medians after the warm-up, with its 95 % interval.

Exits with 1 where something of ours grows by more than 2 % of itself a day even at the low end of the interval, with 3
where the run cannot tell (the high end allows for more than 10 % a day, less than 95 % of what was due was done, or a
process of ours was started anew after the warm-up, with whatever it had gathered gone), with 77 where it cannot run.
Needs gcc and Prometheus. Nothing here asks how fast the machine is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import results
from benchmarks.exits import NOT_HERE, UNTOLD
from benchmarks.interruptible import run_until_interrupted
from benchmarks.load.churn import Player, jobs
from benchmarks.load.stage import GPUS, PASS, SCRAPE, SNAPSHOT, Stage, missing
from benchmarks.load.watching import Line, Watched, lines
from benchmarks.results import Row

HOUR = 3600.0
LOOK = 15.0
"""Seconds of the full-length run between two readings of memory, and two scrapes of the alerter."""
VISIT = 300.0
"""Between two looks at the alerter's pages."""
WARM = 6.0
"""Hours until what is remembered for hours is full."""
THEIRS = "Prometheus"
DONE = 0.95
"""Share of what was due that has to be done: a process that is asked less often may hide what it would gather."""


@dataclass(frozen=True)
class Flatness:
    """What is to be said of each process' memory from hour `warm` to the end, and how much was done meanwhile.

    `snapshots`, `scrapes` and `passes` are shares of what was due.
    """

    lines: tuple[Line, ...]
    hours: float
    warm: float
    jobs: int
    mails: int
    restarts: int
    snapshots: float
    scrapes: float
    passes: float
    anew: tuple[str, ...] = ()
    """Processes of ours that were started again after the warm-up: their readings are those of several."""

    @property
    def growing(self) -> list[Line]:
        """Of ours, as far as they were the same process throughout."""
        return [line for line in self.lines if line.process not in (THEIRS, *self.anew) and line.grows]

    @property
    def untold(self) -> list[Line]:
        """Of ours: what may be flat, and may as well not."""
        return [line for line in self.lines if line.process != THEIRS and line.untold]

    @property
    def done(self) -> bool:
        """Whether the processes had the work of those hours."""
        return min(self.snapshots, self.scrapes, self.passes) >= DONE

    @property
    def flat(self) -> bool:
        """Whether the run shows that nothing of ours grows."""
        return self.done and not self.anew and not self.growing and not self.untold

    @property
    def verdict(self) -> str:
        """For the row."""
        if self.growing:
            return f"**{len(self.growing)} quantities of ours grow**"
        if self.anew:
            return f"**cannot be told: started anew after hour {self.warm:g}, {' and '.join(self.anew)}**"
        if not self.done:
            return f"**cannot be told: less than {DONE:.0%} of what was due was done**"
        if self.untold:
            return f"**cannot be told of {len(self.untold)} quantities, whose intervals are too wide**"
        return "nothing of ours grows"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--hours", type=float, help="on the accelerated clock (24)")
    parser.add_argument("--time-scale", type=float, default=60.0, help="how much faster it goes (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the jobs (1)")
    options = parser.parse_args()
    hours = options.hours or (1.0 if options.quick else 24.0)
    if lacking := missing():
        print(f"cannot run here without {' and '.join(lacking)}", file=sys.stderr)
        return NOT_HERE
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), hours, options.time_scale, options.seed)
    results.report(rows(found), options)
    if options.quick or found.flat:
        return 0
    return 1 if found.growing else UNTOLD


def run(folder: Path, hours: float, scale: float, seed: int = 1) -> Flatness:
    """The whole run, which takes `hours / scale` hours."""
    with Stage(folder, scale) as stage:
        watched = {name: Watched(name, stage.blocks.get(name)) for name in stage.pids}
        player = Player(stage.node, stage.prolog, stage.kubelet, jobs(seed, GPUS, hours * HOUR))
        before = (stage.snapshots(), stage.scrapes(), stage.passes())
        began, looked, visited = time.monotonic(), 0.0, 0.0
        with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("accelerated hours", total=hours)
            while (now := (time.monotonic() - began) * scale) < hours * HOUR:
                player.until(now)
                if now >= looked:
                    looked = now + LOOK
                    # By one who waits for the answer: a Prometheus would give up on a busy machine in a fraction of a
                    # second, and what it gave up would queue in the alerter, which no scrape each 15 s does.
                    stage.page("alerter")
                    for name, pid in stage.pids.items():
                        watched[name].read(now / HOUR, pid)
                if now >= visited:
                    visited = now + VISIT
                    stage.visit()
                progress.update(task, completed=now / HOUR)
                time.sleep(0.05)
        after = (stage.snapshots(), stage.scrapes(), stage.passes())
        due = [now / every for every in (SNAPSHOT, SCRAPE, PASS)]
        shares = [(there - was) / wanted for there, was, wanted in zip(after, before, due, strict=True)]
        warm = min(WARM, hours / 4)
        span = min(1.0, (hours - warm) / 6)
        restarts = sum(one.restarts() for one in watched.values())
        anew = tuple(name for name, one in watched.items() if name != THEIRS and one.restarts(warm))
        found = tuple(lines(watched.values(), warm, span))
        return Flatness(found, hours, warm, player.ended, len(stage.mail.messages), restarts, *shares, anew=anew)


def rows(found: Flatness) -> list[Row]:
    """What was done, then a row for each process."""
    what = f"{found.hours:g} accelerated hours of a node of {GPUS} GPUs"
    done = (
        f"{found.jobs} jobs came and went, {found.mails} mails; of what was due {found.snapshots:.0%} of the snapshots,"
        f" {found.scrapes:.0%} of the scrapes, {found.passes:.0%} of the passes; {found.restarts} started anew"
    )
    rows = [Row(f"{what}: what was done", f"{done}: {found.verdict}")]
    for process in dict.fromkeys(line.process for line in found.lines):
        told = "; ".join(words(line) for line in found.lines if line.process == process)
        rows.append(Row(f"{what}: {process}, from hour {found.warm:g} on", told))
    return rows


def words(line: Line) -> str:
    """First and last hour, the highest reading, the slope."""
    slope, low, high = (1000 * value for value in (line.trend.slope, line.trend.low, line.trend.high))
    small = {"MB": "kB", "thousand": "blocks"}[line.unit]
    return (
        f"{line.quantity} {line.first:.1f} to {line.last:.1f} {line.unit}, at most {line.highest:.1f};"
        f" {slope:+.1f} {small} an hour ({low:+.1f} to {high:+.1f})"
    )


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
