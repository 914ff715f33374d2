"""Slurm's jobs and nodes as the alerter sees them: frozen facts without I/O.

Times are Unix seconds, lengths seconds, memory bytes. None is "Slurm did not say", or said nonsense; never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class JobState(StrEnum):
    """What a job's state amounts to. `COMPLETING` has ended, but its nodes are not free yet."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExitCode:
    """How a job's script ended: its status, or the signal that killed it. None is not known."""

    status: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """A job's GPUs on one node, in Slurm's numbering of them (see docs/slurm.md). `indexes` is None if not known."""

    count: int
    type: str = ""
    indexes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job as the controller knows it. `id` is the raw job id, by which workloads are named (`slurm/<id>`).

    Names, comments and reasons are anybody's text. `nodes` are names of nodes, which need not be their host names.
    `gpus` has the GPUs on each node while the job holds them; `gpus_allocated` and `gpus_requested` are totals over all
    nodes (`gpus_requested` of one task of an array; `tasks` of them wait in this record). `start` is None while the job
    waits, `end` until it has ended. `suspended` is when it was last suspended or resumed, None where it never was.
    `limit` is None for a job without a limit, too.
    """

    id: int
    state: JobState
    states: tuple[str, ...] = ()
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_job_offset: int | None = None
    cluster: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    comment: str = ""
    reason: str = ""
    submit: float | None = None
    eligible: float | None = None
    start: float | None = None
    end: float | None = None
    suspended: float | None = None
    limit: float | None = None
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[NodeGpus, ...]] = field(default_factory=dict)
    gpus_allocated: int | None = None
    gpus_requested: int | None = None
    gpu_types: Mapping[str, int] = field(default_factory=dict)
    cpus_requested: int | None = None
    cpus_allocated: int | None = None
    memory_requested: int | None = None
    memory_allocated: int | None = None
    exit_code: ExitCode = ExitCode()
    batch: bool | None = None
    restarts: int | None = None
    tasks: int = 1

    @property
    def shown_id(self) -> str:
        """The id that people use: `120_3` for a task of an array, `130+1` for a part of a heterogeneous job."""
        if self.array_job_id is not None:
            return f"{self.array_job_id}_{'*' if self.array_task_id is None else self.array_task_id}"
        if self.het_job_id is not None:
            return f"{self.het_job_id}+{self.het_job_offset or 0}"
        return str(self.id)

    @property
    def holds_nodes(self) -> bool:
        """Whether its nodes are still its own."""
        return self.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node. `states` are Slurm's words in upper case, base state and flags together; `reason` is anybody's text.

    `hostname` and `address` are NodeHostName and NodeAddr, either of which may be several nodes'. `gpu_types` are the
    configured GPUs by type, "" where they have none. `gpus_allocated` is None where Slurm does not say.
    """

    name: str
    states: frozenset[str] = frozenset()
    hostname: str = ""
    address: str = ""
    gpus: int = 0
    gpu_types: Mapping[str, int] = field(default_factory=dict)
    gpus_allocated: int | None = None
    reason: str = ""
    partitions: tuple[str, ...] = ()

    @property
    def down(self) -> bool:
        """Whether nothing can run there, whatever the reason."""
        return bool(self.states & _DOWN)

    @property
    def draining(self) -> bool:
        """Whether it takes no new jobs by an operator's wish; those that it has may still run."""
        return bool(self.states & _DRAIN)

    @property
    def maintenance(self) -> bool:
        """Whether it is in a maintenance reservation or being rebooted."""
        return bool(self.states & _MAINTENANCE)

    @property
    def future(self) -> bool:
        """Whether it is only planned: not a machine yet."""
        return "FUTURE" in self.states


_DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "NOT_RESPONDING", "NO_RESPOND", "INVALID_REG", "POWERED_DOWN"})
_DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_MAINTENANCE = frozenset({"MAINT", "MAINTENANCE", "REBOOT_ISSUED", "REBOOT"})


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """GPUs that waiting jobs ask for in one partition for one reason. `jobs` counts the tasks of arrays."""

    partition: str
    reason: str
    jobs: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What Slurm said in one round, at the instant `at`.

    `nodes_at` is when the nodes were last read (None: never, `nodes` is then empty); `nodes_error` tells why not this
    time. `nonsense` counts, by field, values that were not of the type that they should be and count as not known.
    """

    at: float
    jobs: Mapping[int, SlurmJob]
    nodes: Mapping[str, SlurmNode] = field(default_factory=dict)
    nodes_at: float | None = None
    nodes_error: str = ""
    nonsense: Mapping[str, int] = field(default_factory=dict)
    pending: tuple[PendingRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalFigures:
    """What the accounting database says of one run of a job that has ended, all of its steps together.

    A job that was requeued has one for each run. `cpu_seconds` is user and system time, `max_rss` (bytes) the highest
    of any task of any step, None where Slurm never looked. `state` is Slurm's word, as `COMPLETED` or `TIMEOUT`.
    """

    id: int
    state: str
    shown_id: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    cluster: str = ""
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed: float | None = None
    limit: float | None = None
    nodes: tuple[str, ...] = ()
    gpus: int | None = None
    gpu_types: Mapping[str, int] = field(default_factory=dict)
    cpus: int | None = None
    memory: int | None = None
    memory_requested: int | None = None
    cpu_seconds: float | None = None
    max_rss: int | None = None
    exit_code: ExitCode = ExitCode()

    @property
    def gpu_seconds(self) -> float | None:
        """Allocated GPU-seconds; None where either factor is unknown."""
        return None if self.gpus is None or self.elapsed is None else self.gpus * self.elapsed
