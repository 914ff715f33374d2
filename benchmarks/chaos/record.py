"""All that a run left: what was true, what happened, what the store, the sinks and the pages said.

It is what the checker reads, and nothing else: a test makes one by hand. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results import Provenance

from .happened import Happened


@dataclass(frozen=True)
class Condition:
    """Something that is wrong with a job from `since` to `until` (None: to the end of the run).

    `rules` are those that may say so, `window` is that of the slowest, in wall seconds. `after` is for how long what
    was before may still be seen in a window: a rule may speak of it that late.
    """

    rules: frozenset[str]
    since: float
    until: float | None
    window: float
    after: float = 0.0

    def ends(self, run: float) -> float:
        return run if self.until is None else self.until


@dataclass(frozen=True)
class JobTruth:
    """A job that ran: `subject` as the store names it; when it certainly had its GPUs. No condition: it is healthy."""

    name: str
    subject: str
    user: str
    nodes: frozenset[str]
    gpus: float
    """How many; of a MIG instance its share."""
    start: float
    end: float | None
    seen: float
    """When it still had them for certain; with `end` this bounds its end."""
    grace: float
    """Wall seconds for which it is left alone."""
    conditions: tuple[Condition, ...] = ()
    utilization: float | None = None
    """The mean of its GPUs; None where it changes."""
    devices: frozenset[str] = frozenset()
    """UUIDs of its GPUs."""

    @property
    def parts(self) -> frozenset[str]:
        """What has to be seen, all of it, so that the job is."""
        return self.nodes | self.devices


@dataclass(frozen=True)
class StoredIncident:
    """A row of the store at the end."""

    id: int
    subject: str
    kind: str
    rule: str
    state: str
    started_at: float
    opened_at: float
    resolved_at: float | None
    resolution: str | None
    user: str
    nodes: frozenset[str] = frozenset()
    severity: str = "warning"


@dataclass(frozen=True)
class StoredEvent:
    """A row of an incident's history."""

    id: int
    incident: int
    at: float
    kind: str
    actor: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredNotice:
    """A row of what is to be told; `delivery` is the message that it went into."""

    id: int
    incident: int
    receiver: str
    audience: str
    news: str
    at: float
    delivery: int | None
    dropped: str | None


@dataclass(frozen=True)
class StoredDelivery:
    """A row of the outbox. `mark` is by what the sink knows it: a mail's Message-ID, else a message's key."""

    id: int
    key: str
    receiver: str
    at: float
    attempts: int
    sent_at: float | None
    failed_at: float | None
    error: str
    mark: str


@dataclass(frozen=True)
class Taken:
    """A message that a sink took, each time that it did; of one that it refused the key is that of no message."""

    sink: str
    key: str
    at: float
    to: tuple[str, ...]
    incidents: tuple[int, ...]
    headers: tuple[tuple[str, str], ...]
    """Decoded."""
    body: str
    """Its text, as people read it and not as it was encoded; of a webhook, which programs read, its JSON."""
    sender: str = ""
    """The alerter that sent it, by the address of its page there; empty where that is not in it."""
    html: str = ""
    """What a browser reads of it."""
    blocks: tuple[str, ...] = ()
    """Every text of a Slack message's blocks."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is to be read in it."""
        return (self.body, self.html, *self.blocks, *(value for _, value in self.headers))


@dataclass(frozen=True)
class Look:
    """What the store held at one moment: who is active (subject, class, numbers of incidents), and who leads."""

    at: float
    active: tuple[tuple[str, str, tuple[int, ...]], ...]
    holder: str
    epoch: int


@dataclass(frozen=True)
class Firing:
    """What Alertmanager answered at one moment, after so many wall seconds: the incident of each alert."""

    at: float
    took: float
    incidents: tuple[int, ...]


@dataclass(frozen=True)
class Write:
    """A statement that changed what only an evaluator may change: by which replica, and whose lease it was then.

    Of the history (`incident_event`) these are changes and deletions, of which there must be none. `committed` is when
    its transaction came to count.
    """

    at: float
    table: str
    replica: str
    holder: str
    epoch: int
    committed: float | None = None


