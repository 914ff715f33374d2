"""A score as data: a record for each thing that was judged, so that scores add up by being put one after the other."""

from __future__ import annotations

from typing import Self

import msgspec


class Case(msgspec.Struct, frozen=True):
    """Where a record is from: the run by its seed, the job by number (0: none), and what goes on there."""

    seed: int
    job: int
    mechanism: str
    partition: str = ""
    mixed: bool = False


class Condition(msgspec.Struct, frozen=True):
    """What became of a condition that was there.

    `expected` is `must`, `may`, `silent`, or `cut`: one that must be told, had the run not ended so early. `found`: an
    incident was open for it; `named`: under its own rule. `delay` is in seconds from the earliest instant at which the
    rule could have opened; below 0 where what was before helped it.
    """

    case: Case
    rule: str
    expected: str
    reason: str
    step: float | None
    since: float
    until: float
    found: bool
    named: bool
    delay: float | None


class Incident(msgspec.Struct, frozen=True):
    """What an incident was worth.

    `outcome` is `true` (something that must be told), `allowed` (that may be), `excused` (one of its GPUs had a
    fault), `false`, or `unjudged` (information and reports, of which the truth says nothing). `cause` is `right`,
    `wrong`, `among` or `not among` those between which it hesitates, or empty where no truth has one to compare.
    """

    case: Case
    id: int
    kind: str
    rule: str
    causes: tuple[str, ...]
    severity: str
    opened: float
    outcome: str
    named: bool
    cause: str
    reopened: int
    reclassified: int
    recaused: int


class FalseMail(msgspec.Struct, frozen=True):
    """A message about a healthy job. `owner`: it went to the job's owner, else to somebody else."""

    case: Case
    at: float
    sink: str
    to: str
    owner: bool
    rule: str
    subject: str


class Account(msgspec.Struct, frozen=True):
    """GPU-seconds of a job by the truth and by the ledger; None where the ledger has nothing of it."""

    case: Case
    allocated: float
    busy: float
    seen_allocated: float | None
    seen_observed: float | None
    seen_busy: float | None


class Healthy(msgspec.Struct, frozen=True):
    """What healthy jobs of a mechanism held in a run."""

    case: Case
    """Without a job."""
    jobs: int
    gpu_hours: float


class Run(msgspec.Struct, frozen=True):
    """A run as a whole: its jobs, its GPU-hours, those of its jobs that it cut off, and what went wrong in it."""

    seed: int
    jobs: int
    gpu_hours: float
    cut: int
    passes: int
    failures: int
    late: float
    notes: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """All that was judged in one run, or in several."""

    runs: tuple[Run, ...] = ()
    conditions: tuple[Condition, ...] = ()
    incidents: tuple[Incident, ...] = ()
    mails: tuple[FalseMail, ...] = ()
    accounts: tuple[Account, ...] = ()
    healthy: tuple[Healthy, ...] = ()

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        return msgspec.json.decode(text, type=cls)
