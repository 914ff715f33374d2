"""A score as data: a record for each thing that was judged, so that scores add up by being put one after the other."""

from __future__ import annotations

import msgspec

SHOWN_BY = ("processes", "crowd", "both")


class Case(msgspec.Struct, frozen=True):
    """Where a record is from: the run by its seed, the job by number (0: none), what goes on there, and who showed it:
    `processes` where exporters of its nodes were processes on the NVML double, `crowd` where none was, or `both`.
    """

    seed: int
    job: int
    mechanism: str
    partition: str = ""
    mixed: bool = False
    shown_by: str = ""


class Condition(msgspec.Struct, frozen=True):
    """What became of a condition that was there.

    `expected` is `must`, `may`, `no signal` (none of a node's tells it), `no rule` (a signal does, and no rule is there
    for it), `early` (over before a rule is asked), or `cut`: one that must be told, had the run not ended so early;
    `by_table`: must be without the exemptions from the table of rules. `found`: an incident was open for it; `named`:
    under its own rule; `beside`: its own rule was told, if only beside another one. `delay` is when its own rule was
    told, in seconds from the earliest instant at which it could have opened; below 0 where what was before helped it.
    `first_word` is the same of any rule's.
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
    beside: bool = False
    delay: float | None = None
    first_word: float | None = None
    by_table: bool = False


class Incident(msgspec.Struct, frozen=True):
    """What an incident was worth as a whole, by what it first opened in.

    `outcome` is `true` (something that must be told), `allowed` (that may be), `other rule` (something was wrong, but
    never was it told under a rule that is there for that), `excused` (one of its GPUs had a fault), `false`, or
    `unjudged` (information and reports, of which the truth says nothing). `cause` is `right`, `wrong`, `among` or `not
    among` those between which it hesitates, or empty where no truth has one to compare: the last word's, and the first
    one's; `main_cause` is the last word's beside what took most alone.
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
    first_cause: str = ""
    main_cause: str = ""
    wasted: float | None = None
    """GPU-seconds that were not busy while it was open and in the window before, as it says; None of a GPU's or node's.
    """
    truly_wasted: float | None = None
    """The same by the truth; None where that was not kept."""


class Standing(msgspec.Struct, frozen=True):
    """A rule that stood over an incident from `since` to `until`, without a break and within one opening, and what it
    was worth then: an `outcome` as an incident's. `first`: the incident opened for the first time with it.
    """

    case: Case
    id: int
    """The incident's."""
    kind: str
    rule: str
    causes: tuple[str, ...]
    """Those that were named first."""
    severity: str
    since: float
    until: float
    first: bool
    outcome: str


class Use(msgspec.Struct, frozen=True):
    """A job by the ledger of waits alone, without any rule: `wasting`, `well` or `between`; and what was told of it."""

    case: Case
    worth: str
    told: tuple[str, ...]
    """Rules of its incidents, those that stood beside others too."""
    lost: float | None
    """GPU-seconds lost to waits; None where that was not kept."""
    of_loss: bool
    """A wait was told of it while it lost."""


class FalseMail(msgspec.Struct, frozen=True):
    """A message about a healthy job, about somebody else's job, or to a user about no job at all. `owner`: it went to a
    user, else to operators.
    """

    case: Case
    at: float
    sink: str
    to: str
    owner: bool
    rule: str
    subject: str


class OwnerMail(msgspec.Struct, frozen=True):
    """A mail to a job's owner; `worth` is `must` where something had to be told of the job, `may`, or `healthy`, and
    `lost` what the job lost of its GPU time to waits, by the ledger and no rule.
    """

    case: Case
    worth: str
    lost: float | None
    at: float
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
    """What healthy jobs of a mechanism held in a run, and for how much of that anything could have been told."""

    case: Case
    """Without a job."""
    jobs: int
    gpu_hours: float
    watched: float
    """GPU-hours from the end of grace and the shortest window on."""


class Run(msgspec.Struct, frozen=True):
    """A run as a whole: its jobs, its GPU-hours, and what went wrong in it."""

    seed: int
    jobs: int
    gpu_hours: float
    passes: int
    failures: int
    late: float
    notes: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """All that was judged in one run, or in several."""

    runs: tuple[Run, ...] = ()
    conditions: tuple[Condition, ...] = ()
    incidents: tuple[Incident, ...] = ()
    standings: tuple[Standing, ...] = ()
    mails: tuple[FalseMail, ...] = ()
    accounts: tuple[Account, ...] = ()
    healthy: tuple[Healthy, ...] = ()
    uses: tuple[Use, ...] = ()
    owner_mails: tuple[OwnerMail, ...] = ()

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))
