"""What the exporter costs the programs on the GPU: how long their steps take with it and without it, in turns.

    python -m benchmarks.gpu.overhead                       # nine minutes
    python -m benchmarks.gpu.overhead memory --cycles 3

The same steps run in slices of some seconds: without an exporter, with one as it comes (it reads every 5 s), without,
and with one that reads every quarter of a second. The last shows twenty times of what there is, so that it stands out
from the noise. Three programs: one keeps the GPU busy with products of matrices, at the limit of its power, which moves
its clock; one keeps its memory busy below that limit, so that its steps are steadier; one launches small kernels and
feels what holds up its host. Each slice with an exporter is compared with the mean of those without on either side.
Needs torch and an NVIDIA GPU; exits with 77 where there is none.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
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
OFF, DEFAULT, FAST = "", "5s", "250ms"
CYCLE = (OFF, DEFAULT, OFF, FAST)
SETTLE = 2.0
"""Seconds after the exporter was started or ended: its start reads a whole buffer, and is not what is measured."""

Step = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.overhead")
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"which, by how they begin: {', '.join(PROGRAMS)}"
    )
    parser.add_argument("--cycles", type=int, default=6, help="so often without, with, without, with [%(default)s]")
    parser.add_argument("--slice", type=float, default=5.0, help="seconds of each [%(default)s]")
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
        options.cycles, options.slice = 1, 2.0
    driver = next(iter(query().values())).driver
    rows = []
    for name, program in PROGRAMS.items():
        if options.programs and not name.startswith(tuple(options.programs)):
            continue
        steps = slices(program(torch), options.cycles, options.slice)
        what = f"step time with the exporter reading every {DEFAULT} and every {FAST} beside without, in turns: {name}"
        figure = "; ".join(f"{interval}: {told(steps, interval)}" for interval in (DEFAULT, FAST))
        figure += f"; {sum(map(len, (each for _, each in steps)))} steps of {1e3 * middle(steps):.1f} ms"
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


def slices(step: Step, cycles: int, length: float) -> list[tuple[str, list[float]]]:
    """(interval of the exporter's readings, seconds of each step), slice by slice; one without ends it."""
    _run(step, SETTLE)
    return [(interval, _slice(step, interval, length)) for interval in (*CYCLE * cycles, OFF)]


def _slice(step: Step, interval: str, length: float) -> list[float]:
    with ExitStack() as stack:
        if interval != OFF:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            exporter = stack.enter_context(Daemon(folder, {}, f"--sample-interval={interval}", "--attribution.local"))
            eventually(lambda: exporter.get("/-/ready")[0] == 200, "the exporter has read the GPUs")
        _run(step, SETTLE)
        return _run(step, length)


def _run(step: Step, length: float) -> list[float]:
    end, found = time.perf_counter() + length, []
    began = time.perf_counter()
    while began < end:
        step()
        now = time.perf_counter()
        found.append(now - began)
        began = now
    return found


def compare(
    steps: list[tuple[str, list[float]]], interval: str, *, of: Callable[[list[float]], float] = fmean
) -> list[float]:
    """By which share a step took longer in each slice with that interval than in those without around it."""
    known = [of(each) for _, each in steps]
    return [
        known[place] / fmean((known[place - 1], known[place + 1])) - 1
        for place, (each, _) in enumerate(steps)
        if each == interval
    ]


def told(steps: list[tuple[str, list[float]]], interval: str) -> str:
    """What readings at that interval cost, with how sure that is."""
    cost = compare(steps, interval)
    error = stdev(cost) / len(cost) ** 0.5 if len(cost) > 1 else float("nan")
    sure = f"(standard error of {len(cost)} pairs; medians {100 * fmean(compare(steps, interval, of=median)):+.3f} %)"
    return f"{100 * fmean(cost):+.3f} % +- {100 * error:.3f} {sure}"


def middle(steps: list[tuple[str, list[float]]]) -> float:
    """The median step, in seconds."""
    return median(itertools.chain.from_iterable(each for _, each in steps))


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
