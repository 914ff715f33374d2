"""Reads Dutycycle's recording format: CSV with a header, columns in any order (DESIGN section 5)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.recordings import cells
from dutycycle_alerter.recordings.cells import BadLineError, shown
from dutycycle_alerter.recordings.lines import Chunk, unreadable
from dutycycle_alerter.recordings.model import (
    LATEST,
    NUMBERS,
    RATIOS,
    TEXTS,
    Floats,
    Recording,
    Rows,
    Skipped,
)

COLUMNS = ("t", *TEXTS, *NUMBERS)
UNUSED = ("memory_activity_ratio", "temperature_celsius", "job_name", "kind", "group", "time_limit_s")
"""Columns of the format that no figure needs: a file with them is read without a note."""
_REQUIRED = ("t", "node", "gpu", "utilization_ratio")


def is_header(line: str) -> bool:
    """Whether this first line is the header of a recording of ours, perhaps with a fault that `read` will name."""
    names = {name.strip() for name in line.split(",")}
    return "t" in names or len(names & set(COLUMNS)) >= 2


def read(file: str, chunks: Iterable[Chunk], *, label: str) -> Recording:
    """The recording in a file. `file` names it in messages; `label` is the workload where no column says it.

    A line that cannot be read is counted and named. Raises RecordingError where the header cannot be used.
    """
    reader = _Reader(file, label)
    for chunk in chunks:
        reader.take(chunk)
    return reader.recording()


class _Reader:
    def __init__(self, file: str, label: str) -> None:
        self._file = file
        self._label = label
        self._header = ""
        self._columns: list[str] = []
        self._notes: list[str] = []
        self._skipped = Skipped()
        self._rows = Rows()

    def recording(self) -> Recording:
        if not self._columns:
            raise RecordingError(f"{self._file}: empty: not even a header")
        if "workload" not in self._columns:
            self._notes.append(f"{self._file}: no column workload: its rows are judged as one job, {self._label}")
        return self._rows.recording(self._skipped, self._notes)

    def take(self, chunk: Chunk) -> None:
        """Read a chunk: all lines at once where every one is sound, else one by one."""
        first, lines = chunk.first, chunk.lines
        if not self._columns:
            above = self._take_header(first, lines)
            first, lines = first + above, lines[above:]
        if not self._take_sound([line for line in lines if line and line != self._header], chunk.unfinished):
            self._take_singly(enumerate(lines, first), chunk.unfinished)
        if chunk.cut:
            self._skipped.add(self._file, chunk.first + len(chunk.lines), chunk.cut)

    def _take_header(self, first: int, lines: Sequence[str]) -> int:
        """Take the header if it is among the lines. Return the number of lines up to it, or of all lines."""
        for i, line in enumerate(lines):
            if line.strip():
                try:
                    self._columns = self._checked([name.strip() for name in cells.split(line)])
                except BadLineError as error:
                    raise RecordingError(f"{self._file}:{first + i}: {error}") from error
                self._header = line
                return i + 1
        return len(lines)

    def _checked(self, names: list[str]) -> list[str]:
        """The names of the columns, empty for one that is not known. Raises RecordingError."""
        for name in names:
            if name in (*COLUMNS, *UNUSED, ""):
                continue
            near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.8)
            if near:
                raise RecordingError(f"{self._file}: unknown column {shown(name)}: did you mean {near[0]!r}?")
            self._notes.append(f"{self._file}: column {shown(name)} is not known and was left out")
        for name in COLUMNS:
            if names.count(name) > 1:
                raise RecordingError(f"{self._file}: column {name!r} is there {names.count(name)} times")
        missing = [name for name in _REQUIRED if name not in names]
        if missing:
            raise RecordingError(f"{self._file}: no column {', '.join(missing)} in its header")
        return [name if name in COLUMNS else "" for name in names]

    def _take_sound(self, lines: Sequence[str], unfinished: bool) -> bool:
        if not lines:
            return True
        if unfinished or any(map(unreadable, lines)):
            return False
        columns = cells.table(lines, len(self._columns))
        return columns is not None and self._add(columns)

    def _add(self, columns: Sequence[Sequence[str]]) -> bool:
        """Add rows, by column, that are all sound; False, and nothing added, where one is not."""
        by_name = {name: values for name, values in zip(self._columns, columns, strict=True) if name}
        numbers: dict[str, Floats] = {}
        for name in ("t", *NUMBERS):
            if name in by_name:
                column = cells.column(by_name[name])
                if column is None or not _in_range(name, column):
                    return False
                numbers[name] = column
        t = numbers.pop("t")
        texts = {name: by_name[name] for name in TEXTS if name in by_name}
        if not all(map(str.strip, texts["gpu"])) and not all(map(str.strip, texts.get("gpu_uuid", texts["gpu"]))):
            return False
        if "workload" not in texts:
            texts["workload"] = [self._label] * len(t)
        self._rows.extend(t, texts, numbers)
        return True

    def _take_singly(self, lines: Iterable[tuple[int, str]], unfinished: bool) -> None:
        good: list[list[str]] = []
        for number, line in lines:
            try:
                row = self._row(line, unfinished=unfinished)
            except BadLineError as error:
                self._skipped.add(self._file, number, str(error))
                continue
            if row:
                good.append(row)
        if good and not self._add(list(zip(*good, strict=True))):
            raise AssertionError("rows that were checked one by one do not add up")

    def _row(self, line: str, *, unfinished: bool) -> list[str]:
        """The checked cells of a line; empty for a blank line or a repeated header. Raises BadLineError."""
        if reason := unreadable(line):
            raise BadLineError(reason)
        row = [cell.strip() for cell in cells.split(line)]
        if not any(row) or row == [cell.strip() for cell in self._header.split(",")]:
            return []
        if len(row) != len(self._columns):
            raise BadLineError(f"{len(row)} cells, the header has {len(self._columns)}")
        if unfinished:
            row[-1] = self._last_cell(row[-1])
        by_name = dict(zip(self._columns, row, strict=True))
        _check(by_name)
        return row

    def _last_cell(self, cell: str) -> str:
        """The last cell of a line without end: it may be cut, so it counts only where it cannot be."""
        name = self._columns[-1]
        if name in TEXTS and not self._rows.seen(name, cell):
            raise BadLineError(f"the file ends within this line: {name} may be cut")
        if name in ("t", "utilization_ratio") and cell:
            raise BadLineError(f"the file ends within this line: {name} {shown(cell)} may be cut")
        return "" if name in NUMBERS else cell


def _in_range(name: str, values: Floats) -> bool:
    if name == "t":
        return bool(np.all((values > 0) & (values < LATEST)))
    known = values[~np.isnan(values)]
    return not known.size or bool(known.min() >= 0 and (name not in RATIOS or known.max() <= 1))


def _check(row: Mapping[str, str]) -> None:
    if not row["t"]:
        raise BadLineError("no t")
    cells.unix_time(row["t"])
    if not (row["gpu"] or row.get("gpu_uuid")):
        raise BadLineError("names no gpu")
    for name in NUMBERS:
        cell = row.get(name)
        if not cell:
            continue
        value = cells.number(cell)
        if value < 0 or (name in RATIOS and value > 1):
            raise BadLineError(
                f"{name} {shown(cell)} is not in 0..1" if name in RATIOS else f"{name} {cell} is below 0"
            )
