"""What a benchmark found, for people and for RESULTS.md: one row a figure, with the day, the machine and the versions.

    parser = argparse.ArgumentParser(...)
    results.arguments(parser)
    ...
    results.report([Row("a scrape of 8 GPUs, p50", "3.7 ms", versions=versions("prometheus-client"))], arguments)

`report` prints the rows as a table and writes them into benchmarks/RESULTS.md, where a row of the same machine, command
and subject takes the place of the older one. Nothing is written with `--quick` (its figures say little) or
`--no-record`. A machine is one letter there, and what it is stands at the top of the file. So that the next run's row
finds the older one, a subject has no counts in it: those belong to the figure.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

FILE = Path(__file__).resolve().parent / "RESULTS.md"
HEADER = ("date", "machine", "versions", "what", "figure", "by")
SECTIONS = ("Measured figures", "Fleet in a box", "Real runs", "Chaos", "Soak", "Fuzz", "On real GPUs")
_WHERE = ("--resume", "--keep", "--out", "--judge")
_AGAIN = ("--no-record", "--score", "--late", "--show")
_CHANGED = "-dirty"
_MACHINE = re.compile(r"^Machine ([A-Z]): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One finding: what was measured, the figure in words with its unit, and what measured it (this program, if empty).

    `versions` are those of the parts that the figure depends on; `ours` is that of Dutycycle, if not today's, and `day`
    (year-month-day) the one on which it was measured.
    """

    what: str
    figure: str
    by: str = ""
    versions: str = ""
    ours: str = ""
    day: str = ""


@dataclass(frozen=True)
class Provenance:
    """Of which run figures are that are told later, as its rows in RESULTS.md say it: `by` the command, `commit` that
    of ours, `parts` the versions of what else was played with, `day` year-month-day. All empty: nobody knows.
    """

    by: str = ""
    commit: str = ""
    parts: str = ""
    machine: str = ""
    day: str = ""

    @property
    def counts(self) -> bool:
        """Whether a row may be made of it long afterwards: it says whose figures it has, and they say something."""
        return bool(self.commit) and "--quick" not in self.by.split()

    def stamped(self, row: Row, also: str = "") -> Row:
        """The row as that of this run; `also` is what its version says besides."""
        by = f"`{self.by}`" if self.by else ""
        return replace(row, by=by, versions=self.parts, ours=f"{self.commit}{also}", day=self.day)


class ResultsError(Exception):
    """RESULTS.md cannot be written: which file, and why."""


def arguments(parser: argparse.ArgumentParser, *, quick: bool = True) -> None:
    """What every benchmark's command line has."""
    if quick:
        parser.add_argument(
            "--quick", action="store_true", help="that it works; its figures say little and are not kept"
        )
    parser.add_argument("--no-record", action="store_true", help="leave benchmarks/RESULTS.md as it is")


def report(rows: Sequence[Row], options: argparse.Namespace, *, section: str = SECTIONS[0], machine: str = "") -> None:
    """Print the rows, and write them into RESULTS.md unless the command line says otherwise. `machine` describes
    another one than this. Raises ResultsError.
    """
    rows = [replace(row, by=row.by or f"`{program()}`") for row in rows]
    show(("what", "figure"), [(row.what, row.figure) for row in rows])
    if not (getattr(options, "quick", False) or options.no_record):
        record(rows, section=section, machine=machine)
        print(f"written to {FILE.relative_to(FILE.parent.parent)}: {len(rows)} rows", file=sys.stderr)


