"""Every mechanism by its name, and what parameters each one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from .kernels import BusyKernels, Hang, KeepAlive, TinySteps
from .people import Notebook, Server
from .phases import Prepared, Reinforcement, Rounds
from .scene import Mechanism
from .stragglers import HotRank, Pipeline, SlowNode, SlowRank
from .training import Training
from .turns import InTurn
from .unused import CpuOnly, Deadlock, Died, NoProcess, OverRequest

MODELS: Mapping[str, type] = {
    "training": Training,
    "slow rank": SlowRank,
    "hot rank": HotRank,
    "slow node": SlowNode,
    "pipeline": Pipeline,
    "no process": NoProcess,
    "cpu only": CpuOnly,
    "died": Died,
    "deadlock": Deadlock,
    "over-request": OverRequest,
    "tiny steps": TinySteps,
    "busy kernels": BusyKernels,
    "keep-alive": KeepAlive,
    "hang": Hang,
    "person": Notebook,
    "server": Server,
    "reinforcement": Reinforcement,
    "rounds": Rounds,
    "prepared": Prepared,
}
"""What simulates a mechanism; several mechanisms may have the same, with other parameters."""

MODEL = "model"
"""The parameter that says which: its place in MODELS."""

FIRST, SECOND, TURN = "first.", "second.", "turn"


def names(model: str) -> tuple[str, ...]:
    """The parameters that a model has."""
    return tuple(field.name for field in fields(MODELS[model]))


def place(model: str) -> float:
    """Of a model among the parameters of a job, which are numbers."""
    return float(list(MODELS).index(model))


def build(parameters: Mapping[str, float]) -> Mechanism:
    """What the parameters of a job stand for."""
    if TURN in parameters:
        parts = (
            {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
            for prefix in (FIRST, SECOND)
        )
        first, second = map(build, parts)
        return InTurn(first, second, parameters[TURN])
    model = MODELS[list(MODELS)[round(parameters[MODEL])]]
    mechanism: Mechanism = model(**{name: value for name, value in parameters.items() if name != MODEL})
    return mechanism
