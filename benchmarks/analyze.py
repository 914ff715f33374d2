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

from dutycycle_alerter.recordings.writing import RecordingWriter

REAL = Path(__file__).parent / "../../shared/data/wandb_runs.csv.gz"
RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="once instead of five times")
    runs = 1 if parser.parse_args().quick else RUNS
    with tempfile.TemporaryDirectory() as folder:
        path = REAL if REAL.exists() else made(Path(folder) / "made.csv.gz")
        figures = [measure(path) for _ in range(runs)]
    print(f"{path.name}: {figures[0][2]:,} rows, {figures[0][3]:,} jobs, {figures[0][4]:,} findings")
    times = sorted(seconds for seconds, *_ in figures)
    print(f"wall  {times[0]:.2f} s best, {times[runs // 2]:.2f} s median of {runs} (target 5 s)")
    print(f"peak  {max(megabytes for _, megabytes, *_ in figures):.0f} MB resident (target 500 MB)")


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
