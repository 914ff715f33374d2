"""Final figures of jobs from the accounting database's JSON: `/slurmdb/VERSION/jobs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dutycycle_alerter.slurm.documents import NOTHING_FOUND, error_number, listed
from dutycycle_alerter.slurm.fields import Fields, Nonsense
from dutycycle_alerter.slurm.gres import gpu_types_in, gpus_in
from dutycycle_alerter.slurm.hostlist import expand
from dutycycle_alerter.slurm.jobs import MINUTE
from dutycycle_alerter.slurm.model import FinalFigures
from dutycycle_alerter.slurm.states import ENDED, exit_code

FINAL = ENDED | {"REQUEUED"}
"""States of a run that is over. A requeued job waits or runs again under the same id, in a record of its own."""
_MEBIBYTE = 2**20


def read_figures(document: Mapping[str, object], where: str, nonsense: Nonsense) -> list[FinalFigures]:
    """Every run in an answer that is over. Raises SourceError; that nothing was found is no error."""
    if error_number(document) == NOTHING_FOUND:
        return []
    found = (_figures(Fields(item, nonsense, "jobs")) for item in listed(document, "jobs", where))
    return [figures for figures in found if figures is not None]


def _figures(fields: Fields) -> FinalFigures | None:
    number = fields.number("job_id")
    states = fields.part("state").words("current")
    if not number or not states:
        fields.wrong()
        return None
    time = fields.part("time")
    end = time.time("end")
    # Without a partition only the end has reached the database yet.
    if not set(states) & FINAL or end is None or not fields.text("partition"):
        return None
    tres = fields.part("tres")
    allocated, requested = _tres(tres, "allocated"), _tres(tres, "requested")
    elapsed, limit = time.number("elapsed"), time.number("limit")
    return FinalFigures(
        id=number,
        state=next(word for word in states if word in FINAL),
        shown_id=_shown_id(number, fields),
        user=fields.text("user") or fields.part("association").text("user"),
        account=fields.text("account"),
        partition=fields.text("partition"),
        qos=fields.text("qos"),
        name=fields.text("name"),
        cluster=fields.text("cluster"),
        submit=time.time("submission"),
        start=_start(time, end),
        end=end,
        elapsed=None if elapsed is None else float(elapsed),
        limit=None if limit is None else limit * MINUTE,
        nodes=() if fields.text("nodes").startswith("None") else fields.parsed(expand, "nodes") or (),
        gpus=gpus_in(allocated),
        gpu_types=gpu_types_in(allocated),
        cpus=allocated.get("cpu"),
        memory=allocated.get("mem"),
        memory_requested=requested.get("mem"),
        cpu_seconds=_seconds(time.part("total")),
        max_rss=_max_rss(fields.parts("steps")),
        exit_code=exit_code(fields, "exit_code", states),
    )


def _shown_id(number: int, fields: Fields) -> str:
    array, het = fields.part("array"), fields.part("het")
    task = array.number("task_id")
    if array.number("job_id") and task is not None:
        return f"{array.number('job_id')}_{task}"
    if het.number("job_id"):
        return f"{het.number('job_id')}+{het.number('job_offset') or 0}"
    return str(number)


def _start(time: Fields, end: float) -> float | None:
    """Until v0.0.37 it is the time at which the job could have begun: how long it ran tells when it did."""
    start, elapsed = time.time("start"), time.number("elapsed")
    if elapsed is None or (start is None and not elapsed):
        return start
    begun = end - elapsed - (time.number("suspended") or 0)
    return start if begun <= 0 or (start is not None and abs(start - begun) <= 1) else begun


def _tres(fields: Fields, name: str) -> Mapping[str, int]:
    """Amounts by name as in a TRES text; memory in bytes."""
    found: dict[str, int] = {}
    for item in fields.parts(name):
        kind, subtype, count = item.text("type"), item.text("name"), item.number("count")
        if kind and count is not None:
            found[f"{kind}/{subtype}" if subtype else kind] = count * _MEBIBYTE if kind == "mem" else count
    return found


def _seconds(fields: Fields) -> float | None:
    seconds, micro = fields.number("seconds"), fields.number("microseconds")
    return None if seconds is None else seconds + (micro or 0) / 1e6


def _max_rss(steps: Iterable[Fields]) -> int | None:
    """Bytes. Slurm calls what tasks used "requested", and what they wrote "consumed". 0: it never looked."""
    found = [
        used
        for step in steps
        for item in step.part("tres").part("requested").parts("max")
        if item.text("type") == "mem" and (used := item.number("count"))
    ]
    return max(found, default=None)
