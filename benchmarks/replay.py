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

from benchmarks import results
from benchmarks.analyze import REAL, made
from benchmarks.exporters.cost import cpu_seconds, memory
from benchmarks.interruptible import run_until_interrupted
from benchmarks.results import Row
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
    results.arguments(parser)
    options = parser.parse_args()
    watched = WATCH / 5 if options.quick else WATCH
    with tempfile.TemporaryDirectory() as folder:
        path = REAL if REAL.exists() else made(Path(folder) / "made.csv.gz")
        with gzip.open(path, "rt", newline="") as file:
            counts = Counter(row["node"] for row in csv.DictReader(file))
        [(node, rows)] = counts.most_common(1)
        answer = subprocess.run(
            [sys.executable, "-c", OPEN, str(path), node], check=True, capture_output=True, text=True
        ).stdout
        seconds, megabytes = map(float, answer.split())
        opened = Row(
            f"`--replay` of {counts.total():,} {'real' if path == REAL else 'made'} rows: until the first of its"
            " biggest node is played",
            f"{seconds:.2f} s; {megabytes:.0f} MB resident with {rows:,} rows (`ReplayReader` alone)",
        )
        results.report([opened, play(Path(folder), watched)], options)


def play(folder: Path, watched: float) -> Row:
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
        told = [
            f"{name} {(cpu_seconds(pid) - was) / passed:.1%} of a core and {memory([pid]).resident:.0f} MB"
            for name, pid, was in zip(("exporter", "its child"), pids, before, strict=True)
        ]
    return Row(f"`--replay` of the bundled recording at {SPEED} times its speed, over {watched:g} s", ", ".join(told))


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