@dataclass(frozen=True)
class ExporterPage:
    """An exporter's page, as whoever asks it past all faults of the network gets it. `status` 0: no answer at all."""

    node: str
    at: float
    took: float
    """Wall seconds until it had answered that, and whether it is alive."""
    status: int
    visible: float | None = None
    success: float | None = None
    age: float | None = None
    utilizations: int = 0
    restarts: float = 0.0
    kubelet: float | None = None
    """Success of its collector; None where there is none."""
    alive: int = 200
    """Status of its liveness."""
    why: str = ""
    """What its liveness says."""
    instances: frozenset[str] = frozenset()
    """UUIDs of the MIG instances that it shows."""


@dataclass(frozen=True)
class AlerterPage:
    """An alerter's self-metrics. `status` 0: no answer at all."""

    replica: str
    at: float
    took: float
    status: int
    leads: bool = False
    epoch: float = 0.0
    store: bool = False
    last_pass: float = 0.0
    sources: Mapping[str, float] = field(default_factory=dict)
    watch_failures: Mapping[str, float] = field(default_factory=dict)
    """How often a source could not be watched, by its name."""
    failing: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which a receiver has failed; 0 where it is well."""


@dataclass(frozen=True)
class Ended:
    """A process of ours that ended though nothing had been done to it."""

    name: str
    at: float
    said: str


@dataclass(frozen=True)
class Record:
    """One run. `calm` is when the last fault was over and everything could settle until `ended`."""

    began: float
    ended: float
    time_scale: float
    interval: float
    """Wall seconds between two scrapes."""
    pass_interval: float
    lease: float
    gpus: Mapping[str, int]
    instances: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """UUIDs of the MIG instances of each node that there are all the time."""
    faults: tuple[Happened, ...] = ()
    jobs: tuple[JobTruth, ...] = ()
    incidents: tuple[StoredIncident, ...] = ()
    events: tuple[StoredEvent, ...] = ()
    notices: tuple[StoredNotice, ...] = ()
    deliveries: tuple[StoredDelivery, ...] = ()
    taken: tuple[Taken, ...] = ()
    sinks: Mapping[str, str] = field(default_factory=lambda: {"mail": "mail", "chat": "slack"})
    """What each receiver writes to; empty: what cannot be read back message by message."""
    firing: tuple[Firing, ...] = ()
    looks: tuple[Look, ...] = ()
    writes: tuple[Write, ...] = ()
    exporters: tuple[ExporterPage, ...] = ()
    alerters: tuple[AlerterPage, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()
    """HTML of the alerters' pages at the end, by address."""
    answers: tuple[tuple[str, str], ...] = ()
    """What else they, and the exporters, answered then: JSON, and metrics."""
    ended_by_themselves: tuple[Ended, ...] = ()
    ledger: Mapping[str, float] = field(default_factory=dict)
    """Allocated GPU-seconds of each job."""
    measured: Mapping[str, tuple[float, float]] | None = None
    """Observed and busy GPU-seconds of each job there."""
    logs: tuple[Path, ...] = ()
    unread: int = 0
    """How many logs there were beside those, which were not kept with the record."""
    secrets: tuple[str, ...] = ()
    """Throw-away ones, so that a record may be published with them: constants of the doubles, and a token that a key
    signed which Slurm was given for this run alone.
    """
    hostile: tuple[str, ...] = ()
    """Untrusted text that must never be in a page as it is."""
    unprintable: tuple[str, ...] = ()
    """Untrusted text that must never be anywhere as it is: what moves a terminal's cursor, or begins a line."""
    stalls: tuple[tuple[float, float], ...] = ()
    """Times in which this machine had no time for the harness: what was late then is nobody's fault."""
    scrapes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """When each target of Prometheus was scraped, of what that knows at the end and knew when it was emptied."""
    broke: str = ""
    """Why the harness ended the run before its time."""
    seed: int = 0
    length: float = 0.0
    """Wall seconds that were planned."""
    made: Provenance = field(default_factory=Provenance)

    def scaled(self, seconds: float) -> float:
        """Wall seconds of a duration of the full-length run."""
        return seconds / self.time_scale

    @property
    def incident(self) -> Mapping[int, StoredIncident]:
        return {one.id: one for one in self.incidents}

    @property
    def calm(self) -> float:
        return max((fault.ended for fault in self.faults), default=self.began)
