"""What a snapshot costs: the reader beside the same NVML calls made from C and from pynvml alone, on the NVML double.

    python benchmarks/nvml_floor.py                  # 1, 8 and 16 GPUs, and 8 GPUs in 7 MIG instances each
    python benchmarks/nvml_floor.py --call 0 20      # only with calls as they are, and with such of 20 us more

The double's calls return in a microsecond or less; those of a driver take from some microseconds to some milliseconds,
which all pay alike. So the double's are made to take longer, too, by `--call` microseconds each, all in one run in
turns. All times are CPU time: the double spends a call's time awake. Break-even is from how many microseconds on the
reader takes at most four times as long as C.

Needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any

import pynvml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import results  # noqa: E402
from benchmarks.results import Row, versions  # noqa: E402
from dutycycle_exporter.collected import COLLECTED  # noqa: E402
from dutycycle_exporter.nvml import NvmlReader  # noqa: E402
from dutycycle_exporter.nvml.answers import Answers  # noqa: E402
from dutycycle_exporter.nvml.fields import FIELDS  # noqa: E402
from tests.fakes.clock import FakeClock  # noqa: E402
from tests.fakes.nvml import Driver, GpuProcess, Level, Libraries, Load, build  # noqa: E402

ABI = ROOT / "tests" / "fakes" / "nvml" / "src"
NODES = ((1, 0), (8, 0), (16, 0), (8, 7))
METRICS = (1, 2, 3, 5, 7, 9, 6, 10, 11, 12, 13, 20, 21, 60, 61)
COSTS = (0, 1, 2, 5, 10, 20, 50, 100)
TARGET = 4
TITLES = ("node", "a call + us", "calls", "C us", "pynvml us", "reader us", "pynvml / C", "reader / C", "% at 5 s")

_Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass
class Costs:
    """Microseconds of CPU time of each turn. `sent` is the reader's, and that of packing what it sends."""

    floor: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    reader: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)


def compile_floor(folder: Path) -> Path:
    program = folder / "nvml_floor"
    source = Path(__file__).with_suffix(".c")
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", f"-I{ABI}"]
    subprocess.run([*command, "-o", str(program), str(source), "-ldl"], check=True)
    return program


def bind(libraries: Libraries, driver: Driver) -> None:
    """Has pynvml in this process use the double."""
    os.environ["NVML_DOUBLE_STATE"] = driver.environment["NVML_DOUBLE_STATE"]
    pynvml.nvmlLib = ctypes.CDLL(str(libraries.directory / "libnvidia-ml.so.1"))


def populate(driver: Driver, gpus: int, instances: int) -> None:
    for gpu in range(gpus):
        driver.add_gpu()
        if instances:
            driver.set_mig(gpu, ["1g.10gb"] * instances)
    for gpu in range(gpus):
        for place in range(instances or 1):
            pid = 1000 + 10 * gpu + place
            where = (gpu, place) if instances else gpu
            driver.run(f"job-{pid}", {where: Load(Level(0.6), [GpuProcess(pid, 2**30)])})


@contextmanager
def noted() -> Iterator[list[_Call]]:
    """The calls of pynvml's functions, and of ours in their place, made meanwhile, without those that they make of
    each other.
    """
    made: list[_Call] = []
    inside = False

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def note(*arguments: Any) -> Any:
            nonlocal inside
            if inside:
                return call(*arguments)
            made.append((call, arguments))
            inside = True
            try:
                return call(*arguments)
            finally:
                inside = False

        return note

    functions = {
        name: value
        for name, value in vars(pynvml).items()
        if name.startswith(("nvmlDeviceGet", "nvmlGpm")) and callable(value) and not isinstance(value, type)
    }
    fill = Answers.fill
    vars(pynvml).update({name: noting(call) for name, call in functions.items()})
    Answers.fill = noting(fill)  # type: ignore[method-assign]
    try:
        yield made
    finally:
        vars(pynvml).update(functions)
        Answers.fill = fill  # type: ignore[method-assign]


def again(calls: Sequence[_Call]) -> float:
    """Seconds of CPU time that the calls take once more, and nothing else."""
    began = time.thread_time()
    for call, arguments in calls:
        try:
            call(*arguments)
        except pynvml.NVMLError:
            # As it did the first time: there is no such instance, or the GPU does not have it.
            continue
    return time.thread_time() - began