def show(header: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """A table on stdout, as wide as the terminal; None is a dash."""
    table = Table(*header, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    # A file or a pipe has no width of its own: whole lines are worth more there than a frame that fits.
    console = Console(markup=False) if sys.stdout.isatty() else Console(width=240, markup=False)
    console.print(table)


def record(rows: Iterable[Row], *, section: str = SECTIONS[0], file: Path = FILE, machine: str = "") -> None:
    """Write rows into the section's table. `machine` describes another one than this. Raises ResultsError."""
    machine = machine or describe_machine()
    own = ours()
    try:
        with _locked(file.parent):
            text, letter = _with_machine(file.read_text(), machine)
            for row in rows:
                known = ", ".join(filter(None, (row.versions, row.ours or own)))
                text = _with_row(text, section, (row.day or today(), letter, known, row.what, row.figure, row.by), file)
            _replace(file, text)
    except OSError as error:
        raise ResultsError(f"{file}: {error.strerror}") from error


def measured(section: str, *, file: Path = FILE, machine: str = "") -> set[tuple[str, str]]:
    """(what, by) of the section's rows that were measured on this machine, of what is committed here now. None where
    something was changed since: whether that matters nobody knows.
    """
    own, text = ours(), file.read_text()
    letters = {found[1] for found in _MACHINE.finditer(text) if found[2] == (machine or describe_machine())}
    lines = text.split("\n")
    if own.endswith(_CHANGED) or not any(_heads(line, section) for line in lines):
        return set()
    begin, end = _table(lines, section, file)
    rows = [_cells(line) for line in lines[begin + 2 : end]]
    return {(row[3], row[5]) for row in rows if row[1] in letters and own in row[2].split(", ") and "**" not in row[4]}


def program() -> str:
    """How this program was started, as a reader would start it: without the interpreter's options, and without those
    that only say where things are kept, or that show again what was played before.
    """
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word == "-m":
            shown = _module(next(words))
            break
        if word in {"-W", "-X"}:
            next(words)
        elif not word.startswith("-"):
            path, root = Path(word).resolve(), FILE.parent.parent
            shown = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
            break
    else:
        shown = "python"
    return " ".join((shown, *_telling(words)))


def _telling(words: Iterator[str]) -> Iterator[str]:
    """A command's words that another machine's reader can use; of a path elsewhere the name alone."""
    for word in words:
        option, equals, value = word.partition("=")
        if option in _WHERE and not equals:
            next(words, None)
        elif option not in _AGAIN and option not in _WHERE:
            yield f"{option}={_name(value)}" if equals else _name(word)


def _name(word: str) -> str:
    path, root = Path(word), FILE.parent.parent
    if not path.is_absolute():
        return word
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name


def _module(name: str) -> str:
    """A module that is a script, too, has one name however it was started."""
    script = Path(*name.split(".")).with_suffix(".py")
    return str(script) if name.count(".") == 1 and (FILE.parent.parent / script).is_file() else f"python -m {name}"


def versions(*distributions: str) -> str:
    """Installed versions, for a row: `numpy 2.4.6, msgspec 0.22.0`."""
    found = []
    for name in distributions:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def provenance(*parts: str) -> Provenance:
    """Of a run that begins here and now, with parts of these versions (an empty one is none)."""
    return Provenance(program(), ours(), ", ".join(filter(None, parts)), describe_machine(), today())


def today() -> str:
    """A row's date."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def ours() -> str:
    """Dutycycle's own: the commit, and whether anything was changed since; where there is no git, the version."""
    root = FILE.parent.parent
    try:
        commit = _git("-C", str(root), "describe", "--always", "--exclude=*")
        # The rows of the runs before are no change of what is measured.
        changed = _git("-C", str(root), "status", "--porcelain", "-uno", "--", ".", f":!{FILE.relative_to(root)}")
    except (OSError, subprocess.SubprocessError):
        return versions("dutycycle")
    return f"dutycycle {commit}{_CHANGED if changed else ''}"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def command_version(command: str, argument: str = "--version") -> str:
    """`Prometheus 2.42.0` of a command that says so; empty where it cannot be started."""
    try:
        done = subprocess.run([command, argument], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return ""
    said = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return f"{Path(command).name.capitalize()} {said[0]}" if said else ""


def describe_machine() -> str:
    """This machine in words: cores, memory, system, Python, GPUs."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release()
    name = " ".join(filter(None, (system.get("NAME", "Linux").split()[0], system.get("VERSION_ID", ""))))
    python = platform.python_version()
    return f"{cores} cores of {_processor()}, {memory:.0f} GiB of memory, {name}, Python {python}, {_gpus()}"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return re.sub(r"\s+", " ", found[1]).strip() if found else platform.machine()


def _gpus() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "no GPU"
    names = done.stdout.split("\n")[:-1]
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "no GPU"


def _with_machine(text: str, description: str) -> tuple[str, str]:
    """The text with the machine in its list, and the machine's letter."""
    known = {found[2]: found for found in _MACHINE.finditer(text)}
    if description in known:
        return text, known[description][1]
    taken = {found[1] for found in known.values()}
    letter = next(letter for letter in string.ascii_uppercase if letter not in taken)
    line = f"Machine {letter}: {description}"
    if not known:
        at = text.index("\n| ")
        return f"{text[:at]}\n{line}\n{text[at:]}", letter
    last = max(found.end() for found in known.values())
    return f"{text[:last]}\n\n{line}{text[last:]}", letter


def _with_row(text: str, section: str, cells: tuple[str, ...], file: Path) -> str:
    """The text with one row more, or with another in its place."""
    lines = text.split("\n")
    if not any(_heads(line, section) for line in lines):
        if section not in SECTIONS:
            raise ResultsError(f"{file}: there is no section {section!r}: one of {', '.join(SECTIONS)}")
        lines += [f"## {section}", "", _line(HEADER), "|---" * len(HEADER) + "|", ""]
    table, end = _table(lines, section, file)
    new = tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    same = [i for i in range(table + 2, end) if _same(_cells(lines[i]), new)]
    if same:
        lines[same[0]] = _line(new)
    else:
        lines.insert(end, _line(new))
    return "\n".join(lines)


def _heads(line: str, section: str) -> bool:
    return re.fullmatch(rf"#+ {re.escape(section)}", line) is not None


def _table(lines: Sequence[str], section: str, file: Path) -> tuple[int, int]:
    """Where the section's table begins, with its header, and where it ends. Raises ResultsError."""
    begin = next(i for i, line in enumerate(lines) if _heads(line, section))
    table = next((i for i in range(begin, len(lines)) if lines[i] == _line(HEADER)), None)
    if table is None:
        raise ResultsError(f"{file}: section {section!r} has no table headed {_line(HEADER)}")
    return table, next(i for i in range(table, len(lines) + 1) if i == len(lines) or not lines[i].startswith("|"))


def _same(old: Sequence[str], new: Sequence[str]) -> bool:
    """Of the same subject and command, on the same machine or not measured yet."""
    return len(old) == len(new) and old[1] in {"", new[1]} and (old[3], old[5]) == (new[3], new[5])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two benchmarks may end at the same time."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, text: str) -> None:
    """Whole or not at all: a benchmark may be killed."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".results-", delete=False) as fresh:
        fresh.write(text)
    Path(fresh.name).chmod(0o644)
    Path(fresh.name).replace(file)
