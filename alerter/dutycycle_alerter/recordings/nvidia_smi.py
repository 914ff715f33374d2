"""Reads the CSV that `nvidia-smi --query-gpu=... --format=csv[,noheader][,nounits] -l N` writes.

It says nothing of owners: the file's GPUs are taken as one job, named after the file. That is right where it was
written inside a job, which is how such files are made most often.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.figures import count
from dutycycle_alerter.recordings.cells import BadLineError, number, shown
from dutycycle_alerter.recordings.clock import Clock, is_complete, looks_like_time
from dutycycle_alerter.recordings.foreign import FAILED, is_apps_header
from dutycycle_alerter.recordings.groups import in_groups, interleaved
from dutycycle_alerter.recordings.lines import LONGEST, Chunk, unreadable
from dutycycle_alerter.recordings.model import Floats, Recording, Rows, Skipped

_TEXTS = {
    "timestamp": "timestamp",
    "name": "model",
    "gpu_name": "model",
    "index": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus",
    "gpu_bus_id": "bus",
}
_NUMBERS = {
    "utilization.gpu": ("utilization_ratio", "%"),
    "memory.used": ("memory_used_bytes", "MiB"),
    "memory.total": ("memory_total_bytes", "MiB"),
    "power.draw": ("power_watts", "W"),
    "power.draw.average": ("power_watts", "W"),
    "power.draw.instant": ("power_watts", "W"),
    "power.limit": ("power_limit_watts", "W"),
}
_UNITS = {
    "%": {"%": 100.0},
    "MiB": {"B": 1.0, "KiB": 2.0**-10, "MiB": 2.0**-20, "GiB": 2.0**-30},
    "W": {"W": 1.0},
}
"""By the usual unit, what a value in each is divided by to give the base unit: 82 / 100 is exact, 82 x 0.01 is not."""
_SCALES = {unit: units for units in _UNITS.values() for unit in units}
"""The same by any unit: what it and all others of its kind are divided by."""
_IDENTITY = ("uuid", "bus", "index")

_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]*)(?: \[([^\]]*)\])?")
_VALUE = re.compile(r"(\S{1,64}?)(?: ?([A-Za-z%]{1,8}))?")
_MISSING = re.compile(r"\[[^\]]*\]|N/A|ERR!|")
_CACHED = 100_000
# What nvidia-smi writes in place of a row, or in its cells, once a GPU does not answer any more.
_LOST = re.compile(
    r"GPU is lost|GPU requires reset|fallen off the bus|Unable to determine the device handle[^,]*", re.IGNORECASE
)
# A GPU is missing whose rows end more than this many query intervals before the log does: the last query may be cut.
_ABSENT = 3
# Rows of one node are written in the order of their times, but for this much (seconds).
_SLACK = 60.0
_LOOKED_AT = 1024
_NAMED = 5

_Value = TypeVar("_Value")


def _split(line: str, fields: int) -> list[str]:
    """The cells of a line that should have so many fields (0: not known)."""
    if '"' in line:  # as CSV libraries write a cell with a decimal comma
        try:
            cells = next(csv.reader([line], delimiter=";" if ";" in line else ",", skipinitialspace=True))
        except (csv.Error, StopIteration):
            cells = line.split(",")
        return [cell.strip() for cell in cells]
    if ";" in line:  # spreadsheets write it where the comma is the decimal mark
        return [cell.strip() for cell in line.split(";")]
    cells = line.split(",")
    if len(cells) > fields > 0 and len(apart := line.split(", ")) == fields:
        cells = apart  # nvidia-smi separates by a comma and a space: a comma alone is a decimal mark
    return [cell.strip() for cell in cells]


def is_header(line: str) -> bool:
    """Whether a line is nvidia-smi's header: names of fields only, at least one of them one that we know."""
    fields = [_FIELD.fullmatch(cell) for cell in _split(line, 0)]
    names = [field[1] for field in fields if field is not None]
    return all(fields) and any(name in _TEXTS or name in _NUMBERS for name in names) and not is_apps_header(line)


def is_row(line: str) -> bool:
    """Whether a line may be a row without header: it has a timestamp, or values with nvidia-smi's units."""
    cells = _split(line, 0)
    return any(looks_like_time(cell) or cell.endswith((" %", " MiB")) for cell in cells)


