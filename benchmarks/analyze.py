"""`dutycycle analyze --json` as a whole: on real recordings, or made ones of their size; and beside pandas.

Targets on two cores: 159,990 rows of 359 jobs in 5 s and 500 MB; 5 million rows in 60 s and 1.5 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.load.watching import held
from benchmarks.results import Row, versions
from dutycycle_alerter.recordings.writing import RecordingWriter

REAL = Path(__file__).parent / "../../shared/data/wandb_runs_v2.csv.gz"
RUNS = 5
ANALYZE = "from dutycycle_alerter.cli import main; main()"
LONG = 5_000_000
GPUS = 40
PANDAS = """
import json, sys, pandas
rows = pandas.read_csv(sys.argv[1])
rows = rows.sort_values(["workload", "node", "gpu", "t"])
tracks = rows.groupby(["workload", "node", "gpu"], sort=False).t
rows["observed"] = tracks.diff().fillna(tracks.transform(lambda t: t.diff().median()))
rows["busy"] = rows.observed * rows.utilization_ratio
rows.groupby(["node", "gpu"])[["observed", "busy"]].sum()
users = rows.groupby("user")[["observed", "busy"]].sum()
print(json.dumps({"rows": len(rows), "gpu_hours": users.observed.sum() / 3600, "busy": users.busy.sum() / 3600}))
"""


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
    made_rows = [Row(what, figure, versions=versions("numpy")), long_log(LONG // 100 if options.quick else LONG)]
    results.report(made_rows, options)


def long_log(rows: int) -> Row:
    """A log whose gauges of total memory and power limit are never known, analyzed and summed by pandas."""
    with tempfile.TemporaryDirectory() as folder:
        path = steady(Path(folder) / "long.csv", rows)
        seconds, cpu, megabytes, answer = timed(["-c", ANALYZE, "analyze", "--json", str(path)])
        pandas_seconds, pandas_cpu, pandas_megabytes, sums = timed(["-c", PANDAS, str(path)])
    wasted = sums["gpu_hours"] - sums["busy"]
    if not math.isclose(answer["gpu_hours"], sums["gpu_hours"], rel_tol=1e-6) or not math.isclose(
        answer["wasted_gpu_hours"], wasted, rel_tol=1e-6
    ):
        raise SystemExit(f"analyze found other sums than pandas: {answer['gpu_hours']} and {sums['gpu_hours']} hours")
    figure = (
        f"{seconds:.1f} s, {cpu:.1f} s of CPU, {megabytes:.0f} MB (target 60 s, 1,500 MB); pandas, sums by GPU and user"
        f" alone: {pandas_seconds:.1f} s, {pandas_cpu:.1f} s of CPU, {pandas_megabytes:.0f} MB; the same"
        f" {sums['gpu_hours']:,.1f} GPU-hours"
    )
    what = f"`dutycycle analyze --json` beside pandas, {answer['rows']:,} rows of {GPUS} GPUs at 5 s"
    return Row(what, figure, versions=versions("numpy", "pandas"))


def steady(path: Path, rows: int) -> Path:
    """GPUS GPUs of ten jobs and five users, a row every 5 s."""
    gpus = [f",n{gpu // 8},{gpu % 8},job{gpu // 4},u{gpu // 8}," for gpu in range(GPUS)]
    with path.open("w") as file:
        file.write("t,node,gpu,workload,user,utilization_ratio,memory_used_bytes\n")
        for i in range(rows // GPUS):
            t = 1_700_000_000 + 5 * i
            busy = 0.0 if i // 1000 % 5 == 0 else (i * 7 % 101) / 100
            file.write("".join(f"{t}{gpu}{busy},20000000000\n" for gpu in gpus))
    return path


def measure(path: Path) -> tuple[float, float, int, int, int]:
    """Seconds, megabytes, rows, jobs and findings of one run of the command."""
    seconds, _, megabytes, answer = timed(["-c", ANALYZE, "analyze", "--json", str(path)])
    return seconds, megabytes, answer["rows"], answer["workloads"], len(answer["findings"])


def timed(arguments: list[str]) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds, CPU seconds, megabytes and answer of one run of Python. Megabytes are the most that the process and its
    workers held together, as sampled twice a second, and at least the most that the process ever held alone.
    """
    start, together, ended = time.perf_counter(), [0.0], threading.Event()

    def sample(pid: int) -> None:
        while not ended.wait(0.5):
            together.append(sum(one.share for member in family(pid) if (one := held(member))))

    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        sampler = threading.Thread(target=sample, args=(process.pid,))
        sampler.start()
        answer = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        sampler.join()
    return seconds, usage.ru_utime + usage.ru_stime, max(*together, usage.ru_maxrss * 1024 / 1e6), answer


def family(pid: int) -> list[int]:
    """A process and its children."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *map(int, children)]


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
