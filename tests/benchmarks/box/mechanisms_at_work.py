"""Jobs of one mechanism each, with parameters that leave nothing to chance unless a test says so."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.box.mechanisms import registry
from benchmarks.box.model import Job

MINUTE = 60.0

TRAINING: Mapping[str, float] = {
    "compute": 1.0,
    "jitter": 0.0,
    "resident": 1.0,
    "spread": 0.0,
    "spin": 0.0,
    "workers": 4,
    "prefetch": 2,
    "decode_load": 0.3,
    "read_load": 0.01,
    "seen": 1.0,
    "sigma": 0.0,
    "epoch": 1e9,
    "cached": 0.0,
    "stall": 0.0,
    "stall_every": 1e9,
    "host": 0.0,
    "checkpoint": 0.0,
    "checkpoint_every": 900.0,
    "evaluation": 0.0,
    "evaluation_every": 900.0,
    "evaluation_level": 0.8,
    "evaluation_alone": 0.0,
    "start_up": 120.0,
    "start_cores": 2.0,
    "start_io": 0.05,
    "memory": 40.0,
    "main": 0.8,
    "power": 0.7,
    "sm": 0.8,
    "tensor": 0.4,
    "dram": 0.4,
}
STANDING: Mapping[str, float] = {"hung_power": 0.04, "hung_sm": 0.09, "hung_dram": 0.004, "spins": 0.1}
"""What training does once it stands still for good."""

KERNELS: Mapping[str, float] = {"power": 0.5, "sm": 0.6, "tensor": 0.2, "dram": 0.3}
PERSON: Mapping[str, float] = {
    "cell": 60,
    "level": 0.8,
    "think": 30,
    "tail": 3.0,
    "leaves": 1,
    "context": 1,
    "memory": 10,
    "cores": 0.2,
    "left_cores": 0.02,
    **KERNELS,
}
SERVER: Mapping[str, float] = {
    "rate": 0.5,
    "rhythm": 0,
    "day": 86400,
    "answer": 0.4,
    "start_up": 100,
    "memory": 30,
    "cores": 1,
    **KERNELS,
}
BUSY: Mapping[str, float] = {
    "resident": 0.95,
    "memory_bound": 0,
    "link": 1,
    "start_up": 60,
    "memory": 10,
    "main": 1,
    **KERNELS,
}
TINY: Mapping[str, float] = {"kernels": 4, "launch": 20, "start_up": 60, "memory": 8, "main": 1, **KERNELS}


def job(
    model: str = "training",
    minutes: float = 120,
    *,
    gpus: int = 1,
    nodes: int = 1,
    partition: str = "batch",
    cores_per_gpu: int = 16,
    on: str = "H100",
    seed: int = 1,
    **parameters: float,
) -> Job:
    """A job that trains unless it is said otherwise; what it trains with is TRAINING but for `parameters`."""
    known = registry.names(model)
    usual = {**TRAINING, **STANDING} if "compute" in known else {}
    drawn = {name: value for name, value in usual.items() if name in known}
    return Job(
        10_001,
        "ana",
        "lab01",
        partition,
        model,
        {registry.MODEL: registry.place(model), **drawn, **parameters},
        mixed=False,
        seed=seed,
        start=1000.0,
        end=1000.0 + minutes * MINUTE,
        gpus=tuple((f"gpu{number * nodes // gpus + 1:02d}", number % (gpus // nodes)) for number in range(gpus)),
        cpu_limit=cores_per_gpu * gpus // nodes,
        model=on,
    )


def in_turn(first: Job, second: Job, turn: float) -> Job:
    """The first one's mechanism, and then the second one's, in the first one's time and place."""
    parameters = {registry.FIRST + name: value for name, value in first.parameters.items()}
    parameters |= {registry.SECOND + name: value for name, value in second.parameters.items()}
    return Job(**{**vars(first), "parameters": {**parameters, registry.TURN: turn}})