def read(
    file: str, chunks: Iterable[Chunk], *, label: str, user: str, fields: Sequence[str], timezone: tzinfo | None
) -> Recording:
    """The recording in a file. `file` names it in messages, `label` names its job and its node, `user` who ran it.

    `fields` are those given to --query-gpu, for a file without header. A line that cannot be read is counted and named.
    Raises RecordingError where the whole file cannot be used.
    """
    reader = _Reader(file, label, user, timezone)
    if fields:
        reader.set_header(", ".join(fields), "--fields")
    for chunk in chunks:
        reader.take(chunk)
    return reader.recording()


class _Parsed(dict[str, _Value]):
    """Cells and their values: each is parsed once."""

    def __init__(self, parse: Callable[[str], _Value]) -> None:
        self._parse = parse

    def __missing__(self, cell: str) -> _Value:
        value = self._parse(cell)
        if len(self) < _CACHED:
            self[cell] = value
        return value


def _name(cell: str) -> str:
    """A cell of text, empty where it is missing. Raises BadLineError."""
    cell = cell.strip()
    if _LOST.search(cell):
        raise BadLineError("a GPU was lost")
    return "" if _MISSING.fullmatch(cell) else cell


def _either(first: str, second: str) -> str:
    return first or second


class _Reader:
    def __init__(self, file: str, label: str, user: str, timezone: tzinfo | None) -> None:
        self._file = file
        self._label = label
        self._user = user
        self._clock = Clock(timezone)
        self._header = ""
        self._roles: list[str] = []
        self._units: list[str] = []
        self._with_units = False
        self._skipped = Skipped()
        self._rows = Rows()
        self._models: dict[str, None] = {}
        self._unnamed: list[float] = []
        # The times of each GPU without UUID, and its name with each model and bus id.
        self._times: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._described: set[tuple[str, str, str]] = set()
        self._start = math.inf
        self._rows_of: Counter[str] = Counter()
        self._last_of: dict[str, tuple[float, str]] = {}
        self._lost: dict[str, str] = {}
        # The file may hold the output of other queries, too: how many fields these have, and why they are left out.
        self._other_fields: set[int] = set()
        self._in_other = False
        self._other_lines = 0
        self._why_other = ""
        self._parsed: dict[tuple[str, str], float] = {}
        self._numbers: dict[tuple[str, str], _Parsed[float]] = {}
        self._names = _Parsed(_name)

    def set_header(self, line: str, where: str) -> None:
        """From here on rows have these fields. Raises RecordingError where a unit is wrong.

        Where there is no timestamp or no utilization, the lines that follow belong to another query.
        """
        roles, units = [], []
        for cell in _split(line, 0):
            field = _FIELD.fullmatch(cell)
            name, unit = (field.group(1), field.group(2)) if field else ("", None)
            role, usual = _NUMBERS.get(name, (_TEXTS.get(name, ""), ""))
            if usual and unit is not None and unit not in _UNITS[usual]:
                raise RecordingError(f"{where}: {shown(cell)}: expected {name} [{usual}]")
            roles.append(role)
            units.append((unit or usual) if usual else "")
        for needed, role in (("timestamp", "timestamp"), ("utilization.gpu", "utilization_ratio")):
            if role not in roles:
                self._other_fields.add(len(roles))
                self._in_other = True
                self._why_other = self._why_other or f"{where}: no {needed}: record with --query-gpu={needed},..."
                return
        self._header, self._roles, self._units = line, roles, units
        self._in_other = False
        # What has no unit of its own is in that of the new header.
        self._parsed.clear()
        self._numbers.clear()

    def take(self, chunk: Chunk) -> None:
        """Read a chunk: by columns where every line is a sound row, else line by line."""
        if not self._take_sound(chunk):
            self._take_singly(chunk)
        if chunk.cut:
            self._skipped.add(self._file, chunk.first + len(chunk.lines), chunk.cut)

    def _take_sound(self, chunk: Chunk) -> bool:
        """Add rows that are all sound; False, and nothing added, where a line is anything else."""
        lines = [line for line in chunk.lines if line != self._header]
        if not lines or not self._roles or chunk.unfinished or self._other_fields:
            return False
        if not all(map(str.isascii, lines)) or max(map(len, lines)) > LONGEST:
            return False
        rows = [line.split(", ") for line in lines]
        if set(map(len, rows)) != {len(self._roles)}:
            return False
        texts: dict[str, list[str]] = {}
        numbers: dict[str, Floats] = {}
        try:
            for cells, role, unit in zip(zip(*rows, strict=True), self._roles, self._units, strict=True):
                if unit:
                    known = self._numbers.setdefault((role, unit), _Parsed(partial(self._cell, role, unit)))
                    column = np.fromiter(map(known.__getitem__, cells), dtype=np.float64, count=len(cells))
                    first = numbers.get(role)
                    numbers[role] = column if first is None else np.where(np.isnan(first), column, first)
                elif role == "timestamp":
                    texts.setdefault(role, list(map(str.strip, cells)))
                elif role:
                    found = list(map(self._names.__getitem__, cells))
                    first_found = texts.get(role)
                    texts[role] = found if first_found is None else list(map(_either, first_found, found))
            stamps = texts.pop("timestamp")
            if not self._named(texts):
                return False
            times = list(map(self._clock.unix, stamps))
        except BadLineError:
            return False
        self._add_sound(times, stamps, texts, numbers)
        return True

    def _named(self, texts: Mapping[str, list[str]]) -> bool:
        """Whether each row says which GPU it is of, where the fields can say it."""
        names = [texts[role] for role in _IDENTITY if role in texts]
        return not names or all(map(any, zip(*names, strict=True)))

    def _add_sound(
        self, times: list[float], stamps: list[str], texts: Mapping[str, list[str]], numbers: Mapping[str, Floats]
    ) -> None:
        none = [""] * len(times)
        models, uuids = texts.get("model", none), texts.get("uuid", none)
        if set(_IDENTITY) & set(self._roles):
            names = list(map(_either, map(_either, texts.get("index", none), texts.get("bus", none)), uuids))
            keys = list(map(_either, uuids, names))
            self._rows_of.update(keys)
            self._last_of.update(zip(keys, zip(times, stamps, strict=True), strict=True))
            if not all(uuids):
                buses = texts.get("bus", none)
                for t, name, model, bus, uuid in zip(times, names, models, buses, uuids, strict=True):
                    if not uuid:
                        self._times[name].append(t)
                        self._described.add((name, model, bus))
        else:
            names = ["0"] * len(times)
            self._unnamed += times
        self._models.update(dict.fromkeys(models))
        self._extend(times, {"model": models, "gpu": names, "gpu_uuid": uuids}, numbers)

    def _cell(self, role: str, unit: str, cell: str) -> float:
        """A cell's value, NaN where it is missing. Raises BadLineError."""
        cell = cell.strip()
        if _LOST.search(cell):
            raise BadLineError("a GPU was lost")
        return np.nan if _MISSING.fullmatch(cell) else self._number(cell, role, unit)

    def _take_singly(self, chunk: Chunk) -> None:
        times: list[float] = []
        texts: dict[str, list[str]] = {"model": [], "gpu": [], "gpu_uuid": []}
        numbers: dict[str, list[float]] = {role: [] for role, _ in _NUMBERS.values()}
        for line_number, line in enumerate(chunk.lines, chunk.first):
            if line == self._header or not line.strip():
                self._in_other = self._in_other and line != self._header
                continue
            if is_header(line) or is_apps_header(line):
                self.set_header(line, f"{self._file}:{line_number}")
                continue
            lost = _LOST.search(line) if "GPU" in line else None
            if lost:
                self._note_lost(line, lost[0], line_number)
            elif self._is_of_other(line):
                self._other_lines += 1
                continue
            try:
                t, model, gpu, uuid, values = self._row(line, unfinished=chunk.unfinished)
            except BadLineError as error:
                if not lost and len(_split(line, 0)) in self._other_fields:
                    self._other_lines += 1
                else:
                    why = f"no row: {shown(line)}" if FAILED.match(line) else str(error)
                    self._skipped.add(self._file, line_number, why)
                continue
            times.append(t)
            for name, text in (("model", model), ("gpu", gpu), ("gpu_uuid", uuid)):
                texts[name].append(text)
            for role, column in numbers.items():
                column.append(values.get(role, np.nan))
        if times:
            self._extend(times, texts, {role: np.array(column) for role, column in numbers.items()})

    def _extend(self, times: list[float], texts: Mapping[str, list[str]], columns: Mapping[str, Floats]) -> None:
        if times:
            t = np.array(times)
            self._start = min(self._start, float(t.min()))
            same = {"workload": [self._label], "node": [self._label], "user": [self._user]}
            repeated = {name: values * len(times) for name, values in same.items()}
            present = {
                role: column
                for role, column in columns.items()
                if role == "utilization_ratio" or not np.isnan(column).all()
            }
            self._rows.extend(t, {**texts, **repeated}, present)

    def recording(self) -> Recording:
        """All rows. Raises RecordingError where no header has what is needed, or GPUs cannot be told apart."""
        if not self._roles:
            raise RecordingError(self._why_other)
        for name, times in self._times.items():
            self._check_one_node(name, times)
        self._check_unnamed()
        owner = "" if self._user else ", of an unknown user (--user names one)"
        gpus = count(max(1, len(self._rows_of)), "GPU")
        note = f"{self._file}: a log of nvidia-smi; its {gpus} are judged as one job, {self._label}{owner}"
        notes = [note.replace("its 1 GPU are", "its GPU is"), *list(self._lost.values())[:_NAMED], *self._missing()]
        if self._other_lines:
            lines = count(self._other_lines, "line")
            notes.append(f"{self._file}: {lines} of other queries left out: no timestamp and utilization.gpu in them")
        return self._rows.recording(self._skipped, notes)

    def _missing(self) -> list[str]:
        """Notes on GPUs whose rows end before the others' do."""
        if not self._rows_of:
            return []
        end = max(t for t, _ in self._last_of.values())
        longest = _ABSENT * (end - self._start) / max(self._rows_of.values())
        ended = {key: stamp for key, (t, stamp) in self._last_of.items() if end - t > longest}
        return [f"{self._file}: GPU {key} has no row after {stamp}, while others have" for key, stamp in ended.items()][
            :_NAMED
        ]

    def _is_of_other(self, line: str) -> bool:
        """Whether a line below the header of another query belongs to that query.

        Two loggers that write one file give each header once: then only a row's looks tell them apart.
        """
        if not self._in_other:
            return False
        cells = _split(line, len(self._roles))
        return len(cells) != len(self._roles) or not any(
            role == "utilization_ratio" and cell.endswith("%") for cell, role in zip(cells, self._roles, strict=True)
        )

    def _note_lost(self, line: str, what: str, line_number: int) -> None:
        cells = _split(line, len(self._roles))
        named = {} if len(cells) != len(self._roles) else dict(zip(self._roles, cells, strict=True))
        names = [cell for role in reversed(_IDENTITY) if not _MISSING.fullmatch(cell := named.get(role, ""))]
        which = f"GPU {names[0]}" if names else "a GPU"
        self._lost.setdefault(
            f"{which} {what}",
            f"{self._file}:{line_number}: {which} was lost here ({what}): it has no figures until it answers again",
        )

    def _check_one_node(self, name: str, times: array[float]) -> None:
        """Raise RecordingError where a GPU without UUID has the rows of several."""
        if (
            self._several_described(name)
            or in_groups(times[:_LOOKED_AT])
            or in_groups(times[-_LOOKED_AT:])
            or _several_logs(times)
        ):
            raise RecordingError(
                f"{self._file}: rows of several GPUs are called {name}, as in logs of several nodes in one file or of"
                " two loggers: add uuid to --query-gpu, or give one file for each node"
            )

    def _several_described(self, name: str) -> bool:
        """Whether GPUs of two models, or at two places of the bus, have this name."""
        described = [others for one, *others in self._described if one == name]
        return any(len(set(filter(None, values))) > 1 for values in zip(*described, strict=True))

    def _check_unnamed(self) -> None:
        """Raise RecordingError where rows that name no GPU are of several."""
        if not self._unnamed:
            return
        remedy = "add index, uuid or pci.bus_id to --query-gpu"
        if len(self._models) > 1:
            names = ", ".join(shown(model) for model in list(self._models)[:3])
            raise RecordingError(f"{self._file}: rows of several GPUs ({names}) cannot be told apart: {remedy}")
        if in_groups(self._unnamed):
            raise RecordingError(
                f"{self._file}: its timestamps come in groups, so it has rows of several GPUs, which cannot be told"
                f" apart: {remedy}"
            )
        if _several_logs(self._unnamed):
            raise RecordingError(
                f"{self._file}: the logs of several nodes or loggers are mixed in it: add uuid to --query-gpu, or give"
                " one file for each"
            )

    def _row(self, line: str, *, unfinished: bool) -> tuple[float, str, str, str, dict[str, float]]:
        """Time, model, GPU, UUID and numbers of a line. Raises BadLineError."""
        if reason := unreadable(line):
            raise BadLineError(reason)
        cells = _split(line, len(self._roles))
        if not self._roles:
            raise BadLineError("before any header")
        if len(cells) != len(self._roles):
            kind = "ends early: " if unfinished and len(cells) < len(self._roles) else ""
            raise BadLineError(f"{kind}{len(cells)} fields, expected {len(self._roles)}")
        found: dict[str, str] = {}
        values: dict[str, float] = {}
        last = len(cells) - 1 if unfinished else -1
        for i, (cell, role, unit) in enumerate(zip(cells, self._roles, self._units, strict=True)):
            known = self._last_cell(cell) if i == last else cell
            if not role or _MISSING.fullmatch(known):
                continue
            if not unit:
                found.setdefault(role, known)
            elif role not in values:
                values[role] = self._number(known, role, unit)
        if "timestamp" not in found:
            raise BadLineError("no timestamp")
        t = self._clock.unix(found["timestamp"])
        return t, *self._gpu(found, t), values

    def _gpu(self, found: dict[str, str], t: float) -> tuple[str, str, str]:
        model, uuid = found.get("model", ""), found.get("uuid", "")
        self._models[model] = None
        if not set(_IDENTITY) & set(self._roles):
            self._unnamed.append(t)
            return model, "0", ""
        name = found.get("index") or found.get("bus") or uuid
        if not name:
            raise BadLineError("does not say which GPU")
        key = uuid or name
        self._rows_of[key] += 1
        self._last_of[key] = t, found["timestamp"]
        if not uuid:
            self._times[name].append(t)
            self._described.add((name, model, found.get("bus", "")))
        return model, name, uuid

    def _number(self, cell: str, role: str, unit: str) -> float:
        """A value in base units. Raises BadLineError."""
        key = (cell, role)
        known = self._parsed.get(key)
        if known is not None:
            return known
        match = _VALUE.fullmatch(cell)
        if match is None:
            raise BadLineError(f"{shown(cell)} is not a number")
        written, of_its_kind = match.group(2), _SCALES[unit]
        if written is not None:
            if written not in of_its_kind:
                raise BadLineError(f"{shown(cell)}: {shown(written)} is not a unit of {role}")
            self._with_units = True
        value = number(match.group(1).replace(",", ".")) / of_its_kind[written or unit]
        if value < 0 or (unit == "%" and value > 1):
            raise BadLineError(
                f"{shown(cell)} is not within 0 to 100 %" if unit == "%" else f"{shown(cell)} is below 0"
            )
        if len(self._parsed) >= _CACHED:
            self._parsed.clear()
        self._parsed[key] = value
        return value

    def _last_cell(self, cell: str) -> str:
        """The last value of a line without end: it may be cut, and counts only where it cannot be."""
        role, unit = self._roles[-1], self._units[-1]
        if not role or (cell and _MISSING.fullmatch(cell)):
            return cell
        if unit:
            match = _VALUE.fullmatch(cell)
            if match is not None and match.group(2) in _SCALES:
                return cell
            if self._with_units:
                raise BadLineError("the file ends within this line")
            if role != "utilization_ratio":
                return ""
            # A percentage cannot be longer where it is 0 or where one more digit made it more than 100.
            complete = cell == "0" or (cell.isascii() and cell.isdigit() and 11 <= int(cell) <= 100)
        elif role == "timestamp":
            complete = is_complete(cell)
        else:
            column = {"model": "model", "index": "gpu", "uuid": "gpu_uuid", "bus": "gpu"}[role]
            complete = self._rows.seen(column, cell)
        if not complete:
            raise BadLineError("the file ends within this line")
        return cell


def _several_logs(times: Sequence[float]) -> bool:
    """Whether rows of one name are those of several logs, mixed or one after the other."""
    return _overlap(np.array(times)) or interleaved(np.array(times))


def _overlap(times: Floats) -> bool:
    """Whether parts of a file, each in the order of its times, are of the same time: two logs of one name."""
    cuts = np.flatnonzero(np.diff(times) < -_SLACK) + 1
    parts = sorted((part.min(), part.max()) for part in np.split(times, cuts))
    return any(later < end - _SLACK for (_, end), (later, _) in pairwise(parts))
