"""Reads the rows that one node has in a recording (DESIGN section 5), for `--replay`.

A recording is played or refused: a line that cannot be read is an error that names it, for a replay that leaves out
what it does not understand would show holes that never were. Only the end of a file may be missing: a recorder that
was killed leaves one without the end of its last line, and of its compression.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import math
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from dutycycle_exporter.errors import ReplayError

_TEXTS = ("model", "scheduler", "user", "account")
_RATIOS = ("utilization_ratio", "io_pressure_ratio", "cpu_pressure_ratio")
_AMOUNTS = (
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "power_limit_watts",
    "processes",
    "cpu_cores",
    "cpu_limit_cores",
    # A gap counts whole in the row in which it ends, which may be shorter than the gap.
    "idle_gap_lt2_ratio",
    "idle_gap_2to30_ratio",
)
_NUMBERS = (*_RATIOS, *_AMOUNTS)
_REQUIRED = ("t", "node", "gpu", "utilization_ratio")
_NOT_PLAYED = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")
_UNUSED = ("memory_activity_ratio", "temperature_celsius", "job_name", "kind", "group", "time_limit_s")
_KNOWN = {*_REQUIRED, "gpu_uuid", "workload", *_TEXTS, *_NUMBERS, *_NOT_PLAYED, *_UNUSED}

MOST_PROCESSES = 4096
"""Processes that a row may have on one GPU."""

_LONGEST_LINE = 2**16
_LATEST = float(2**33)
_GZIP = b"\x1f\x8b"
# float() reads more than a recording may contain: nan, inf, 1_000, digits of other scripts.
_FOREIGN = re.compile(r"[^0-9.eE+-]")
# A row stands for the time since the row before it, at most this many median gaps of the rows around it.
_LATE = 1.5
# Rows on each side of a row whose gaps make that median.
_AROUND = 5

Column = Sequence[float]


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one workload on one GPU, by time. `workload` is empty for a GPU that nobody held.

    Row i stands for (starts[i], ends[i]], Unix seconds of the recording; rows do not overlap. `columns` has NaN where
    a cell is empty and leaves out a column that the file does not have.
    """

    workload: str
    gpu: str
    gpu_uuid: str
    texts: Mapping[str, str]
    starts: Column
    ends: Column
    columns: Mapping[str, Column]

    @property
    def key(self) -> str:
        """Tells the GPUs of a node apart: by UUID, else by name."""
        return self.gpu_uuid or f"gpu {self.gpu}"

    def column(self, name: str) -> Column:
        """A column of numbers; NaN throughout where the file does not have it."""
        found = self.columns.get(name)
        return array("d", [math.nan]) * len(self.ends) if found is None else found


@dataclass(frozen=True, slots=True)
class Recording:
    """What one node has in a file. `start` is where the earliest row of the whole file begins, of any node."""

    node: str
    start: float
    series: tuple[Series, ...]


def read(path: Path, node: str) -> Recording:
    """The rows of `node`; empty means the only one that the file has. Raises ReplayError."""
    reader = _Reader(path, node)
    with closing(_lines(path)) as lines:
        for number, line in lines:
            try:
                reader.take(line)
            except ValueError as error:
                raise ReplayError(
                    f"{path}:{number}: {error}; correct or delete this line"
                    " (`dutycycle analyze` names every line that cannot be read)"
                ) from error
    return reader.recording()


def _lines(path: Path) -> Generator[tuple[int, str], None, None]:
    """Complete lines and their numbers, of a plain or a gzip file. Raises ReplayError."""
    number = 0
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP else raw as stream:
            while line := stream.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise ReplayError(
                        f"{path}:{number}: longer than {_LONGEST_LINE} bytes, so this is no recording;"
                        " give the CSV that `dutycycle record` writes"
                    )
                if not line.endswith(b"\n"):
                    return
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
    except UnicodeDecodeError as error:
        raise ReplayError(f"{path}:{number}: not UTF-8 text; save the recording as UTF-8") from error
    except EOFError:
        return
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ReplayError(
            f"{path}:{number + 1}: the compressed data is damaged ({error}); unpack what `zcat` can read and play that"
        ) from error
    except OSError as error:
        raise ReplayError(f"{path}: cannot be read: {error.strerror or error}; give a file that can") from error


@dataclass(slots=True)
class _Rows:
    """The rows of one series as they come."""

    workload: str
    gpu: str
    gpu_uuid: str
    columns: dict[str, array[float]]
    t: array[float] = field(default_factory=lambda: array("d"))
    texts: dict[str, tuple[float, str]] = field(default_factory=dict)

    def add(self, t: float, texts: Mapping[str, str], numbers: Mapping[str, float]) -> None:
        self.t.append(t)
        for name, value in numbers.items():
            self.columns[name].append(value)
        for name, text in texts.items():
            # The earliest row's, whatever the order of rows.
            if text and (name not in self.texts or (t, text) < self.texts[name]):
                self.texts[name] = (t, text)

    def series(self) -> Series:
        order = self._order()
        ends = array("d", (self.t[i] for i in order))
        starts = array("d", (end - length for end, length in zip(ends, _lengths(ends), strict=True)))
        for i, (before, start) in enumerate(zip(ends, starts[1:], strict=False), 1):
            starts[i] = max(before, start)  # a difference of floats may lie below `before`
        return Series(
            workload=self.workload,
            gpu=self.gpu,
            gpu_uuid=self.gpu_uuid,
            texts={name: text for name, (_, text) in self.texts.items()},
            starts=starts,
            ends=ends,
            columns={name: array("d", (column[i] for i in order)) for name, column in self.columns.items()},
        )

    def _order(self) -> list[int]:
        """The places of the rows by time. Of rows with the same time one counts, the same in any order of rows."""
        times = self.t
        by_time = sorted(range(len(times)), key=times.__getitem__)
        order: list[int] = []
        for i in by_time:
            if order and times[order[-1]] == times[i]:
                order[-1] = max(order[-1], i, key=self._values)
            else:
                order.append(i)
        return order

    def _values(self, i: int) -> tuple[float, ...]:
        return tuple(-1.0 if math.isnan(column[i]) else column[i] for column in self.columns.values())


