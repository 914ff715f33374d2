"""From the growth of GPUs' counters to what a job consumed, by model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dutycycle_alerter.history import GPU_COUNTERS, Values
from dutycycle_alerter.model import Consumption, Gpu
from dutycycle_alerter.usage import idle_seconds, known_sum, unused_seconds

_ALLOCATED, _OBSERVED, _BUSY, _ENERGY = (
    GPU_COUNTERS.index(name) for name in ("allocated", "observed", "busy", "energy")
)


def consumed(growth: Iterable[tuple[Gpu, Values]]) -> Iterator[Consumption]:
    """The consumption on GPUs of each model, from (GPU, growth of each of `GPU_COUNTERS`) of every GPU."""
    by_model: defaultdict[str, list[tuple[Gpu, Values]]] = defaultdict(list)
    for gpu, values in growth:
        by_model[gpu.model].append((gpu, values))
    for model, gpus in sorted(by_model.items()):
        parts = [values for _, values in gpus]
        yield Consumption(
            model=model,
            allocated=known_sum(part[_ALLOCATED] for part in parts) or 0.0,
            observed=known_sum(part[_OBSERVED] for part in parts) or 0.0,
            busy=known_sum(part[_BUSY] for part in parts) or 0.0,
            energy=known_sum(part[_ENERGY] for part in parts),
            idle=known_sum(idle_seconds(part[_OBSERVED], part[_BUSY]) for part in parts),
            by_gpu={gpu.key: unused_seconds(part[_OBSERVED], part[_BUSY]) for gpu, part in gpus},
        )
