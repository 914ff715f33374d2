"""Recordings given to `--replay`."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import example
from hypothesis import strategies as st

from dutycycle_exporter.errors import ReplayError
from dutycycle_exporter.replay.reader import ReplayReader
from dutycycle_exporter.replay.recording import read
from tests.fuzz.hostile import documents, packed
from tests.fuzz.recorded import BOMB, CELLS, LINES, RECORDING, SMALL, SMI
from tests.fuzz.running import fuzz

FILES = packed(documents([RECORDING, SMALL, SMI], tokens=CELLS))
RATIOS = ("utilization_ratio", "io_pressure_ratio", "cpu_pressure_ratio")


@fuzz(content=FILES, node=st.sampled_from(["", "n1", "n2"]))
@example(content=BOMB, node="")
@example(content=LINES, node="")
def test_a_file_is_the_rows_of_a_node_or_refused(content: bytes, node: str, directory: Path) -> None:
    path = directory / "recording.csv"
    path.write_bytes(content)
    try:
        found = read(path, node)
    except ReplayError as error:
        assert str(error).startswith(str(path)), "names the file"
        return
    assert found.series
    for one in found.series:
        assert one.starts
        assert found.start <= min(one.starts)
        assert all(start <= end for start, end in zip(one.starts, one.ends, strict=True))
        assert all(math.isfinite(t) for t in (*one.starts, *one.ends))
        for name, column in one.columns.items():
            for value in column:
                assert math.isnan(value) or (math.isfinite(value) and value >= 0)
                assert name not in RATIOS or not value > 1


@fuzz(content=FILES, moments=st.lists(st.floats(-100, 1000), min_size=1, max_size=4), scale=st.floats(0.01, 1000))
def test_what_is_played_is_within_what_a_gpu_can_be(
    content: bytes, moments: list[float], scale: float, directory: Path
) -> None:
    path = directory / "recording.csv"
    path.write_bytes(content)
    try:
        reader = ReplayReader(path, node="", epoch=1_800_000_000.0, time_scale=scale)
    except ReplayError:
        return
    for moment in moments:
        snapshot = reader.read(1_800_000_000.0 + moment)
        for gpu in snapshot.gpus:
            assert gpu.utilization is None or 0 <= gpu.utilization <= 1
            assert gpu.memory_used is None or (math.isfinite(gpu.memory_used) and gpu.memory_used >= 0)
            for span in gpu.spans:
                assert span.start <= span.end
                assert 0 <= span.utilization <= 1