class _Reader:
    """Takes lines; of other nodes' rows it keeps the times alone."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._header = ""
        self._columns: list[str] = []
        self._rows: dict[tuple[str, str, str, str], _Rows] = {}
        self._others: defaultdict[tuple[str, str, str, str], array[float]] = defaultdict(lambda: array("d"))
        self._nodes: dict[str, None] = {}

    def take(self, line: str) -> None:
        """Raises ValueError for a line that cannot be read."""
        if not line.strip() or line == self._header:
            return
        cells = _split(line)
        if not self._columns:
            self._columns, self._header = _checked([cell.strip() for cell in cells]), line
            return
        if len(cells) != len(self._columns):
            raise ValueError(f"{len(cells)} cells, the header has {len(self._columns)}")
        self._take_row(dict(zip(self._columns, map(str.strip, cells), strict=True)))

    def _take_row(self, row: Mapping[str, str]) -> None:
        t = _number("t", row["t"])
        if math.isnan(t) or not 0 < t < _LATEST:
            raise ValueError(f"t {_shown(row['t'])} is not a time in seconds since 1970")
        node, gpu, uuid = row["node"], row["gpu"], row.get("gpu_uuid", "")
        if not gpu and not uuid:
            raise ValueError("names no gpu")
        # As `dutycycle analyze` does it: without the column the file is one job.
        workload = row.get("workload", _stem(self._path))
        self._nodes.setdefault(node)
        key = (node, workload, uuid, "" if uuid else gpu)
        if self._node and node != self._node:
            self._others[key].append(t)
            return
        numbers = {name: _number(name, row[name]) for name in _NUMBERS if name in row}
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = _Rows(workload, gpu, uuid, {name: array("d") for name in numbers})
        rows.add(t, {name: row[name] for name in _TEXTS if name in row}, numbers)

    def recording(self) -> Recording:
        """All that was taken. Raises ReplayError."""
        if not self._nodes:
            raise ReplayError(f"{self._path}: has no rows; give a recording made by `dutycycle record`")
        node = self._node
        if node not in self._nodes:
            known = ", ".join(_shown(name) for name in list(self._nodes)[:20])
            if node or len(self._nodes) > 1:
                wanted = f"no rows of node {_shown(node)}" if node else "rows of several nodes"
                raise ReplayError(f"{self._path}: has {wanted}; choose one with --replay.node: {known}")
            node = next(iter(self._nodes))
        all_series = {key: rows.series() for key, rows in sorted(self._rows.items())}
        starts = [series.starts[0] for series in all_series.values()]
        for times in self._others.values():
            first = sorted(set(times))[: _AROUND + 1]
            starts.append(first[0] - _lengths(first)[0])
        series = [series for (of_node, *_), series in all_series.items() if of_node == node]
        return Recording(node, min(starts), tuple(_in_turn(series)))


def _in_turn(series: Sequence[Series]) -> Iterator[Series]:
    """The same, but none begins before the end of another that left the same GPU within its first row."""
    by_gpu: defaultdict[str, list[Series]] = defaultdict(list)
    for one in series:
        by_gpu[one.key].append(one)
    for one in series:
        start, end = one.starts[0], one.ends[0]
        left = [other.ends[-1] for other in by_gpu[one.key] if start < other.ends[-1] < end]
        yield replace(one, starts=array("d", [max(left), *one.starts[1:]])) if left else one


def _checked(names: list[str]) -> list[str]:
    """The header's names. Raises ValueError."""
    for name in names:
        near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.8)
        if name not in _KNOWN and near:
            raise ValueError(f"unknown column {_shown(name)}: did you mean {near[0]!r}?")
        if name in _KNOWN and names.count(name) > 1:
            raise ValueError(f"column {name!r} is there {names.count(name)} times")
    missing = [name for name in _REQUIRED if name not in names]
    if missing:
        raise ValueError(f"no column {', '.join(missing)} in the header")
    return names


def _split(line: str) -> list[str]:
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from error


def _number(name: str, cell: str) -> float:
    """A number in its column's range; NaN for an empty cell. Raises ValueError."""
    if not cell:
        return math.nan
    try:
        value = math.nan if _FOREIGN.search(cell) else float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} {_shown(cell)} is not a number")
    if value < 0:
        raise ValueError(f"{name} {_shown(cell)} is below 0")
    if name in _RATIOS and value > 1:
        raise ValueError(f"{name} {_shown(cell)} is not in 0..1")
    if name == "processes" and value > MOST_PROCESSES:
        raise ValueError(f"processes {_shown(cell)} is over {MOST_PROCESSES}")
    return value


def _lengths(times: Sequence[float]) -> list[float]:
    """The seconds that each row stands for, of distinct times in order."""
    if len(times) < 2:
        return [0.0] * len(times)
    gaps = [after - before for before, after in pairwise(times)]
    medians = [median(gaps[max(0, i - _AROUND - 1) : i + _AROUND]) for i in range(len(times))]
    return [medians[0], *(min(gap, _LATE * usual) for gap, usual in zip(gaps, medians[1:], strict=True))]


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:39] + "…")


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".csv"):
        name = name.removesuffix(ending) or name
    return name
