"""What a fleet in a box plays, what is true of it, and what was seen: the data that its parts hand one another.

Times are seconds of the full-length run, whatever the time scale: a scenario's from its beginning, a course's and a
truth's from the beginning of their job. GPU-seconds are of the full-length run, too. Truth is written by the mechanism
that makes a course, and read by scoring alone: nothing that plays or observes looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fakes.cgroup import Use
from tests.fakes.nvml import SAMPLE_PERIOD, Load

Gpu = tuple[str, int]
"""A GPU by its node's name and NVML's index there."""


@dataclass(frozen=True)
class Job:
    """A job with its place: it holds `gpus` from `start` to `end`.

    `partition` says what kind of job it is (`batch`, `interactive` or `serving`), as sites have partitions for each.
    `mechanism` is the name of what goes on in it, with `parameters` drawn for it; with `seed` they make its course, the
    same at every time. `mixed`: two mechanisms at once or in turn, or one near a threshold.
    """

    number: int
    user: str
    account: str
    partition: str
    mechanism: str
    parameters: Mapping[str, float]
    mixed: bool
    seed: int
    start: float
    end: float
    gpus: tuple[Gpu, ...]
    scheduler: str = "slurm"
    cpu_limit: int = 8
    """Cores on each of its nodes."""

    model: str = "H100"
    """Of its GPUs: a name of tests.fakes.nvml.models."""

    sample_period: float = SAMPLE_PERIOD
    """Seconds between their driver's samples of utilization, which bound the shortest gap that can be seen."""

    @property
    def workload(self) -> str:
        """As the exporter's label has it; a pod's namespace is its user."""
        if self.scheduler == "slurm":
            return f"slurm/{self.number}"
        return f"k8s/{self.user}/{self.pod}/{self.pod_uid}"

    @property
    def pod(self) -> str:
        return f"train-{self.number}"

    @property
    def pod_uid(self) -> str:
        return f"00000000-0000-4000-8000-{self.number:012d}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """In the order of its GPUs, each once."""
        return tuple(dict.fromkeys(node for node, _ in self.gpus))


@dataclass(frozen=True)
class Phase:
    """From `at` on: what the job does on each of its GPUs (in the order of `Job.gpus`; a load's pattern begins with the
    phase), and on each of its nodes (in the order of `Job.nodes`). A load without processes is a GPU on which nothing
    of the job runs.
    """

    at: float
    loads: tuple[Load, ...]
    hosts: tuple[Use, ...]
    link_bytes: float | None = None
    """A second and GPU over NVLink and PCIe; None for what computing usually brings."""


@dataclass(frozen=True)
class Condition:
    """Something that is wrong with a job from `since` to `until`, as the mechanism knows.

    `rule` is the one that is there for it, `causes` what the mechanism really is, in the alerter's words (one of them;
    two where two mechanisms share it). `must`: the signals carry it and it lasts long enough, so a monitor that misses
    it is wrong. Otherwise it may be told and may be not: it is near a bound, too short, `silent`, which says why no
    signal of a node can tell it, or `unruled`, which says what a signal shows that no rule is there for. `step` is the
    length of the job's steps where it has some.
    """

    rule: str
    causes: frozenset[str]
    since: float
    until: float
    must: bool
    silent: str = ""
    step: float | None = None
    early: str = ""
    """Why no rule is asked yet, where it is over before one is: nothing that a signal could mend."""

    main: frozenset[str] = frozenset()
    """Of the causes what took most."""

    unruled: str = ""
    by_table: bool = False
    """It must be told by the table of rules to the letter, with none of the exemptions that `must` takes into account.
    """


@dataclass(frozen=True)
class Truth:
    """What a job's GPUs really did. `spent` are GPU-seconds by what each was doing or waiting for (`computing`,
    `loader`, `collective`, `launch`, `checkpoint`, `evaluation`, `start_up`, `person`, `request`, `hang`, `nothing`);
    together they are the job's GPUs times its length. `busy` are the GPU-seconds with a kernel resident, exactly.
    A job without conditions is healthy.
    """

    spent: Mapping[str, float]
    busy: float
    conditions: tuple[Condition, ...] = ()
    wasted: float | None = None
    """GPU-seconds of the ledger's waits that something is to blame for: no start, no person who thinks, no server that
    is called, no wait that is meant. No rule and no bound is in it. None where it was not kept.
    """
    worked: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Instants of the job's life, and how much of `busy` there was by each; None where it was not kept."""
    losses: tuple[tuple[float, float, float], ...] = ()
    """From when to when how many GPU-seconds of `wasted` were lost; nothing was at any other time."""
    reports: tuple[Condition, ...] = ()
    """What a report at the job's end must or may tell. A job may be healthy and have some."""