def measure(
    folder: Path, libraries: Libraries, program: Path, node: tuple[int, int], rounds: int, costs: Sequence[int]
) -> dict[int, Costs]:
    """By what a call costs beside."""
    gpus, instances = node
    clock = FakeClock()
    found: defaultdict[int, Costs] = defaultdict(Costs)
    with Driver(folder / f"{gpus}-{instances}", libraries, clock=clock) as driver:
        populate(driver, gpus, instances)
        bind(libraries, driver)
        reader, other = (NvmlReader(interval=5.0, collect=frozenset(COLLECTED) - {"xid"}) for _ in range(2))
        fields = [
            f"{field.number}:{field.scope}:{field.every}"
            for field in FIELDS
            if field.number not in {29, 30, 31, 202, 204}
        ]
        floor = subprocess.Popen(
            [program, *fields, *(f"m{number}" for number in METRICS)],
            env={**os.environ, **driver.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert floor.stdin is not None
        assert floor.stdout is not None
        for turn in range(-3, rounds * len(costs)):
            cost = costs[turn % len(costs)]
            driver.slow("ANY", cost / 1e6)
            clock.advance(5)
            driver.step()
            before = sum(driver.state.called().values())
            began = time.thread_time()
            snapshot = reader.read(clock.now)
            read = time.thread_time()
            pickle.dumps(snapshot, protocol=5)
            sent = time.thread_time()
            made = sum(driver.state.called().values()) - before
            floor.stdin.write("\n")
            floor.stdin.flush()
            in_c = int(floor.stdout.readline().split()[0]) / 1e3
            same = sum(driver.state.called().values()) - before - made
            with noted() as calls:
                other.read(clock.now)
            bare = again(calls)
            if turn >= 0:
                one = found[cost]
                one.floor.append(in_c)
                one.bare.append(bare * 1e6)
                one.reader.append((read - began) * 1e6)
                one.sent.append((sent - began) * 1e6)
                one.calls.append(same)
                # Every twelfth turn the reader asks the GPUs who they are: that belongs to its cost, and not to C's.
                assert made >= same > 0.97 * min(one.calls), f"C makes {same} calls, the reader {made}"
        floor.stdin.close()
        floor.wait()
        driver.heal("ANY")
        reader.close()
        other.close()
    return found


def break_even(costs: Costs) -> float:
    """Microseconds a call from which on the reader takes at most `TARGET` times as long as C; 0 if it always does."""
    return max(0.0, (median(costs.reader) - TARGET * median(costs.floor)) / ((TARGET - 1) * median(costs.calls)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--rounds", type=int, help="snapshots of each node at each cost of a call [25]")
    parser.add_argument("--call", type=int, nargs="+", help="microseconds that every call takes beside")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 25)
    costs = options.call or ((0,) if options.quick else COSTS)
    lines: list[tuple[str, ...]] = []
    told: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder) / "nvml")
        program = compile_floor(Path(folder))
        for gpus, instances in NODES:
            name = f"{gpus} x {instances}" if instances else str(gpus)
            found = measure(Path(folder), libraries, program, (gpus, instances), rounds, costs)
            for cost, one in found.items():
                floor, bare, reader = median(one.floor), median(one.bare), median(one.reader)
                figures = (f"{median(one.calls):.0f}", f"{floor:.0f}", f"{bare:.0f}", f"{reader:.0f}")
                ratios = (f"{bare / floor:.1f}", f"{reader / floor:.1f}", f"{median(one.sent) / 5e4:.3f}")
                lines.append((name, str(cost), *figures, *ratios))
            told.append(row(name, found))
    results.show(TITLES, lines)
    results.report(told, options)


def row(name: str, found: dict[int, Costs]) -> Row:
    """Of one node: what a snapshot takes, and of how much each costs more with calls that take longer."""
    what = f"a snapshot beside the same NVML calls from C and from pynvml alone, CPU time, a node of {name} GPUs"
    figures = []
    if 0 in found:
        plain = found[0]
        floor, bare, reader = median(plain.floor), median(plain.bare), median(plain.reader)
        figures.append(
            f"{median(plain.calls):.0f} calls: C {floor:.0f} us, pynvml alone {bare / floor:.1f} times as long, reader"
            f" {reader / 1000:.2f} ms, {reader / floor:.1f} times; at most {TARGET} times from calls of"
            f" {break_even(plain):.1f} us more on"
        )
    longer = [cost for cost in found if cost]
    if longer:
        ratios = ", ".join(f"{median(found[cost].reader) / median(found[cost].floor):.1f}" for cost in longer)
        figures.append(f"with calls that take {', '.join(map(str, longer))} us more reader / C {ratios}")
    return Row(what, "; ".join(figures), versions=versions("nvidia-ml-py"))


if __name__ == "__main__":
    main()
