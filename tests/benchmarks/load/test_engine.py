"""What a sample takes on disk is told by full blocks: the first ends early, and has an index like the others'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.load.engine import blocks, of_full


def write(data: Path, name: str, samples: int, series: int, *, chunks: int, index: int) -> None:
    """A block as Prometheus leaves it, of so many bytes beside what says of itself."""
    (data / name / "chunks").mkdir(parents=True)
    (data / name / "chunks" / "000001").write_bytes(bytes(chunks))
    (data / name / "index").write_bytes(bytes(index))
    stats = {"numSamples": samples, "numSeries": series, "numChunks": series}
    (data / name / "meta.json").write_text(json.dumps({"ulid": name, "stats": stats}))


def test_a_block_that_ended_early_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "01A", 33 * 840, 840, chunks=100_000, index=180_000)
    write(tmp_path, "01B", 480 * 840, 840, chunks=1_000_000, index=180_000)
    write(tmp_path, "01C", 470 * 840, 840, chunks=1_000_000, index=180_000)
    (tmp_path / "wal").mkdir()
    found = of_full(blocks(tmp_path), 480)
    assert (found.blocks, found.samples) == (2, 950 * 840)
    assert found.chunks == pytest.approx(2_000_000 / (950 * 840))
    assert found.whole == pytest.approx(2_360_000 / (950 * 840), rel=0.001)


def test_where_no_block_is_full_nothing_is_told(tmp_path: Path) -> None:
    write(tmp_path, "01A", 300 * 840, 840, chunks=1_000_000, index=180_000)
    with pytest.raises(RuntimeError, match=r"no block is full, of 480 scrapes: 252,000 samples of 840 series"):
        of_full(blocks(tmp_path), 480)
