"""What goes between the run and the processes that its nodes live in.

Over `control` a process says where its pages are ({node: "HOST:PORT"}), is told the `Clock` when the scenario begins
and None when it is over, and answers that with a `Report`. Over `feed` it gets `Fed` jobs ahead of their starts, and
None after the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.nvml import Model

from ..model import Fault, Job, Phase
from .settings import NodeSettings


@dataclass(frozen=True)
class Assignment:
    """What a process is to be: nodes by their names, each of `gpus` GPUs of a model, and the faults that they have."""

    models: Mapping[str, Model]
    gpus: int
    directory: Path
    settings: NodeSettings
    faults: Sequence[Fault]


@dataclass(frozen=True)
class Fed:
    """A job that begins soon, with all that it will do."""

    job: Job
    course: tuple[Phase, ...]


@dataclass
class Report:
    """How the process itself fared: readings of NVML that were due (those of them that came too late, as the next one
    was due, too), and by how many seconds of the scenario jobs, or changes of jobs, came late.
    """

    reads: int = 0
    late_reads: int = 0
    late_jobs: dict[int, float] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
