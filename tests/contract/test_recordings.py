"""A recording means the same to both who read it: `dutycycle analyze` and the exporter's --replay."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter import recordings
from dutycycle_alerter.recordings import format as recording_format
from dutycycle_alerter.recordings.model import RATIOS
from dutycycle_alerter.recordings.tracks import tracks
from dutycycle_exporter.replay import recording as replayed


def test_both_know_the_same_columns() -> None:
    assert {*recording_format.COLUMNS, *recording_format.UNUSED} == replayed._KNOWN
    assert recording_format._REQUIRED == replayed._REQUIRED


def test_both_hold_the_same_columns_for_shares() -> None:
    assert set(RATIOS) == {*replayed._RATIOS, *replayed._NOT_PLAYED}


GAPS = st.lists(st.sampled_from([1, 5, 10, 11, 60, 3600]), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["", "slurm/1", "slurm/2"]), st.sampled_from("01"), GAPS), max_size=5))
def test_a_row_stands_for_the_same_time_to_both(
    tmp_path_factory: pytest.TempPathFactory, series: list[tuple[str, str, list[int]]]
) -> None:
    path = tmp_path_factory.mktemp("recording") / "job.csv"
    series = [("slurm/1", "0", [10, 10, 25]), *series]
    write(path, series)
    read = recordings.load([path])
    analyzed = {(track.workload, track.gpu.index): track.lengths.tolist() for track in tracks(read).tracks}
    played = {
        (one.workload, one.gpu): [end - start for start, end in zip(one.starts, one.ends, strict=True)]
        for one in replayed.read(path, "n1").series
        if one.workload
    }
    assert played == analyzed


def write(path: Path, series: list[tuple[str, str, list[int]]]) -> None:
    """Rows of (workload, GPU) at these distances, latest first; a pair that comes again has more rows."""
    lines = []
    for workload, gpu, gaps in series:
        t = 1_700_000_000
        for gap in (0, *gaps):
            t += gap
            lines.append(f"{t},n1,{gpu},{workload},0.5")
    path.write_text("\n".join(["t,node,gpu,workload,utilization_ratio", *reversed(lines)]) + "\n")
