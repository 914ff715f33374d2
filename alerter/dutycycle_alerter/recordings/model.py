"""A recording in memory: what GPUs did over time, by columns, and which lines of its files could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TEXTS = ("node", "gpu", "gpu_uuid", "model", "workload", "scheduler", "user", "account")
RATIOS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "io_pressure_ratio",
    "cpu_pressure_ratio",
)
AMOUNTS = (
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "power_limit_watts",
    "processes",
    "cpu_cores",
    "cpu_limit_cores",
    # A gap counts whole when it ends: a row may hold more seconds of gaps than it is long.
    "idle_gap_lt2_ratio",
    "idle_gap_2to30_ratio",
)
NUMBERS = (*RATIOS, *AMOUNTS)

LATEST = float(2**33)
"""Unix times lie below this (the year 2242): what is larger is not in seconds."""

NAMED = 1000
"""So many of the lines that could not be read are kept by name; the rest are counted."""


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that could not be read, and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


@dataclass(slots=True)
class Skipped:
    """Lines that could not be read: how many, and the first of them."""

    count: int = 0
    first: list[SkippedLine] = field(default_factory=list)

    def add(self, file: str, line: int, why: str) -> None:
        """Count a line, and keep its name while there is room."""
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(SkippedLine(file, line, why))


@dataclass(frozen=True, slots=True)
class Text:
    """A column of text: for each row the place of its value in `names`."""

    codes: Ints
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows of one or more files. A row is one GPU over an interval that ends at `t` (Unix seconds).

    `texts` has every column of TEXTS, empty where a file does not have it; `numbers` those of NUMBERS that any file
    has, with NaN for what is missing. `notes` are for people: what was assumed.
    """

    t: Floats
    texts: Mapping[str, Text]
    numbers: Mapping[str, Floats]
    skipped: Skipped
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.t)


class _Codes(dict[str, int]):
    """Text as it stands in a file -> the code of what it says; a new one gets the next code."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def __missing__(self, cell: str) -> int:
        code = self[cell] = self.names.setdefault(cell.strip(), len(self.names))
        return code


class Rows:
    """Collects rows, column by column and chunk by chunk, into a Recording. Text loses the space around it."""

    def __init__(self) -> None:
        self._t: list[Floats] = []
        self._codes: dict[str, list[Ints]] = {name: [] for name in TEXTS}
        self._known: dict[str, _Codes] = {name: _Codes() for name in TEXTS}
        self._numbers: dict[str, list[Floats]] = {}
        self._length = 0

    def seen(self, column: str, value: str) -> bool:
        """Whether an earlier row has this text."""
        return value.strip() in self._known[column].names

    def extend(self, t: Floats, texts: Mapping[str, Sequence[str]], numbers: Mapping[str, Floats]) -> None:
        """Add rows; all columns have the length of `t`, and those that are not given are missing."""
        size = len(t)
        for name in TEXTS:
            known = self._known[name]
            values = texts.get(name)
            if values is None:
                self._codes[name].append(np.full(size, known[""], dtype=np.int64))
            else:
                self._codes[name].append(np.fromiter(map(known.__getitem__, values), dtype=np.int64, count=size))
        for name, column in numbers.items():
            parts = self._numbers.setdefault(name, [np.full(self._length, np.nan)])
            parts.append(column)
        for name, parts in self._numbers.items():
            if name not in numbers:
                parts.append(np.full(size, np.nan))
        self._t.append(t)
        self._length += size

    def recording(self, skipped: Skipped, notes: Sequence[str] = ()) -> Recording:
        """All rows. They can be taken once: a column's chunks are freed as it is joined, to need their memory once."""
        return Recording(
            t=_joined(self._t),
            texts={name: Text(_joined_codes(self._codes.pop(name)), tuple(self._known[name].names)) for name in TEXTS},
            numbers={name: _joined(self._numbers.pop(name)) for name in list(self._numbers)},
            skipped=skipped,
            notes=tuple(notes),
        )


def join(recordings: Sequence[Recording]) -> Recording:
    """Several recordings as one fleet, in the order given."""
    if len(recordings) == 1:
        return recordings[0]
    present = dict.fromkeys(chain.from_iterable(recording.numbers for recording in recordings))
    skipped = Skipped(
        count=sum(recording.skipped.count for recording in recordings),
        first=list(chain.from_iterable(recording.skipped.first for recording in recordings))[:NAMED],
    )
    return Recording(
        t=_joined([recording.t for recording in recordings]),
        texts={name: _joined_texts([recording.texts[name] for recording in recordings]) for name in TEXTS},
        numbers={
            name: _joined([r.numbers[name] if name in r.numbers else np.full(len(r), np.nan) for r in recordings])
            for name in present
        },
        skipped=skipped,
        notes=tuple(chain.from_iterable(recording.notes for recording in recordings)),
    )


def _joined_texts(columns: Iterable[Text]) -> Text:
    known: dict[str, int] = {}
    parts: list[Ints] = []
    for column in columns:
        translated = np.array([known.setdefault(name, len(known)) for name in column.names], dtype=np.int64)
        parts.append(translated[column.codes])
    return Text(_joined_codes(parts), tuple(known))


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)


def _joined_codes(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
