"""What a snapshot costs: the reader beside the same NVML calls made from C, in turns, on the NVML double.

    python benchmarks/nvml_floor.py              # 1, 8 and 16 GPUs, and 8 GPUs in 7 MIG instances each
    python benchmarks/nvml_floor.py --call 100   # the same, with calls that take 100 microseconds each

The double's calls return in a microsecond or less, so that the ratio is that of Python to C: those of a driver take
from some microseconds to some milliseconds, which both pay alike. Needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pynvml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dutycycle_exporter.collected import COLLECTED  # noqa: E402
from dutycycle_exporter.nvml import NvmlReader  # noqa: E402
from dutycycle_exporter.nvml.fields import FIELDS  # noqa: E402
from tests.fakes.clock import FakeClock  # noqa: E402
from tests.fakes.nvml import Driver, GpuProcess, Level, Libraries, Load, build  # noqa: E402

ABI = ROOT / "tests" / "fakes" / "nvml" / "src"
NODES = ((1, 0), (8, 0), (16, 0), (8, 7))
METRICS = (1, 2, 3, 5, 7, 9, 6, 10, 11, 12, 13, 20, 21, 60, 61)


def compile_floor(folder: Path) -> Path:
    program = folder / "nvml_floor"
    source = Path(__file__).with_suffix(".c")
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", f"-I{ABI}"]
    subprocess.run([*command, "-o", str(program), str(source), "-ldl"], check=True)
    return program


def bind(libraries: Libraries, driver: Driver) -> None:
    """Has pynvml in this process use the double."""
    os.environ["NVML_DOUBLE_STATE"] = driver.environment["NVML_DOUBLE_STATE"]
    pynvml.nvmlLib = ctypes.CDLL(str(libraries.directory / "libnvidia-ml.so.1"))


def populate(driver: Driver, gpus: int, instances: int) -> None:
    for gpu in range(gpus):
        driver.add_gpu()
        if instances:
            driver.set_mig(gpu, ["1g.10gb"] * instances)
    for gpu in range(gpus):
        for place in range(instances or 1):
            pid = 1000 + 10 * gpu + place
            where = (gpu, place) if instances else gpu
            driver.run(f"job-{pid}", {where: Load(Level(0.6), [GpuProcess(pid, 2**30)])})


def measure(
    folder: Path, libraries: Libraries, program: Path, gpus: int, instances: int, rounds: int, call_us: float
) -> tuple[float, float, float, float]:
    """Medians in microseconds of a snapshot (floor, reader, reader and what it sends), and NVML's calls in one."""
    clock = FakeClock()
    with Driver(folder / f"{gpus}-{instances}", libraries, clock=clock) as driver:
        populate(driver, gpus, instances)
        bind(libraries, driver)
        reader = NvmlReader(interval=5.0, collect=frozenset(COLLECTED) - {"xid"})
        fields = [f"{field.number}:{field.scope}" for field in FIELDS if field.number not in {29, 30, 31, 202, 204}]
        floor = subprocess.Popen(
            [program, *fields, *(f"m{number}" for number in METRICS)],
            env={**os.environ, **driver.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert floor.stdin is not None
        assert floor.stdout is not None
        costs: list[tuple[float, float, float]] = []
        calls: list[int] = []
        for turn in range(rounds + 3):
            if turn == 3 and call_us:
                driver.slow("ANY", call_us / 1e6)
            clock.advance(5)
            driver.step()
            before = sum(driver.state.called().values())
            began = time.perf_counter()
            snapshot = reader.read(clock.now)
            read = time.perf_counter()
            pickle.dumps(snapshot, protocol=5)
            sent = time.perf_counter()
            made = sum(driver.state.called().values()) - before
            floor.stdin.write("\n")
            floor.stdin.flush()
            in_c = int(floor.stdout.readline().split()[0]) / 1e3
            same = sum(driver.state.called().values()) - before - made
            # Every twelfth turn the reader asks the GPUs who they are: that belongs to its cost, and not to C's.
            if turn >= 3:
                costs.append((in_c, (read - began) * 1e6, (sent - began) * 1e6))
                calls.append(made)
                assert made >= same > 0.9 * min(calls), f"C makes {same} calls, the reader {made}"
        floor.stdin.close()
        floor.wait()
        driver.heal("ANY")
        reader.close()
    in_c, read, sent = (median(column) for column in zip(*costs, strict=True))
    return in_c, read, sent, median(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--call", type=float, default=0.0, help="microseconds that every call takes beside")
    options = parser.parse_args()
    titles = ("node", "calls", "C (us)", "reader (us)", "ratio", "and sent (us)", "% at 5 s")
    print(" ".join(f"{title:>13}" for title in titles))
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder) / "nvml")
        program = compile_floor(Path(folder))
        for gpus, instances in NODES:
            floor, reader, sent, calls = measure(
                Path(folder), libraries, program, gpus, instances, options.rounds, options.call
            )
            name = f"{gpus} x {instances}" if instances else str(gpus)
            figures = (f"{calls:.0f}", f"{floor:.0f}", f"{reader:.0f}", f"{reader / floor:.1f}", f"{sent:.0f}")
            print(" ".join(f"{figure:>13}" for figure in (name, *figures, f"{sent / 5e4:.3f}")))


if __name__ == "__main__":
    main()
