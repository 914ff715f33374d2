"""Final figures of jobs from the text of `sacct --parsable2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dutycycle_alerter.slurm.fields import Fields, Nonsense
from dutycycle_alerter.slurm.figures import FINAL
from dutycycle_alerter.slurm.gres import gpu_types_in, gpus_in, memory, parse_tres
from dutycycle_alerter.slurm.hostlist import expand
from dutycycle_alerter.slurm.jobs import MINUTE
from dutycycle_alerter.slurm.model import ExitCode, FinalFigures

COLUMNS = (
    "JobIDRaw,JobID,State,User,Account,Partition,QOS,Cluster,Submit,Start,End,ElapsedRaw,TimelimitRaw,NodeList,"
    "AllocTRES,ReqMem,ReqCPUS,ReqNodes,UserCPU,SystemCPU,MaxRSS,ExitCode"
)
"""What to ask for. Nothing that a user can write is in it: a name may hold the delimiter and the end of a line."""
DELIMITER = "\x1f"

_NONE = frozenset({"", "Unknown", "None", "N/A", "NONE", "INVALID", "None assigned", "UNLIMITED", "Partition_Limit"})
_RAW_ID = re.compile(r"([0-9]{1,18})(\..+)?", re.ASCII)
_CPU_TIME = re.compile(r"(?:(?:([0-9]{1,9})-)?([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII)
_EXIT = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)

Row = Mapping[str, str]


def columns(text: str, delimiter: str = "|") -> Iterator[Row]:
    """Rows of `sacct --parsable2`, the first of which names the columns. Raises ValueError without that."""
    lines = text.split("\n")
    names = lines[0].split(delimiter)
    if "JobIDRaw" not in names:
        raise ValueError("the first line does not name the columns")
    for line in filter(None, lines[1:]):
        cells = line.split(delimiter)
        # A row of another width is nobody's: which cell is which would be a guess.
        yield dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}


def final_figures(rows: Iterable[Row], nonsense: Nonsense) -> list[FinalFigures]:
    """Every run that is over, in the order of the rows; the rows of a run's steps follow its own."""
    runs: list[tuple[FinalFigures, list[Row]]] = []
    for row in rows:
        match = _RAW_ID.fullmatch(row.get("JobIDRaw", ""))
        if not match:
            nonsense["sacct.JobIDRaw"] += 1
        elif match[2]:
            if runs and runs[-1][0].id == int(match[1]):
                runs[-1][1].append(row)
        else:
            runs.append((_run(int(match[1]), row, nonsense), []))
    return [_with_steps(run, steps, nonsense) for run, steps in runs if _final(run)]


def _final(run: FinalFigures) -> bool:
    """Without a partition only its end has reached the database yet."""
    return run.state in FINAL and run.end is not None and bool(run.partition)


def _run(number: int, row: Row, nonsense: Nonsense) -> FinalFigures:
    fields = Fields({name: value for name, value in row.items() if value.strip() not in _NONE}, nonsense, "sacct")
    words = fields.text("State").split()
    state = words[0] if words else ""
    allocated = fields.parsed(parse_tres, "AllocTRES") or {}
    limit = fields.parsed(_plain, "TimelimitRaw")
    user, system = (fields.parsed(_cpu_seconds, name) for name in ("UserCPU", "SystemCPU"))
    return FinalFigures(
        id=number,
        state=state,
        shown_id=fields.text("JobID") or str(number),
        user=fields.text("User"),
        account=fields.text("Account"),
        partition=fields.text("Partition"),
        qos=fields.text("QOS"),
        name=fields.text("JobName"),
        cluster=fields.text("Cluster"),
        submit=fields.parsed(_time, "Submit"),
        start=fields.parsed(_time, "Start"),
        end=fields.parsed(_time, "End"),
        elapsed=fields.parsed(_plain, "ElapsedRaw"),
        limit=None if limit is None else limit * MINUTE,
        nodes=fields.parsed(expand, "NodeList") or (),
        gpus=gpus_in(allocated),
        gpu_types=gpu_types_in(allocated),
        cpus=allocated.get("cpu"),
        memory=allocated.get("mem"),
        memory_requested=_requested(fields),
        cpu_seconds=None if user is None or system is None else user + system,
        exit_code=_exit_code(fields, state),
    )


def _with_steps(run: FinalFigures, steps: Sequence[Row], nonsense: Nonsense) -> FinalFigures:
    used = [Fields(step, nonsense, "sacct").parsed(_bytes, "MaxRSS") for step in steps if step.get("MaxRSS")]
    return replace(run, max_rss=max(filter(None, used), default=None))


def _requested(fields: Fields) -> int | None:
    """Bytes in all. Until 20.11 the text ends with `c` for each CPU or `n` for each node."""
    text = fields.text("ReqMem")
    amount: int | None = fields.parsed(memory, "ReqMem")
    if amount is None or text[-1] not in "cn":
        return amount
    times = fields.parsed(_plain, "ReqCPUS" if text[-1] == "c" else "ReqNodes")
    return None if times is None else amount * int(times)


def _exit_code(fields: Fields, state: str) -> ExitCode:
    match = _EXIT.fullmatch(fields.text("ExitCode"))
    if not match:
        # A row of key=value has no cell for 0:0.
        return ExitCode(0) if state == "COMPLETED" and not fields.has("ExitCode") else ExitCode()
    return ExitCode(int(match[1]), int(match[2]) or None)


def _plain(text: str) -> float:
    if not (text.isdecimal() and text.isascii() and len(text) < 16):
        raise ValueError("not a number")
    return float(text)


def _time(text: str) -> float:
    """Unix seconds, from those or from ISO 8601 with its offset: without one it may be any hour."""
    if text.isdecimal():
        return _plain(text)
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("a time without its offset")
    seconds = instant.timestamp()
    if seconds < 0:
        raise ValueError("a time before 1970")
    return seconds


def _cpu_seconds(text: str) -> float:
    match = _CPU_TIME.fullmatch(text)
    if not match:
        raise ValueError("not a length of time")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _bytes(text: str) -> int:
    return memory(text, unit="")
