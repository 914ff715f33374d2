"""`dutycycle analyze --json` as a whole, on real recordings where they are at hand, else on made ones of their size.

Target: 159,990 rows of 359 jobs in at most 5 s and 500 MB on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.results import Row, versions
from dutycycle_alerter.recordings.writing import RecordingWriter

REAL = Path(__file__).parent / "../../shared/data/wandb_runs_v2.csv.gz"
RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    results.arguments(parser)
    options = parser.parse_args()
    runs = 1 if options.quick else RUNS
    with tempfile.TemporaryDirectory() as folder:
        path = REAL if REAL.exists() else made(Path(folder) / "made.csv.gz")
        figures = [measure(path) for _ in range(runs)]
    times = sorted(seconds for seconds, *_ in figures)
    rows, jobs, found = figures[0][2:]
    figure = (
        f"{times[0]:.2f} s best, {times[runs // 2]:.2f} s median of {runs} (target 5 s);"
        f" {max(megabytes for _, megabytes, *_ in figures):.0f} MB (target 500 MB); {found:,} findings"
    )
    what = f"`dutycycle analyze --json`, {rows:,} rows of {jobs:,} {'real' if path == REAL else 'made'} jobs"
    results.report([Row(what, figure, versions=versions("numpy"))], options)


def measure(path: Path) -> tuple[float, float, int, int, int]:
    """Seconds, megabytes, rows, jobs and findings of one run of the command."""
    command = [sys.executable, "-c", "from dutycycle_alerter.cli import main; main()", "analyze", "--json", str(path)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    return seconds, usage.ru_maxrss / 1000, answer["rows"], answer["workloads"], len(answer["findings"])


def made(path: Path) -> Path:
    """360 jobs of 1 to 8 GPUs, 150 rows a GPU."""
    with RecordingWriter(path) as writer:
        for job in range(360):
            gpus = 1 + job % 8
            writer.write(
                {
                    "t": 1_700_000_000.0 + 15 * row + job * 300,
                    "node": f"n{job % 40}",
                    "gpu": str(gpu),
                    "workload": f"job/{job}",
                    "user": f"u{job % 20}",
                    "utilization_ratio": (job * 7 + gpu * 3 + row) % 101 / 100 if job % 5 else 0.0,
                    "power_watts": 300.0,
                    "processes": 1.0,
                }
                for gpu in range(gpus)
                for row in range(100)
            )
    return path


if __name__ == "__main__":
    main()
