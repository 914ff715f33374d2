"""What the exporter costs the programs on the GPU: how long their steps take with it and without it, in turns.

    python -m benchmarks.gpu.overhead                       # fourteen minutes
    python -m benchmarks.gpu.overhead memory --cycles 20

The same steps run in short slices, in turns while an exporter stands still and while it reads every quarter of a
second, twenty times as often as it comes: what costs less than the aim then costs less by default, too. It is stopped
and continued rather than ended and started, so that the slices follow one another closely enough for the GPU's
temperature and clock to be the same on both sides. Three programs: one keeps the GPU busy with products of matrices,
at the limit of its power, which moves its clock; one keeps its memory busy below that limit, so that its steps are
steadier; one launches small kernels and feels what holds up its host. Each slice with readings is compared with the
mean of those without on either side. Needs torch and an NVIDIA GPU; exits with 77 where there is none.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.gpu.nvidia_smi import absent, query
from benchmarks.gpu.workloads import calibrate, small_training, sums, training
from benchmarks.interruptible import run_until_interrupted
from tests.exporter.daemon import Daemon, eventually

STEP = 0.02
"""Seconds of a step of either program."""
INTERVAL = "250ms"
"""Between two readings: a twentieth of the default."""
WARM = 10.0
"""Seconds of steps before the first slice: for the GPU's clock, and the exporter's start, which reads whole buffers."""
SETTLE = 0.2
"""Seconds after the exporter was stopped or continued: a reading that was due meanwhile is made at once."""
AIM = 0.001
FLAGS = (f"--sample-interval={INTERVAL}", "--attribution.local")

Step = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.overhead")
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"which, by how they begin: {', '.join(PROGRAMS)}"
    )
    parser.add_argument("--cycles", type=int, default=60, help="so often without and with [%(default)s]")
    parser.add_argument("--slice", type=float, default=2.0, help="seconds of each [%(default)s]")
    results.arguments(parser)
    options = parser.parse_args()
    if why := absent():
        print(f"this measures real GPUs: {why}", file=sys.stderr)
        return NOT_HERE
    try:
        import torch  # noqa: PLC0415 - only where it is installed
    except ImportError:
        print("this computes with torch, which is not installed here: pip install torch", file=sys.stderr)
        return NOT_HERE
    if options.quick:
        options.cycles, options.slice = 2, 2.0
    driver = next(iter(query().values())).driver
    rows = []
    for name, program in PROGRAMS.items():
        if options.programs and not name.startswith(tuple(options.programs)):
            continue
        found = slices(program(torch), options.cycles, options.slice)
        what = f"step time with the exporter reading every {INTERVAL} beside without, in turns: {name}"
        figure = f"{told(found.steps)}; {sum(map(len, found.steps))} steps of {1e3 * middle(found.steps):.1f} ms; "
        figure += f"its processes took {100 * found.cpu:.2f} % of a core meanwhile"
        rows.append(results.Row(what, figure, versions=f"driver {driver}, torch {torch.__version__}"))
    results.report(rows, options, section="On real GPUs")
    return 0


def busy(torch: Any) -> Step:
    """A step that computes, and waits for its end."""
    return _long_enough(torch, training(torch))


def memory(torch: Any) -> Step:
    """A step that waits for the GPU's memory alone."""
    return _long_enough(torch, sums(torch, 2**28))


def small(torch: Any) -> Step:
    """As many steps of a small model as take that long."""
    one = small_training(torch)
    for _ in range(100):
        one()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(100):
        one()
    torch.cuda.synchronize()
    number = max(1, round(100 * STEP / (time.perf_counter() - began)))

    def step() -> None:
        for _ in range(number):
            one()
        torch.cuda.synchronize()

    return step


def _long_enough(torch: Any, passes_of: Callable[[int], None]) -> Step:
    """As many passes as take that long."""
    passes = calibrate(torch, passes_of, STEP)

    def step() -> None:
        passes_of(passes)
        torch.cuda.synchronize()

    return step


PROGRAMS: dict[str, Callable[[Any], Step]] = {
    "a GPU that is busy": busy,
    "memory that is busy": memory,
    "small kernels, bound by launches": small,
}


@dataclass(frozen=True)
class Slices:
    steps: list[list[float]]
    """Seconds of each step, slice by slice: without readings, with, without, and so on; one without ends it."""
    cpu: float
    """CPU time of the exporter's processes in the slices with readings, as a share of a core."""


def slices(step: Step, cycles: int, length: float) -> Slices:
    """`cycles` times a slice without and one with readings.

    Raises `RuntimeError` or `OSError` where the exporter did not outlive it in one piece: it did not read all the time.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), {}, *FLAGS) as exporter:
        eventually(lambda: exporter.get("/-/ready")[0] == 200, "the exporter has read the GPUs")
        _run(step, WARM)
        # The parent is stopped first and continued last: it must not take its child's silence for a hang.
        before, cpu = _pids(exporter), 0.0
        for _ in range(cycles):
            _signal(before, signal.SIGSTOP)
            _run(step, SETTLE)
            found.append(_run(step, length))
            _signal(before[::-1], signal.SIGCONT)
            _run(step, SETTLE)
            cpu -= _cpu(before)
            found.append(_run(step, length))
            cpu += _cpu(before)
        _signal(before, signal.SIGSTOP)
        _run(step, SETTLE)
        found.append(_run(step, length))
        _signal(before[::-1], signal.SIGCONT)
        if (after := _pids(exporter)) != before:
            raise RuntimeError(f"the exporter's processes were {before} and are {after}: it began anew meanwhile")
    return Slices(found, cpu / (cycles * length))


def _pids(exporter: Daemon) -> tuple[int, int]:
    child = exporter.child()
    if child is None:
        raise RuntimeError(f"the exporter has no process that reads: {exporter.log}")
    return exporter.process.pid, child


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _cpu(pids: Sequence[int]) -> float:
    """Seconds of CPU that the processes took so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(step: Step, length: float) -> list[float]:
    end, found = time.perf_counter() + length, []
    began = time.perf_counter()
    while began < end:
        step()
        now = time.perf_counter()
        found.append(now - began)
        began = now
    return found


def compare(steps: list[list[float]]) -> list[float]:
    """By which share a step took longer in each slice with readings than in those without around it."""
    known = [fmean(each) for each in steps]
    return [known[place] / fmean((known[place - 1], known[place + 1])) - 1 for place in range(1, len(known), 2)]


def told(steps: list[list[float]]) -> str:
    """What the readings cost, how sure that is, and what it says of the aim."""
    cost = compare(steps)
    mean = fmean(cost)
    error = stdev(cost) / len(cost) ** 0.5
    sure = f"(standard error of {len(cost)} pairs; median {100 * median(cost):+.3f} %)"
    aim = f"aim below {100 * AIM:g} % at a twentieth of these readings: {verdict(mean, error)}"
    return f"{100 * mean:+.3f} % +- {100 * error:.3f} {sure}; {aim}"


def verdict(mean: float, error: float) -> str:
    """Whether the aim is met, by two standard errors to either side.

    It is where even these readings, twenty times as many as by default, cost less. Nothing is said of a twentieth of
    what was found: that it grows with the readings alone is not measured.
    """
    if mean + 2 * error < AIM:
        return "met even by all of them"
    return "missed by all of them" if mean - 2 * error > AIM else "not told by this"


def middle(steps: list[list[float]]) -> float:
    """The median step, in seconds."""
    return median(itertools.chain.from_iterable(steps))


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
