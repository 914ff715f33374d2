"""A small training run on a real GPU: starved by its loader, fed, or pulsed. To be recorded while it runs.

    dutycycle-exporter --attribution.local &
    dutycycle record --from http://127.0.0.1:9836/metrics --out starved.csv.gz &
    python -m benchmarks.gpu.training starved --seconds 2400

- `starved`: before every step one process decompresses the step's samples, as a DataLoader without workers does, for
  as long as it takes to leave the GPU `--duty` of the time (0.17). The CPU is busy throughout, the GPU waits.
- `fed`: the same steps on samples that already lie on the GPU: above 90 %.
- `pulsed`: work and sleep in turn, for comparisons with a known duty cycle.

Every ten seconds it prints the share of time for which it knows the GPU to have computed: its own truth, from waiting
for every step to end. Needs torch and a CUDA device and exits with 2 where there is none (`--device cpu` only tries the
script out).
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

WIDTH = 4096
SAMPLE = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.training")
    parser.add_argument("mode", choices=("starved", "fed", "pulsed"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--step", type=float, default=2.0, help="seconds of a step with its wait")
    parser.add_argument("--duty", type=float, default=0.17, help="share of it that is computed; not when fed")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    try:
        import torch  # noqa: PLC0415 - only where it is installed
    except ImportError:
        print("this trains with torch, which is not installed here: pip install torch", file=sys.stderr)
        return 2
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("this trains on a CUDA device, and torch finds none: it needs an NVIDIA GPU and driver", file=sys.stderr)
        return 2
    if not 0 < arguments.duty < 1:
        parser.error("--duty lies between 0 and 1")
    train(torch, arguments)
    return 0


def train(torch: Any, arguments: argparse.Namespace) -> None:
    torch.manual_seed(1)
    computing = arguments.step * (1.0 if arguments.mode == "fed" else arguments.duty)
    batch = torch.randn(WIDTH, WIDTH, device=arguments.device, dtype=torch.bfloat16)
    step = stepper(torch, arguments.device)
    passes = calibrate(step, batch, computing)
    wait = waiter(torch, arguments, arguments.step - computing)
    print(f"{arguments.mode}: steps of {arguments.step:g} s, {passes} passes each", flush=True)
    start = shown = time.monotonic()
    busy = 0.0
    for number in itertools.count(1):
        samples = wait()
        if samples is not None:
            batch[: samples.shape[0], : samples.shape[1]] = samples
        began = time.monotonic()
        step(batch, passes)
        now = time.monotonic()
        busy += now - began
        if now - shown >= 10 or now - start >= arguments.seconds:
            print(f"{now - start:8.1f} s  {number} steps  computed {100 * busy / (now - start):5.1f} %", flush=True)
            shown = now
        if now - start >= arguments.seconds:
            return


def stepper(torch: Any, device: str) -> Callable[[Any, int], None]:
    """Forward, backward and update of two layers, so many times; returns when the device is done."""
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH)).to(
        device=device, dtype=torch.bfloat16
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step(batch: Any, passes: int) -> None:
        for _ in range(passes):
            optimizer.zero_grad(set_to_none=True)
            model(batch).float().square().mean().backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def calibrate(step: Callable[[Any, int], None], batch: Any, seconds: float) -> int:
    """How many passes take that long on this device."""
    step(batch, 3)  # compiles and allocates
    passes = 1
    while True:
        began = time.monotonic()
        step(batch, passes)
        took = time.monotonic() - began
        if took >= min(0.2, seconds):
            return max(1, round(passes * seconds / took))
        passes *= 2


def waiter(torch: Any, arguments: argparse.Namespace, seconds: float) -> Callable[[], Any]:
    """What happens between two steps: samples are decoded for so long, or nothing."""
    if arguments.mode == "fed":
        return lambda: None
    if arguments.mode == "pulsed":
        return lambda: time.sleep(seconds)
    packed = zlib.compress(random.Random(1).randbytes(SAMPLE // 2) * 2, 1)

    def load() -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            sample = zlib.decompress(packed)
        return (
            torch.frombuffer(bytearray(sample), dtype=torch.uint8).reshape(-1, WIDTH)[:WIDTH].to(arguments.device) / 255
        )

    return load


if __name__ == "__main__":
    sys.exit(main())
