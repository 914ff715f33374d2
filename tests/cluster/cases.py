"""The jobs of the cluster, and what is to be said of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.fakes.cgroup import Use
from tests.fakes.node import Work
from tests.fakes.nvml import FULL, IDLE, Level, Paused, Steps

from .loads import Behaviour

GAMES, MAIL, NEWS = "games", "mail", "news"

NO_PROCESS, IDLE_NOTEBOOK, OVER_REQUEST = "no process", "idle notebook", "over-request"
DATA_LOADING, COMMUNICATION, SMALL_WORK, HANG = (
    "data loading",
    "communication or straggler",
    "small work per step",
    "hang",
)

SPINNING = {"sm": 0.08, "occupancy": 0.01, "tensor": 0.0, "hmma": 0.0, "fp32": 0.0, "dram": 0.0}
"""Profiling counters of a collective that waits for another GPU: few multiprocessors spin, and nothing is computed."""


@dataclass(frozen=True)
class Finding:
    """The incident that a job must have."""

    rule: str
    causes: tuple[str, ...]
    severity: str = "warning"


@dataclass(frozen=True)
class Case:
    """A job: who submits it with which options, what it does in each of its lives, and what is found in the first."""

    user: str
    options: tuple[str, ...]
    lives: tuple[Behaviour, ...]
    finding: Finding | None = None


HEALTHY = Behaviour((Level(0.95),) * 4)

CASES: Mapping[str, Case] = {
    "notebook": Case(
        GAMES,
        ("-w", "n1", "--gres=gpu:1"),
        (Behaviour((IDLE,), Work(command=("jupyter-lab",), use=Use(cpu_cores=0.02))),),
        Finding("idle", (IDLE_NOTEBOOK,)),
    ),
    "empty": Case(MAIL, ("-w", "n1", "--gres=gpu:1"), (Behaviour((None,)),), Finding("idle", (NO_PROCESS,))),
    "busy": Case(NEWS, ("-w", "n1", "--gres=gpu:4"), (HEALTHY,)),
    "underused": Case(
        GAMES, ("-w", "n1", "--gres=gpu:1"), (Behaviour((Level(0.12),)),), Finding("underused", (SMALL_WORK,))
    ),
    "low-sm": Case(
        NEWS,
        ("-w", "n1", "--gres=gpu:1"),
        (Behaviour((Level(0.9),), Work(activity={"sm": 0.1, "tensor": 0.05})),),
        Finding("low_sm_activity", (SMALL_WORK,)),
    ),
    "half": Case(
        GAMES,
        ("-w", "n2", "--gres=gpu:4"),
        (Behaviour((Level(0.9), None, Level(0.9), None)),),
        Finding("partially_idle", (OVER_REQUEST,)),
    ),
    "loader": Case(
        MAIL,
        ("-w", "n2", "--gres=gpu:2"),
        (Behaviour((Steps(2.0, 0.35),) * 2, Work(use=Use(cpu_cores=7.8, io_pressure=0.3))),),
        Finding("stalled", (DATA_LOADING,)),
    ),
    "hung": Case(
        MAIL,
        ("-w", "n2", "--gres=gpu:2"),
        (Behaviour((FULL,) * 2, Work(power_factor=0.05, activity=SPINNING), silent_links=True),),
        Finding("hung", (HANG,), "critical"),
    ),
    "uneven": Case(
        NEWS,
        ("-N2", "-n2", "-w", "n3,n4", "--gres=gpu:2", "--no-requeue"),
        (Behaviour((Level(0.92), Level(0.92), Level(0.45), Level(0.45))),),
        Finding("uneven", (COMMUNICATION,)),
    ),
    "evaluating": Case(GAMES, ("-w", "n3", "--gres=gpu:2"), (Behaviour((Paused(Level(0.97), 540, 60),) * 2),)),
    # Its first life was waste, and the second one is not to be told of it.
    "again": Case(
        NEWS,
        ("-w", "n3", "--gres=gpu:1", "--requeue"),
        (Behaviour((IDLE,), Work(command=("jupyter-lab",), use=Use(cpu_cores=0.02))), Behaviour((Level(0.9),))),
        Finding("idle", (IDLE_NOTEBOOK,)),
    ),
    "doomed": Case(GAMES, ("-w", "n4", "--gres=gpu:4", "--no-requeue"), (HEALTHY,)),
    "array": Case(MAIL, ("-w", "n3", "--gres=gpu:1", "--array=0-5%3"), (Behaviour((Level(0.85),)),)),
}
SHORT_TASK = 15 * 60.0
"""Seconds that a task of the array takes in the full-length run."""
