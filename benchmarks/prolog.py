"""How long the Slurm prolog and epilog take, which every job waits for.

    python benchmarks/prolog.py                  # 200 runs each, on nodes of 1, 8 and 16 GPUs

The driver's files under /proc are copies on a disk: what a real driver takes to write them comes on top. There is a
settings file, which costs a process more than none. `bash` that does nothing is the floor. On a machine that does much
else, CPU time is the figure to compare.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.slurm.exporters import driver_information

SLURM = Path(__file__).resolve().parent.parent / "manifests/slurm"
GPUS = (1, 8, 16)
TARGET = 0.050
"""Seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--runs", type=int, help="of each, at each number of GPUs (200)")
    asked = parser.parse_args()
    runs = asked.runs or (20 if asked.quick else 200)
    print(f"{'':10}{'GPUs':>6}{'CPU p50 ms':>12}{'p50 ms':>9}{'p99 ms':>9}{'worst ms':>10}")
    worst = 0.0
    for gpus in GPUS:
        with tempfile.TemporaryDirectory() as folder:
            settings = node(Path(folder), gpus)
            commands = {
                "bash": ["/bin/bash", "-p", "-c", "exit 0"],
                "prolog": [str(SLURM / "prolog.d/dutycycle.sh"), str(settings)],
                "epilog": [str(SLURM / "epilog.d/dutycycle.sh"), str(settings)],
            }
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
            for job in range(1, runs + 1):
                for name, command in commands.items():
                    taken[name].append(timed(command, job, gpus))
        for name, pairs in taken.items():
            wall, cpu = (sorted(seconds) for seconds in zip(*pairs, strict=True))
            p99 = wall[int(runs * 0.99)]
            figures = ((statistics.median(cpu), 12), (statistics.median(wall), 9), (p99, 9), (wall[-1], 10))
            print(f"{name:10}{gpus:6}" + "".join(f"{1000 * seconds:{width}.1f}" for seconds, width in figures))
            if name == "prolog":
                worst = max(worst, p99)
    print(f"prolog p99 at most {1000 * TARGET:.0f} ms: {'yes' if worst < TARGET else 'NO'}")


def node(folder: Path, gpus: int) -> Path:
    """A node's files; the path of the prolog's settings."""
    for minor in range(gpus):
        bus_id = f"0000:{0x10 + minor:02x}:00.0"
        entry = folder / "gpus" / bus_id
        entry.mkdir(parents=True)
        uuid = f"GPU-aaaaaaaa-0000-0000-0000-{minor:012d}"
        (entry / "information").write_text(driver_information(uuid, bus_id, minor))
    settings = folder / "prolog.conf"
    settings.write_text(f"directory={folder}/run\nnvidia={folder}/gpus\nmap={folder}/no.map\n")
    settings.chmod(0o644)
    return settings


def timed(command: list[str], job: int, gpus: int) -> tuple[float, float]:
    """Wall and CPU seconds of one run, its child processes included."""
    environment = {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_UID": "1000",
        "SLURM_JOB_GPUS": ",".join(map(str, range(gpus))),
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_ACCOUNT": "physics",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_NODELIST": "n[001-128]",
    }
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


if __name__ == "__main__":
    main()
