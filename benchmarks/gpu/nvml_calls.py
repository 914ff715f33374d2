"""What a driver's calls take: a reading of this machine's GPUs beside the same NVML calls made from C and from pynvml.

    python -m benchmarks.gpu.nvml_calls

As benchmarks/nvml_floor.py measures it on the NVML double, on a real driver: CPU time, which a driver's calls take
awake. Some fields are not read at each turn, so that a mean over turns is told. Then each call by itself, and each
field beside NVML's own call for the energy. Needs gcc, an NVIDIA GPU and its driver; exits with 77 where there is none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pynvml

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.gpu.nvidia_smi import absent, query
from benchmarks.nvml_floor import METRICS, again, compile_floor, noted
from dutycycle_exporter.collected import COLLECTED
from dutycycle_exporter.nvml import NvmlReader
from dutycycle_exporter.nvml.answers import Answers
from dutycycle_exporter.nvml.fields import FIELDS

LACKING = (29, 30, 31, 138, 139, 202, 204)
"""Fields that a Hopper without NVLink does not have, which the reader asks for once."""
APART = 0.3
"""Seconds between two readings: profiling counters are renewed each tenth of a second."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.nvml_calls")
    parser.add_argument("--rounds", type=int, default=36, help="readings [%(default)s]")
    results.arguments(parser)
    options = parser.parse_args()
    if why := absent():
        print(f"this measures a real driver: {why}", file=sys.stderr)
        return NOT_HERE
    readings = query()
    reader, pynvmls, floor, calls = compare(3 if options.quick else options.rounds)
    shown = f"reader {1e3 * fmean(reader):.1f}, pynvml alone {1e3 * fmean(pynvmls):.1f}, C {1e3 * fmean(floor):.1f} ms"
    ratio = f"reader / C {fmean(reader) / fmean(floor):.2f}; {calls} calls of {len(readings)} GPU"
    rows = [results.Row("a reading by the reader, by pynvml and by C: CPU time on a real driver", f"{shown}; {ratio}")]
    apart = {name.removeprefix("nvmlDevice").removeprefix("Get"): t for name, t in each(20).items()}
    rows.append(results.Row("the same: each call by itself, median of 20, wall time", slowest_first(apart)))
    rows.append(results.Row("the same: each field by itself, and the energy's own call", slowest_first(alone(20))))
    driver = f"driver {next(iter(readings.values())).driver}, {results.versions('nvidia-ml-py')}"
    rows = [results.Row(row.what, row.figure, versions=driver) for row in rows]
    results.report(rows, options, section="On real GPUs")
    return 0


def compare(rounds: int) -> tuple[list[float], list[float], list[float], int]:
    """CPU seconds of each reading by the reader, by pynvml alone and from C, and how many calls C makes."""
    collect = frozenset(COLLECTED) - {"xid"}
    reader, other = (NvmlReader(interval=1.0, collect=collect) for _ in range(2))
    fields = [f"{field.number}:{field.scope}:{field.every}" for field in FIELDS if field.number not in LACKING]
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    with tempfile.TemporaryDirectory() as folder:
        floor = subprocess.Popen(
            [compile_floor(Path(folder)), *fields, *(f"m{number}" for number in METRICS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert floor.stdin is not None
        assert floor.stdout is not None
        made = 0
        for turn in range(-3, rounds):
            time.sleep(APART)
            began = time.thread_time()
            reader.read(time.time())
            read = time.thread_time() - began
            with noted() as calls:
                other.read(time.time())
            bare = again(calls)
            floor.stdin.write("\n")
            floor.stdin.flush()
            took, made = map(int, floor.stdout.readline().split())
            if turn >= 0:
                for series, value in zip(found, (read, bare, took / 1e9), strict=True):
                    series.append(value)
        floor.stdin.close()
        floor.wait()
    reader.close()
    other.close()
    return *found, made


def each(times: int) -> dict[str, float]:
    """The median wall seconds of each call that a reading makes, by its name: the longest of those with several."""
    reader = NvmlReader(interval=1.0, collect=frozenset(COLLECTED) - {"xid"})
    for _ in range(3):
        reader.read(time.time())
        time.sleep(APART)
    with noted() as calls:
        reader.read(time.time())
    found: dict[str, float] = {}
    for call, arguments in calls:
        seconds = median(_timed(call, arguments) for _ in range(times))
        answers = next(iter(arguments), None)
        name = answers.function if isinstance(answers, Answers) else call.__name__
        found[name] = max(seconds, found.get(name, 0.0))
    reader.close()
    return found


def alone(times: int) -> dict[str, float]:
    """The median wall seconds of a call for one field of the first GPU, by its name and label; and of other calls that
    tell what a field does.
    """
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        " ".join(filter(None, field.name)): (pynvml.nvmlDeviceGetFieldValues, (handle, [(field.number, field.scope)]))
        for field in FIELDS
        if field.number not in LACKING
    }
    calls["TotalEnergyConsumption"] = pynvml.nvmlDeviceGetTotalEnergyConsumption, (handle,)
    found = {name: median(_timed(*call) for _ in range(times)) for name, call in calls.items()}
    pynvml.nvmlShutdown()
    return found


def slowest_first(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {1e6 * t:.0f}" for name, t in sorted(found.items(), key=lambda one: -one[1])) + " us"


def _timed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    began = time.perf_counter()
    try:
        call(*arguments)
    except pynvml.NVMLError:
        # As it did in the reading: the GPU does not have it, or nothing is new.
        return time.perf_counter() - began
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
