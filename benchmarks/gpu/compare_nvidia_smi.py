"""The exporter's figures beside nvidia-smi's, on the same seconds, from real GPUs.

    python -m benchmarks.gpu.compare_nvidia_smi --seconds 60                          # whatever runs on the GPUs now
    python -m benchmarks.gpu.workloads pulsed --step 1.7 --duty 0.5 --seconds 90 &   # something to look at
    python -m benchmarks.gpu.compare_nvidia_smi --seconds 60

Starts an exporter of its own. One line a second and GPU, then the means: ours of counters over the whole time (busy /
observed, energy / time), nvidia-smi's of what it said once a second. It sees a single phase of a load whose period is
just a second: hence the period of the example. Needs a GPU; exits with 77 where there is none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.gpu.nvidia_smi import Reading, absent, query
from benchmarks.interruptible import run_until_interrupted
from tests.exporter.daemon import Daemon

NAMES = (
    "gpu_utilization_ratio",
    "gpu_busy_seconds_total",
    "gpu_observed_seconds_total",
    "gpu_memory_used_bytes",
    "gpu_power_watts",
    "gpu_energy_joules_total",
)


@dataclass(frozen=True)
class Second:
    """One GPU at one time: what each of the two says. `ours` is by metric name."""

    t: float
    theirs: Reading
    ours: dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.compare_nvidia_smi")
    parser.add_argument("--seconds", type=int, default=60)
    results.arguments(parser)
    arguments = parser.parse_args()
    if why := absent():
        print(f"this compares figures of real GPUs: {why}", file=sys.stderr)
        return NOT_HERE
    seconds = watch(min(10, arguments.seconds) if arguments.quick else arguments.seconds)
    rows = [row for uuid, series in seconds.items() for row in summary(uuid, series)]
    results.report(rows, arguments, section="On real GPUs")
    return 0


def watch(length: int) -> dict[str, list[Second]]:
    """Both figures once a second, by GPU."""
    found: defaultdict[str, list[Second]] = defaultdict(list)
    flags = ("--sample-interval=1s", "--series-hold=1s")
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), {}, *flags) as exporter:
        print("  second  gpu        nvidia-smi: util  memory    power   exporter: util  memory    power")
        for second in range(length):
            time.sleep(max(0.0, 1.0 - time.time() % 1.0))
            theirs = query()
            t = time.time()
            ours = figures(exporter.get("/metrics")[1])
            for uuid, reading in theirs.items():
                one = Second(t, reading, ours.get(uuid, {}))
                found[uuid].append(one)
                print(f"{second:8}  {uuid[:10]}  {line(one)}")
    return found


def figures(metrics: str) -> dict[str, dict[str, float]]:
    """The device series of a scrape, by UUID and name."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in NAMES:
                found[sample.labels["gpu_uuid"]][sample.name] = sample.value
    return found


def line(second: Second) -> str:
    theirs, ours = second.theirs, second.ours
    left = f"{shown(theirs.utilization, 100)} % {shown(theirs.memory_used, 2**-20)} MiB {shown(theirs.power)} W"
    right = (
        f"{shown(ours.get('gpu_utilization_ratio'), 100)} % {shown(ours.get('gpu_memory_used_bytes'), 2**-20)} MiB"
        f" {shown(ours.get('gpu_power_watts'))} W"
    )
    return f"{left:>34}   {right:>34}"


def shown(value: float | None, factor: float = 1.0) -> str:
    return "      -" if value is None else f"{value * factor:7.1f}"


def summary(uuid: str, series: list[Second]) -> list[results.Row]:
    """Means over the whole time, and by how much they differ."""
    first, last = series[0], series[-1]
    print(f"\n{first.theirs.name} {uuid}, driver {first.theirs.driver}, {len(series)} seconds")
    busy, observed, energy = (
        growth(first, last, name)
        for name in ("gpu_busy_seconds_total", "gpu_observed_seconds_total", "gpu_energy_joules_total")
    )
    found = {}
    theirs = [one.theirs.utilization for one in series if one.theirs.utilization is not None]
    if busy is not None and observed and theirs:
        ours = busy / observed
        found["utilization"] = (
            f"{100 * ours:.2f} %, {100 * fmean(theirs):.2f} % ({100 * (ours - fmean(theirs)):+.2f} points)"
        )
    power = [one.theirs.power for one in series if one.theirs.power is not None]
    if energy is not None and power:
        ours = energy / (last.t - first.t)
        found["power by the energy counter"] = (
            f"{ours:.1f} W, {fmean(power):.1f} W ({100 * (ours / fmean(power) - 1):+.1f} %)"
        )
    memory = [
        abs(one.ours["gpu_memory_used_bytes"] - one.theirs.memory_used) / 2**20
        for one in series
        if one.theirs.memory_used is not None and "gpu_memory_used_bytes" in one.ours
    ]
    if memory:
        found["memory"] = f"differs by {max(memory):.1f} MiB at most (a sample of ours is up to a second older)"
    what = "whatever ran, exporter and nvidia-smi once a second"
    return [
        results.Row(f"{what}: {name}", figure, versions=f"driver {first.theirs.driver}")
        for name, figure in found.items()
    ]


def growth(first: Second, last: Second, name: str) -> float | None:
    if name not in first.ours or name not in last.ours:
        return None
    return last.ours[name] - first.ours[name]


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