@dataclass(frozen=True)
class Simulated:
    """A job's course, and the truth about it."""

    course: tuple[Phase, ...]
    truth: Truth


@dataclass(frozen=True)
class Fault:
    """Something that happens to a GPU at `at`: `xid` (with its number), `lost`, `thermal` (a share of the time until
    `until`), `leaked` (bytes held by no process until `until`).
    """

    gpu: Gpu
    at: float
    kind: str
    value: float = 0.0
    until: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A whole run of a fleet: `nodes` of `gpus_per_node` GPUs, from 0 to `length`, and what it was made from."""

    seed: int
    nodes: tuple[str, ...]
    gpus_per_node: int
    length: float
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...] = ()
    parameters: str = ""
    """Name of the file of parameters."""

    models: Mapping[str, str] = field(default_factory=dict)
    """By node, the model of its GPUs (a name of tests.fakes.nvml.models); H100 where none is named."""

    sample_period: float = SAMPLE_PERIOD
    """Seconds between the drivers' samples of utilization."""

    full: float = 1.0
    """The highest utilization that a driver reports: some say 99 % of a GPU that is never idle."""


@dataclass(frozen=True)
class Told:
    """One event in an incident's story, at scenario time: its kind in the store's words, and rule and causes after it.

    With `rule opened` and `rule cleared` the rule is the one that joined or left. Empty where the event says nothing.
    """

    at: float
    kind: str
    rule: str
    causes: tuple[str, ...]
    severity: str


@dataclass(frozen=True)
class SeenIncident:
    """An incident as the store has it at the end. `told` is its story, `contributing` all rules that ever were."""

    id: int
    kind: str
    """Efficiency, gpu_fault, leaked_memory, throttled or report."""
    workload: str
    gpu: str
    """Of an incident of a GPU `NODE/INDEX`, of a node's own `NODE`; empty of a job's."""
    rule: str
    contributing: tuple[str, ...]
    causes: tuple[str, ...]
    severity: str
    user: str
    opened: float
    resolved: float | None
    resolution: str
    wasted: float | None
    """GPU-seconds measured and not busy since `started`, as long as it was open."""
    told: tuple[Told, ...] = ()
    started: float | None = None
    """When the window began that opened it; None where it was not kept."""


@dataclass(frozen=True)
class Message:
    """What a receiver was sent: `sink` is `mail` or `slack`, `to` the address or channel, `workloads` it speaks of."""

    at: float
    sink: str
    to: str
    subject: str
    key: str
    workloads: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """A job's row of the usage ledger, all hours together, in GPU-seconds; joules."""

    allocated: float
    observed: float
    busy: float
    energy: float | None


@dataclass(frozen=True)
class Observed:
    """All that a run left: read from the store, the sinks and Prometheus after its end."""

    incidents: tuple[SeenIncident, ...]
    messages: tuple[Message, ...]
    ledger: Mapping[str, Ledger]
    """By workload."""
    passes: int = 0
    failures: int = 0
    late: float = 0.0
    """Of the run's time, the share in which a pass or a scrape was overdue by more than its interval."""
    notes: tuple[str, ...] = field(default=())
    """What went wrong in the harness itself, so that figures of such a run are not taken for the product's."""
