"""`--replay`: how long until a big recording's first row is played, and what the bundled one takes while it plays.

The big one is real where that is at hand, else made of its size; the node with the most rows is played.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.analyze import REAL, made
from benchmarks.exporters.cost import cpu_seconds, memory
from tests.exporter.daemon import Daemon, eventually

BUNDLED = Path(__file__).resolve().parent.parent / "alerter/dutycycle_alerter/data/demo.csv.gz"
SPEED = 60
WATCH = 30.0

OPEN = """
import sys, time
from pathlib import Path
from dutycycle_exporter.replay import ReplayReader
start = time.perf_counter()
now = time.time()
reader = ReplayReader(Path(sys.argv[1]), node=sys.argv[2], epoch=now - 1, time_scale=1.0)
reader.read(now)
seconds = time.perf_counter() - start
status = Path("/proc/self/status").read_text().splitlines()
print(seconds, next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024 / 1e6)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="watched for a fifth of the time")
    watched = WATCH / 5 if parser.parse_args().quick else WATCH
    with tempfile.TemporaryDirectory() as folder:
        path = REAL if REAL.exists() else made(Path(folder) / "made.csv.gz")
        with gzip.open(path, "rt", newline="") as file:
            counts = Counter(row["node"] for row in csv.DictReader(file))
        [(node, rows)] = counts.most_common(1)
        print(f"{path.name}: {counts.total():,} rows, {rows:,} of node {node}")
        answer = subprocess.run(
            [sys.executable, "-c", OPEN, str(path), node], check=True, capture_output=True, text=True
        ).stdout
        seconds, megabytes = map(float, answer.split())
        print(f"first row {seconds:.2f} s, {megabytes:.0f} MB resident")
        play(Path(folder), watched)


def play(folder: Path, watched: float) -> None:
    """The bundled recording, in the exporter and its child, for so many seconds."""
    with gzip.open(BUNDLED, "rt", newline="") as file:
        node = next(csv.DictReader(file))["node"]
    flags = (f"--replay={BUNDLED}", f"--replay.node={node}", f"--time-scale={SPEED}")
    with Daemon(folder, {}, *flags) as daemon:
        eventually(lambda: daemon.values("gpu_busy_seconds_total"), "it plays")
        pids = (daemon.process.pid, eventually(daemon.child, "the child runs"))
        before, started = [cpu_seconds(pid) for pid in pids], time.monotonic()
        time.sleep(watched)
        passed = time.monotonic() - started
        for name, pid, was in zip(("exporter", "child"), pids, before, strict=True):
            share = (cpu_seconds(pid) - was) / passed
            print(f"{SPEED} times as fast, {name}: {share:.1%} of a core, {memory([pid]).resident:.0f} MB resident")


if __name__ == "__main__":
    main()
