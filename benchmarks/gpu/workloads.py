"""Programs on a real GPU whose mechanism is known: fed, starved, launch-bound, memory-bound, spinning, idle, pulsed.

    python -m benchmarks.gpu.workloads fed --seconds 60
    python -m benchmarks.gpu.workloads starved --step 2 --duty 0.17 --seconds 2400
    python -m benchmarks.gpu.workloads narrow --multiprocessors 33 --duty 0.6

- `fed`: steps of training on samples that lie on the GPU.
- `starved`: before every step one process decompresses the step's samples, as a DataLoader without workers does, for as
  long as it takes to leave the GPU `--duty` of the time (0.17). The CPU is busy throughout, the GPU waits.
- `launch-bound`: steps of a model so small that its kernels take less time than their launches.
- `memory-bound`: sums of vectors of 4 GiB: all multiprocessors wait for the memory.
- `spinning`: a kernel of one block that computes nothing of use, one after the other, as keep-alives do.
- `idle`: holds memory and does nothing.
- `pulsed`: work and sleep in turn, by the wall clock: two of them at different `--phase` never work at once.
- `narrow`: the same on `--multiprocessors` of the GPU's.

It writes a JSON object a second: `t`, and up to then `steps` and `busy`, the seconds for which its kernels were on the
GPU, by CUDA events. The first one says that it has begun. Needs torch and a CUDA device; exits with 77 where there is
none.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

from benchmarks.exits import NOT_HERE
from benchmarks.gpu.truth import Residency, kernels_by_profiler, seconds_in_a_graph

WIDTH = 4096
SAMPLE = 2**20
BURST = 0.05
"""Seconds of kernels between two looks at the clock, where a workload does not say otherwise."""


class Progress:
    """What a program tells of itself, and until when it runs."""

    def __init__(self, torch: Any, seconds: float) -> None:
        self.residency = Residency(torch)
        self.facts: dict[str, float] = {}
        """More that is known of the program, told with every line."""
        self._seconds = seconds
        self._end = 0.0
        self._steps = 0
        self._shown = 0.0

    def begin(self) -> None:
        """All is compiled and allocated: from here on it counts."""
        self.residency.seconds = 0.0
        self._end = time.monotonic() + self._seconds
        self._tell()

    def goes_on(self) -> bool:
        return time.monotonic() < self._end

    def step(self, steps: int = 1) -> None:
        self._steps += steps
        if time.monotonic() - self._shown >= 1 or not self.goes_on():
            self._tell()

    def _tell(self) -> None:
        self._shown = time.monotonic()
        told = {"t": time.time(), "steps": self._steps, "busy": self.residency.seconds, **self.facts}
        print(json.dumps(told), flush=True)


def training(torch: Any) -> Callable[[int], None]:
    """Forward, backward and update of two wide layers, so many times; it does not wait for the GPU."""
    torch.manual_seed(1)
    layers = torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH)
    model = torch.nn.Sequential(*layers).to(device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step(passes: int) -> None:
        for _ in range(passes):
            optimizer.zero_grad(set_to_none=True)
            model(batch).float().square().mean().backward()
            optimizer.step()

    return step


def sums(torch: Any, length: int) -> Callable[[int], None]:
    """Sums of two vectors of so many bf16, so many times, which wait for the GPU's memory alone."""
    one, other, total = (torch.rand(length, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def step(passes: int) -> None:
        for _ in range(passes):
            torch.add(one, other, out=total)

    return step


def small_training(torch: Any) -> Callable[[], None]:
    """One step of a model of many small layers, as written: about a hundred kernels of microseconds."""
    torch.manual_seed(1)
    layers = [part for _ in range(8) for part in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False)
    batch = torch.randn(32, 128, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def calibrate(torch: Any, step: Callable[[int], None], seconds: float) -> int:
    """How many passes take that long on this GPU."""
    passes = 4
    step(passes)  # compiles and allocates
    while True:
        residency = Residency(torch)
        with residency.burst():
            step(passes)
        if residency.seconds >= min(0.5, seconds):
            return max(1, round(passes * seconds / residency.seconds))
        passes *= 2


def fed(torch: Any, progress: Progress, _options: argparse.Namespace) -> None:
    step = training(torch)
    passes = calibrate(torch, step, BURST)
    progress.begin()
    while progress.goes_on():
        with progress.residency.burst():
            step(passes)
        progress.step()


def starved(torch: Any, progress: Progress, options: argparse.Namespace) -> None:
    step = training(torch)
    passes = calibrate(torch, step, options.step * options.duty)
    packed = zlib.compress(random.Random(1).randbytes(SAMPLE // 2) * 2, 1)
    progress.begin()
    while progress.goes_on():
        due = time.monotonic() + options.step * (1 - options.duty)
        while time.monotonic() < due:
            sample = zlib.decompress(packed)
        torch.frombuffer(bytearray(sample), dtype=torch.uint8).to("cuda")
        with progress.residency.burst():
            step(passes)
        progress.step()


def launch_bound(torch: Any, progress: Progress, _options: argparse.Namespace) -> None:
    """Events around single kernels would take longer than these: they are timed where nothing launches them."""
    step = small_training(torch)
    in_graph = seconds_in_a_graph(torch, small_training(torch))
    for _ in range(50):
        step()
    by_profiler, kernels = kernels_by_profiler(torch, step)
    progress.facts = {"step_in_graph": in_graph, "step_by_profiler": by_profiler, "kernels": kernels}
    progress.begin()
    while progress.goes_on():
        for _ in range(100):
            step()
        torch.cuda.synchronize()
        progress.residency.seconds += 100 * in_graph
        progress.step(100)


def memory_bound(torch: Any, progress: Progress, _options: argparse.Namespace) -> None:
    length, passes = 2**31, 20
    step = sums(torch, length)
    step(1)
    # Two are read and one is written, of two bytes each.
    progress.facts = {"bytes_per_step": float(passes * 3 * length * 2)}
    progress.begin()
    while progress.goes_on():
        with progress.residency.burst():
            step(passes)
        progress.step()


def spinning(torch: Any, progress: Progress, _options: argparse.Namespace) -> None:
    spinner = _spinner(torch, progress, 1)
    progress.begin()
    while progress.goes_on():
        with progress.residency.burst():
            for _ in range(10):
                spinner.spin(BURST)
        progress.step()


def idle(torch: Any, progress: Progress, _options: argparse.Namespace) -> None:
    held = torch.ones(2**31, device="cuda")
    torch.cuda.synchronize()
    progress.facts = {"held": float(held.numel() * held.element_size())}
    progress.begin()
    while progress.goes_on():
        time.sleep(0.5)
        progress.step(0)


def pulsed(torch: Any, progress: Progress, options: argparse.Namespace) -> None:
    step = training(torch)
    passes = calibrate(torch, step, options.step * options.duty)
    _pulse(progress, options, lambda: step(passes))


def narrow(torch: Any, progress: Progress, options: argparse.Namespace) -> None:
    spinner = _spinner(torch, progress, options.multiprocessors)
    _pulse(progress, options, lambda: spinner.spin(options.step * options.duty))


def _spinner(torch: Any, progress: Progress, blocks: int) -> Any:
    from benchmarks.gpu.kernels import Spinner  # noqa: PLC0415 - needs triton

    spinner = Spinner(torch, blocks)
    progress.facts = {
        "multiprocessors": float(spinner.places()),
        "multiprocessors_in_all": float(torch.cuda.get_device_properties(0).multi_processor_count),
    }
    return spinner


def _pulse(progress: Progress, options: argparse.Namespace, burst: Callable[[], None]) -> None:
    """A burst in each step of the wall clock, `--phase` after its begin."""
    progress.begin()
    while progress.goes_on():
        wait = (options.phase - time.time()) % options.step
        time.sleep(min(wait, 0.5))
        if wait > 0.5:
            continue
        with progress.residency.burst():
            burst()
        progress.step()


LOOPS: dict[str, Callable[[Any, Progress, argparse.Namespace], None]] = {
    "fed": fed,
    "starved": starved,
    "launch-bound": launch_bound,
    "memory-bound": memory_bound,
    "spinning": spinning,
    "idle": idle,
    "pulsed": pulsed,
    "narrow": narrow,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.workloads")
    parser.add_argument("workload", choices=tuple(LOOPS))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--step", type=float, default=1.0, help="seconds of a step with its wait: starved, pulsed, narrow"
    )
    parser.add_argument("--duty", type=float, default=0.17, help="share of it that is computed")
    parser.add_argument("--phase", type=float, default=0.0, help="seconds after the step's begin: pulsed, narrow")
    parser.add_argument("--multiprocessors", type=int, default=1, help="of narrow")
    options = parser.parse_args()
    if not 0 < options.duty < 1:
        parser.error("--duty lies between 0 and 1")
    try:
        import torch  # noqa: PLC0415 - only where it is installed
    except ImportError:
        print("this computes with torch, which is not installed here: pip install torch", file=sys.stderr)
        return NOT_HERE
    if not torch.cuda.is_available():
        print("this needs a CUDA device, and torch finds none: it needs an NVIDIA GPU and driver", file=sys.stderr)
        return NOT_HERE
    LOOPS[options.workload](torch, Progress(torch, options.seconds), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
