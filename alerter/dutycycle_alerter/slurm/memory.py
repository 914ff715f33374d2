"""What Slurm said last, for the passes in which it does not answer: facts of jobs and nodes, and no ends. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dutycycle_alerter.slurm.model import JobState, SlurmJob, SlurmNode, Snapshot

KEPT = 3600.0
"""Seconds for which a job is remembered that vanished from slurmctld's answers, and from the exporters' pages: whose it
is, and that it was over.
"""

_SHOWN_ID = re.compile(r"[0-9]{1,18}[_+][0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Memory:
    """`numbers` are raw ids by the ids that people use where those differ (`120_3`, `130+1`). `suspended` is when each
    job was last seen suspended, `vanished` when each that Slurm no longer tells of was last told of, or shown by an
    exporter (Unix seconds).
    """

    jobs: Mapping[int, SlurmJob]
    nodes: Mapping[str, SlurmNode]
    numbers: Mapping[str, int]
    suspended: Mapping[int, float]
    vanished: Mapping[int, float]


NOTHING = Memory({}, {}, {}, {}, {})


def learnt(before: Memory, snapshot: Snapshot, *, shown: Collection[int] = (), kept: float = KEPT) -> Memory:
    """The memory after an answer. A slurmctld that forgot its jobs, or hides them for a while, does not make us forget
    at once whose they are; nor ever that a job was over which exporters still show (`shown`): its epilog may never
    have run. Jobs without GPUs are forgotten.
    """
    vanished = {
        number: since
        for number, job in before.jobs.items()
        if number not in snapshot.jobs
        and job.start is not None
        and (job.holds_nodes or job.gpus_allocated)
        and snapshot.at - (since := snapshot.at if number in shown else before.vanished.get(number, snapshot.at)) < kept
    }
    jobs = {**{number: before.jobs[number] for number in vanished}, **snapshot.jobs}
    suspended = {number: at for number, at in before.suspended.items() if number in jobs}
    for number, job in snapshot.jobs.items():
        if job.state is JobState.SUSPENDED:
            suspended[number] = snapshot.at
    numbers = {name: number for number, job in jobs.items() if _SHOWN_ID.fullmatch(name := job.shown_id)}
    return Memory(jobs, snapshot.nodes, numbers, suspended, vanished)


def is_shown(name: str) -> bool:
    """Whether it is an id as people use them, of a task of an array or a part of a heterogeneous job."""
    return _SHOWN_ID.fullmatch(name) is not None


def raw_number(text: str, numbers: Mapping[str, int]) -> int | None:
    """The raw id in a job's name, which is that or what people use; None for what is neither (a SLUID)."""
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        return int(text)
    return numbers.get(text)
