"""Files given to `analyze` and `backtest`: recordings of ours, logs of nvidia-smi, and whatever else was meant."""

from __future__ import annotations

import csv
import io
import math
import re
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from dutycycle_alerter import recordings
from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.recordings.model import RATIOS
from dutycycle_alerter.recordings.tracks import tracks
from dutycycle_alerter.recordings.writing import line
from tests.fuzz.hostile import documents, packed
from tests.fuzz.recorded import BOMB, CELLS, LINES, RECORDING, SMALL, SMI, SMI_BARE, SMI_CELLS
from tests.fuzz.running import fuzz

ZONES = st.sampled_from([UTC, ZoneInfo("Europe/Oslo")])


def read(content: bytes, directory: Path, zone: object, fields: tuple[str, ...] = ()) -> recordings.Recording | None:
    """The recording, checked for what holds of every one; None where it was refused."""
    path = directory / "recording.csv"
    path.write_bytes(content)
    try:
        found = recordings.load([path], timezone=zone, fields=fields)  # type: ignore[arg-type]
    except RecordingError as error:
        assert str(path) in str(error) or "--fields" in str(error), "names the file, or the option"
        return None
    assert np.isfinite(found.t).all()
    assert ((found.t > 0) & (found.t < 2**33)).all()
    for text in found.texts.values():
        assert len(text.codes) == len(found)
        assert not len(found) or 0 <= text.codes.min() <= text.codes.max() < len(text.names)
    for name, column in found.numbers.items():
        known = column[~np.isnan(column)]
        assert len(column) == len(found)
        assert np.isfinite(known).all()
        assert (known >= 0).all()
        assert name not in RATIOS or (known <= 1).all()
    tracks(found)
    return found


_NOTHING = re.compile(r'\s*(?:"\s*")?\s*')


def lines_of(content: bytes) -> int:
    """Those with a cell that is not empty: of a row without one, as spreadsheets write it, there is nothing to lose."""
    lines = content.decode("utf-8", "replace").split("\n")
    return sum(not all(map(_NOTHING.fullmatch, one.split(","))) for one in lines)


def cells_of(line: str) -> list[str]:
    """What is in a line's cells, which may be quoted and have spaces around them."""
    return [cell.strip() for cell in next(csv.reader([line.replace("\r", " ")]), [])]


@fuzz(content=packed(documents([RECORDING, SMALL], tokens=CELLS)), zone=ZONES)
@example(content=RECORDING.replace(b",processes", b"\r,processes", 1) + RECORDING, zone=UTC)
@example(content=BOMB, zone=UTC)
@example(content=LINES, zone=UTC)
@example(content=RECORDING + b',,"",,\n', zone=UTC)
def test_a_file_is_rows_and_lines_that_were_skipped_or_refused(content: bytes, zone: object, directory: Path) -> None:
    found = read(content, directory, zone)
    if found is not None and content.startswith(b"t,") and content.isascii():
        header, *others = (cells_of(line) for line in content.decode().split("\n"))
        repeated = 1 + others.count(header)
        assert len(found) + found.skipped.count == lines_of(content) - repeated, "no line is lost"


@fuzz(content=packed(documents([SMI, SMI_BARE], tokens=SMI_CELLS)), zone=ZONES)
@example(content=BOMB, zone=UTC)
@example(
    content=SMI + b"2023/03/14 07:52:16.453, 0, GPU-a, NVIDIA H200, 1 %, 1 MiB, 1 MiB, " + 50_000 * b"a" + b"?",
    zone=UTC,
)
@example(content=b"timestamp, utilization.gpu [MiB]\n2023/03/14 07:52:06.453, 82\n", zone=UTC)
def test_a_log_of_nvidia_smi_is_rows_and_lines_that_were_skipped_or_refused(
    content: bytes, zone: object, directory: Path
) -> None:
    found = read(content, directory, zone)
    if found is not None and content.startswith(b"timestamp,") and content.isascii():
        assert len(found) + found.skipped.count <= lines_of(content)


FIELDS = ("timestamp", "index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total", "power.draw")


@fuzz(content=documents([SMI.split(b"\n", 1)[1]], tokens=SMI_CELLS), fields=st.permutations(FIELDS))
def test_a_log_without_a_header_is_read_by_the_fields_that_were_given(
    content: bytes, fields: list[str], directory: Path
) -> None:
    read(content, directory, UTC, tuple(fields))


NUMBER = st.none() | st.floats(0, 1)


@fuzz(
    rows=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), NUMBER, NUMBER), min_size=1, max_size=5),
    pressed=st.booleans(),
)
def test_what_is_recorded_is_read_as_it_was(
    rows: list[tuple[str, str, float | None, float | None]], pressed: bool, directory: Path
) -> None:
    written = [
        {"t": 1_700_000_000.0 + i, "node": "n1", "gpu": "0", "user": user, "workload": workload}
        | {"utilization_ratio": utilization, "sm_active_ratio": active}
        for i, (user, workload, utilization, active) in enumerate(rows)
    ]
    texts = [line(row) for row in written]
    assert all(text.count("\n") == 1 for text in texts)
    header = line(dict(zip(_columns(), _columns(), strict=True)))
    found = read((header + "".join(texts)).encode(), directory, UTC)
    assert found is not None
    assert not found.skipped.count
    for name in ("utilization_ratio", "sm_active_ratio"):
        told = found.numbers.get(name, np.full(len(rows), math.nan))
        assert [None if math.isnan(value) else value for value in told] == [row[name] for row in written]


def _columns() -> tuple[str, ...]:
    from dutycycle_alerter.recordings.writing import COLUMNS

    return tuple(next(csv.reader(io.StringIO(",".join(COLUMNS)))))
