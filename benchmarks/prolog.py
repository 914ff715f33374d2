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

from benchmarks import results
from benchmarks.results import Row, command_version
from tests.slurm.exporters import driver_information

SLURM = Path(__file__).resolve().parent.parent / "manifests/slurm"
GPUS = (1, 8, 16)
TARGET = 0.050
"""Seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--runs", type=int, help="of each, at each number of GPUs (200)")
    asked = parser.parse_args()
    runs = asked.runs or (20 if asked.quick else 200)
    lines: list[tuple[str, int, float, float, float, float]] = []
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
            figures = (statistics.median(cpu), statistics.median(wall), wall[int(runs * 0.99)], wall[-1])
            lines.append((name, gpus, *(1000 * seconds for seconds in figures)))
    shown = [(name, gpus, *(f"{one:.1f}" for one in figures)) for name, gpus, *figures in lines]
    results.show(("", "GPUs", "CPU p50, ms", "p50, ms", "p99, ms", "worst, ms"), shown)
    results.report([row(name, lines, runs) for name in ("bash", "prolog", "epilog")], asked)


def row(name: str, lines: list[tuple[str, int, float, float, float, float]], runs: int) -> Row:
    """p50, p99, worst and CPU of one of them, by GPUs."""
    of = [line for line in lines if line[0] == name]
    nodes = ", ".join(str(line[1]) for line in of)
    told = "; ".join(f"{p50:.1f}, {p99:.1f}, {worst:.1f}" for *_, p50, p99, worst in of)
    figure = f"{told} ms; of CPU {', '.join(f'{line[2]:.1f}' for line in of)} ms"
    if name == "prolog":
        met = max(line[4] for line in of) < 1000 * TARGET
        figure += f" (target {1000 * TARGET:.0f} ms by p99: {'met' if met else '**not met**'})"
    subject = "a `bash` that does nothing" if name == "bash" else f"the Slurm {name} with a settings file"
    what = f"{subject}, {runs} runs each on nodes of {nodes} GPUs: p50, p99 and worst of a run"
    return Row(what, figure, versions=command_version("bash"))


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
