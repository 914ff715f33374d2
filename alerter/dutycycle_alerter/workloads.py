"""What a scheduler adds to the jobs that a source shows: who they are, what they asked for, and when they ended.

The engine asks once a pass, before it reads the evidence. A scheduler that does not answer adds nothing and ends
nothing, and says so in its status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.fleet_now import FleetPart
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, Job
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.slurm.model import FinalFigures
from dutycycle_alerter.views import TargetStatus, WatchCounts


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended by its scheduler's word: when (Unix seconds), its word for how, and the figures of accounting,
    where there are any.
    """

    at: float
    outcome: str
    figures: FinalFigures | None = None


class Word(Protocol):
    """What the schedulers said in one pass."""

    @property
    def targets(self) -> tuple[TargetStatus, ...]:
        """Whether they answered."""
        ...

    def claimed(self, evidence: Evidence) -> Evidence:
        """The evidence with the jobs that hold GPUs of which the metrics do not tell the holder."""
        ...

    def completed(self, evidence: Evidence) -> Evidence:
        """The evidence with what the schedulers know of its jobs."""
        ...

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """What jobs say of themselves, by job id."""
        ...

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """The partitions of each node."""
        ...

    def out_of_service(self) -> Mapping[str, str]:
        """Nodes that take no jobs, `drained`, or cannot run any, `down`."""
        ...

    def cluster_of(self, node: str) -> str:
        """What the cluster that a node belongs to is called; empty where that is not known."""
        ...

    def other_names(self) -> Mapping[str, str]:
        """Nodes by the names that another scheduler may know them by: where its nodes are pods."""
        ...

    def fleet(self) -> Sequence[FleetPart]:
        """How many GPUs are allocated, free or out of service, for each scheduler."""
        ...

    def end(self, incident: Incident) -> End | None:
        """How the incident's job ended; None while it has not, or where that is not known."""
        ...

    def final(self, job: Job) -> Final | None:
        """What accounting says of a job that has ended; None where it does not say, or not yet."""
        ...


class Workloads(Protocol):
    """The schedulers, over time."""

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> Word:
        """What they say now. Final figures are asked for of `ended` jobs, and of those of `incidents` that are over."""
        ...

    def watches(self) -> Mapping[str, WatchCounts]:
        """How their watches fare, by the name of the target; from any thread."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Nobody:
    """No scheduler is configured: the exporters' word is all there is."""

    targets: tuple[TargetStatus, ...] = ()

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> Nobody:  # noqa: ARG002
        """Nothing."""
        return self

    def watches(self) -> Mapping[str, WatchCounts]:
        """None."""
        return {}

    def claimed(self, evidence: Evidence) -> Evidence:
        """GPUs whose holder the metrics do not tell have none."""
        return replace(evidence, unowned=()) if evidence.unowned else evidence

    def completed(self, evidence: Evidence) -> Evidence:
        """The evidence as it is."""
        return evidence

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:  # noqa: ARG002
        """Nothing."""
        return {}

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """Not known."""
        return {}

    def out_of_service(self) -> Mapping[str, str]:
        """Not known."""
        return {}

    def cluster_of(self, node: str) -> str:  # noqa: ARG002
        """Not known."""
        return ""

    def other_names(self) -> Mapping[str, str]:
        """None."""
        return {}

    def fleet(self) -> Sequence[FleetPart]:
        """Not known."""
        return ()

    def end(self, incident: Incident) -> End | None:  # noqa: ARG002
        """Not known."""
        return None

    def final(self, job: Job) -> Final | None:  # noqa: ARG002
        """Not known."""
        return None

    def close(self) -> None:
        """Nothing to let go of."""
