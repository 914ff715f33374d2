"""A kernel that keeps as many multiprocessors as it has blocks, for as long as it is told, and says which they were.

Needs triton, which torch brings on Linux: imported only where there is a GPU.
"""

from typing import Any

import triton
import triton.language as tl

LANES = 128


@triton.jit(do_not_specialize=["turns"])
def _spin(places, values, turns, lanes: tl.constexpr):
    block = tl.program_id(0)
    lane = tl.arange(0, lanes)
    value = lane.to(tl.float32) + block
    for _ in range(turns):
        # Each needs the one before it: nothing to overlap, nothing to leave out.
        value = value * 1.0000001 + 1.0e-7
    place = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [lane], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(values + block * lanes + lane, value)
    tl.store(places + block * lanes + lane, place)


class Spinner:
    """Blocks that spin. `torch` is the module."""

    def __init__(self, torch: Any, blocks: int) -> None:
        self._torch = torch
        self._blocks = blocks
        self._places = torch.zeros(blocks * LANES, dtype=torch.int32, device="cuda")
        self._values = torch.zeros(blocks * LANES, dtype=torch.float32, device="cuda")
        self._turns_per_second = self._calibrate()

    def spin(self, seconds: float) -> None:
        """Put one kernel of about that length on the stream."""
        self._launch(max(1, round(seconds * self._turns_per_second)))

    def places(self) -> int:
        """On how many multiprocessors the last kernel's blocks lay."""
        return int(self._torch.unique(self._places).numel())

    def _launch(self, turns: int) -> None:
        _spin[(self._blocks,)](self._places, self._values, turns, lanes=LANES)

    def _calibrate(self) -> float:
        turns, rate = 100_000, 0.0
        for _ in range(8):  # until compiled, and the clocks are up
            began, ended = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            self._launch(turns)
            ended.record()
            ended.synchronize()
            rate = turns / (began.elapsed_time(ended) / 1e3)
            turns = max(100_000, round(0.05 * rate))
        return rate
