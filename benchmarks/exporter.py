"""The exporter as processes on a node of 1, 8 and 16 GPUs: what a scrape and a snapshot take, and how big it gets.

The figures of one run can be compared with each other, whatever else the machine does: ratios to the first node's are
printed beside them. Its NVML is the test double, whose calls return at once: what a real driver takes for them comes on
top. Each GPU has a Slurm job with one process. Needs gcc.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.exporter.daemon import Daemon, eventually
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Steps
from tests.fakes.nvml.compiler import Libraries, build

SIZES = (1, 8, 16)
SCRAPES = 300
INTERVAL = 5.0
"""Seconds between snapshots: the default."""
WATCH = 60.0
"""Seconds over which both processes are watched, without a scrape."""
TURNS = 6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder) / "nvml")
        first: dict[str, float] = {}
        for gpus in SIZES:
            figures = measure(Path(folder) / f"node{gpus}", libraries, gpus)
            first = first or figures
            print(f"{gpus} GPUs")
            for name, value in figures.items():
                print(f"  {name:<40} {value:>10.3f}   x {value / first[name]:.1f}")


def measure(folder: Path, libraries: Libraries, gpus: int) -> dict[str, float]:
    """The figures of one node, each with its unit."""
    with ExitStack() as stack:
        node = stack.enter_context(FakeNode(folder / "fake", libraries, gpus=gpus))
        jobs = {gpu: node.slurm_job(1000 + gpu, {gpu: Steps(period=2, duty=0.6)}) for gpu in range(gpus)}
        allocate(folder / "prolog", {node.driver.gpus[gpu].uuid: 1000 + gpu for gpu in jobs})
        node.start()
        paths = [f"--path.{name}={path}" for name, path in node.paths.items()]
        daemon = stack.enter_context(Daemon(folder, node.environment, *paths, f"--sample-interval={INTERVAL:g}s"))
        eventually(lambda: len(daemon.values("workload_gpu_busy_seconds_total")) == gpus, "every job is shown")
        child = eventually(daemon.child, "the child runs")
        pids = (daemon.process.pid, child)
        before, started, turns = [cpu_seconds(pid) for pid in pids], time.monotonic(), []
        time.sleep(WATCH)
        background = [
            (cpu_seconds(pid) - cpu) / (time.monotonic() - started) for pid, cpu in zip(pids, before, strict=True)
        ]
        for _ in range(TURNS):
            time.sleep(INTERVAL)
            turns += daemon.values("dutycycle_exporter_collector_duration_seconds", collector="nvml")
        cpu = cpu_seconds(daemon.process.pid)
        times, size = zip(*(scrape(daemon.port) for _ in range(SCRAPES)), strict=True)
        cpu = (cpu_seconds(daemon.process.pid) - cpu) / SCRAPES
        percentiles = quantiles(times, n=100)
        return {
            "a scrape, kB": size[-1] / 1e3,
            f"scrape, p50 of {SCRAPES}, ms": percentiles[49] * 1e3,
            f"scrape, p99 of {SCRAPES}, ms": percentiles[98] * 1e3,
            "scrape, CPU time, ms": cpu * 1e3,
            f"snapshot in the child, median of {TURNS}, ms": median(turns) * 1e3,
            f"snapshot in the child, longest of {TURNS}, ms": max(turns) * 1e3,
            "exporter, CPU without scrapes, % of a core": background[0] * 100,
            "child, CPU, % of a core": background[1] * 100,
            "exporter, resident, MB": memory(pids[0], "Rss"),
            "exporter, its share of it (PSS), MB": memory(pids[0], "Pss"),
            "child, resident, MB": memory(pids[1], "Rss"),
            "child, its share of it (PSS), MB": memory(pids[1], "Pss"),
        }


def allocate(directory: Path, jobs: dict[str, int]) -> None:
    """The files that a Slurm prolog writes, one for each GPU."""
    directory.mkdir(mode=0o755)
    for uuid, job in jobs.items():
        path = directory / f"{uuid}.json"
        path.write_text(json.dumps({"job_id": job, "uid": 1000, "user": "ada", "start": time.time()}))
        path.chmod(0o644)


def scrape(port: int) -> tuple[float, int]:
    """Seconds and bytes of one, over a connection of its own."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    seconds = time.perf_counter() - start
    assert response.status == 200
    return seconds, len(text)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, to the kernel's tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, kind: str) -> float:
    """Megabytes that a process has now: Rss, or Pss, in which what processes share is divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) * 1024 / 1e6


if __name__ == "__main__":
    main()
