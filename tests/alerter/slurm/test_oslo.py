"""A real sacct: 294 jobs of the University of Oslo, read whole. The counts here are not made by the reader."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from dutycycle_alerter.slurm import sacct
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures
from tests.required import lacking

FILE = Path(__file__).parents[3] / "../shared/data/slurm_sacct_oslo.csv"
UNIT = {"K": 2**10, "M": 2**20, "G": 2**30}


@pytest.fixture(scope="module")
def text() -> str:
    if not FILE.exists():
        lacking("the real sacct beside the repository (../shared/data)")
    return FILE.read_text()


@pytest.fixture(scope="module")
def found(text: str) -> list[FinalFigures]:
    nonsense = Nonsense()
    figures = sacct.final_figures(rows(text), nonsense)
    assert not nonsense
    return figures


def rows(text: str) -> Iterator[sacct.Row]:
    """The file has cells `Key=value`, quoted as in CSV where a value has a comma."""
    for cells in csv.reader(text.splitlines()):
        yield {name: value for name, equals, value in (cell.partition("=") for cell in cells) if equals}


def jobs(text: str) -> list[str]:
    """The lines of jobs, not of their steps."""
    return [line for line in text.splitlines() if re.search(r",JobIDRaw=\d+,", line)]


def every(pattern: str, lines: list[str]) -> list[str | None]:
    return [match[1] if (match := re.search(pattern, line)) else None for line in lines]


def test_294_jobs_of_which_84_have_a_gpu(text: str, found: list[FinalFigures]) -> None:
    lines = jobs(text)
    assert len(found) == len(lines) == 294
    gpus = [int(count or 0) for count in every(r"gres/gpu=(\d+)", lines)]
    assert [figures.gpus or 0 for figures in found] == gpus
    assert sum(count > 0 for count in gpus) == 84


def test_what_they_were(text: str, found: list[FinalFigures]) -> None:
    lines = jobs(text)
    for attribute, name in (("user", "User"), ("account", "Account"), ("partition", "Partition"), ("state", "State")):
        assert [getattr(figures, attribute) for figures in found] == every(rf",{name}=([^,\s\"]+)", lines), name
    assert [str(figures.id) for figures in found] == every(r",JobIDRaw=(\d+)", lines)
    names = [figures.nodes for figures in found]
    assert names == [(node,) if node != "None assigned" else () for node in every(r",NodeList=([^,\"]+)", lines)]
    types = Counter(kind for figures in found for kind in figures.gpu_types)
    assert types == Counter(filter(None, every(r"gres/gpu:([a-z0-9_]+)=", lines)))


def test_when_they_ran_and_for_how_long(text: str, found: list[FinalFigures]) -> None:
    lines = jobs(text)
    for attribute, name in (("submit", "Submit"), ("start", "Start"), ("end", "End")):
        times = every(rf",{name}=([^,]+)", lines)
        assert [getattr(figures, attribute) for figures in found] == [
            datetime.strptime(time or "", "%Y-%m-%dT%H:%M:%S%z").timestamp() for time in times
        ]
    elapsed = every(r",ElapsedRaw=(\d+)", lines)
    assert [figures.elapsed for figures in found] == [None if seconds is None else int(seconds) for seconds in elapsed]
    minutes = every(r",TimelimitRaw=(\d+)", lines)
    assert [figures.limit for figures in found] == [int(limit or 0) * 60 for limit in minutes]
    # What Slurm counted and what the two times say are the same.
    assert all(
        figures.end - figures.start == figures.elapsed
        for figures in found
        if figures.elapsed is not None and figures.end is not None and figures.start is not None
    )


def test_what_they_had_and_used(text: str, found: list[FinalFigures]) -> None:
    lines = jobs(text)
    cpus = every(r"[\",=]cpu=(\d+)", lines)
    assert [figures.cpus for figures in found] == [None if count is None else int(count) for count in cpus]
    for attribute, pattern in (("memory_requested", r",ReqMem=(\d+[MG])"), ("memory", r"[\",]mem=(\d+[MG])")):
        amounts = every(pattern, lines)
        assert [getattr(figures, attribute) for figures in found] == [
            None if amount is None else int(amount[:-1]) * UNIT[amount[-1]] for amount in amounts
        ]
    for figures, line in zip(found, lines, strict=True):
        spans = [seconds(span) for span in re.findall(r",(?:User|System)CPU=([0-9:.-]+)", line)]
        assert figures.cpu_seconds == (pytest.approx(sum(spans)) if len(spans) == 2 else None)
        failed = re.search(r",ExitCode=(\d+):(\d+)", line)
        # The file leaves 0:0 out, and of the one that ran out of time there is nothing.
        assert figures.exit_code.status == (int(failed[1]) if failed else 0 if "State=COMPLETED" in line else None)


def seconds(span: str) -> float:
    days, _, rest = span.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


def test_the_most_memory_of_any_of_their_steps(text: str, found: list[FinalFigures]) -> None:
    used: dict[int, float] = {}
    for number, amount, unit in re.findall(r",JobIDRaw=(\d+)\.[^,]+.*,MaxRSS=([0-9.]+)([KMG]?)", text):
        used[int(number)] = max(used.get(int(number), 0), float(amount) * UNIT.get(unit, 1))
    assert {figures.id: figures.max_rss for figures in found if figures.max_rss is not None} == used
    assert len(used) > 200


def test_gpu_seconds_in_all(text: str, found: list[FinalFigures]) -> None:
    lines = jobs(text)
    together = zip(every(r"gres/gpu=(\d+)", lines), every(r",ElapsedRaw=(\d+)", lines), strict=True)
    assert sum(f.gpu_seconds or 0 for f in found) == sum(int(gpus or 0) * int(length or 0) for gpus, length in together)
